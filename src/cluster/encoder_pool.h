// The encoders that may be asked: what is known of each, and which would be the first to have an
// image's rows. Decides; asks nobody.
//
// Load is counted here, by what has been dispatched, and corrected by what encoders report: a
// report is old when it comes, one's own attempt is not.
//
// Health: two failures in a row, or a lost connection with images open, and an encoder is on
// probation: one image at a time, until it has answered three times. Another boot epoch is another
// encoder: nothing that was known of the old one counts.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "cluster/messages.h"

namespace saccade::cluster {

// How an attempt ended.
enum class Outcome : std::uint8_t { kRows, kNeutral, kFailure };

struct PoolSettings {
  Greeting self;                // what encoders are held to
  bool strict_numerics = true;  // unequal numerics are incompatible
};

// One thread.
class EncoderPool {
 public:
  enum class State : std::uint8_t { kAbsent, kIncompatible, kUp, kProbation, kQuarantined };

  struct Choice {
    int encoder = 0;
    Nanos finish = 0;   // from now until the rows are here, predicted; 0: nothing is known
    bool away = false;  // another is where the image belongs, and this one is sooner
  };

  EncoderPool(const Clock& clock, PoolSettings settings);

  // In a retired one's place, where there is one.
  int add(std::string name);
  // One that is absent is not there any more: its place may become another's.
  void retire(int encoder);
  bool retired(int encoder) const { return at(encoder).retired; }
  std::optional<int> find(std::string_view name) const;
  std::size_t in_use() const;  // that are not retired
  int size() const { return static_cast<int>(encoders_.size()); }

  // --- what a transport hears ---
  // Empty, or why the encoder may not be asked.
  std::string connected(int encoder, const Greeting& greeting);
  // `open`: images were being asked for.
  void disconnected(int encoder, bool open);
  void reported(int encoder, const Report& report);

  // --- choosing ---
  // Of those that may be asked and are not in `except`.
  std::optional<Choice> best(const Order& order, const std::vector<int>& except) const;
  // Of one of them.
  Nanos predicted_finish(int encoder, const Order& order) const;

  // --- what is asked of it ---
  // The stream of the new attempt, which is also its place in the order of attempts.
  std::uint64_t dispatched(int encoder, const Order& order);
  void accepted(bool cached);
  // Rows are here, `took` after the attempt began; the encoder itself needed `within` of that.
  void delivered(int encoder, const Order& order, Nanos took, Nanos within);
  void ended(int encoder, std::uint64_t stream, Outcome outcome);
  // Nothing has been heard of it for too long.
  void silent(int encoder);
  // Its rows were wrong: not asked again before it has another epoch.
  void quarantine(int encoder);

  State state(int encoder) const { return at(encoder).state; }
  const std::string& name(int encoder) const { return at(encoder).name; }
  std::uint64_t epoch(int encoder) const { return at(encoder).greeting.epoch; }
  std::int64_t open(int encoder) const {
    return static_cast<std::int64_t>(at(encoder).dispatches.size());
  }
  Nanos backlog(int encoder) const;
  bool may_be_asked(int encoder) const;
  bool any_may_be_asked() const;

 private:
  struct Dispatch {
    std::uint64_t stream = 0;
    Nanos predicted = 0;
    bool seen = false;  // a report has counted it
  };
  struct Encoder {
    std::string name;
    State state = State::kAbsent;
    std::string why;
    Greeting greeting;
    Report report;
    Nanos reported_at = 0;
    std::deque<Dispatch> dispatches;  // open ones
    int failures = 0;                 // in a row
    int answers = 0;                  // since on probation
    double transfer = 0;              // ns a byte of media and rows, smoothed
    std::uint64_t quarantined = 0;    // the epoch of it; 0: none
    bool retired = false;
  };
  const Encoder& at(int encoder) const { return encoders_.at(static_cast<std::size_t>(encoder)); }
  Encoder& at(int encoder) { return encoders_.at(static_cast<std::size_t>(encoder)); }
  void failed(Encoder& encoder);
  void answered(Encoder& encoder);

  const Clock& clock_;
  PoolSettings settings_;
  std::vector<Encoder> encoders_;
  std::uint64_t last_stream_ = 0;
  // Of accepted attempts, the share whose rows were there already: a moving average.
  double hit_rate_ = 0;
};

std::string_view name_of(EncoderPool::State state);

}  // namespace saccade::cluster
