// Tokens of launched steps on their way from the device: rows are asked for when a step is launched
// and read when it is settled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"
#include "ops/device.h"

namespace saccade {

struct Sampled {
  TokenId token = 0;
  TokenLogprob logprob;  // when asked for
  bool failed = false;   // the logits are not numbers, or no token may come
};

// Engine thread.
class SamplingLane {
 public:
  // rows: most of one step; alternatives: most that a row asks for; steps: launched and not read.
  static Result<SamplingLane> create(Device& device, std::int64_t rows, int alternatives,
                                     int steps);

  // What is asked for in one step. Good for one read() after `done` has been passed.
  struct Ticket {
    std::size_t place = 0;
    std::vector<std::int64_t> at;  // [rows] where in the place; -1: nothing was chosen for it
    std::vector<bool> logprobs;    // [rows]
    Event done;
  };
  // The token each slot was given last: BatchBuilder's, for tokens that are not known yet.
  View last_tokens() const { return last_tokens_.view(DType::kI32, rows_, 1); }
  // drafts: [rows], or empty where nothing is drafted. One of at least 0 says that the row goes on
  // from the row before it, as if that one gave this token; -1: it stands alone. What comes of a
  // row whose draft token is rejected means nothing. Where penalties count tokens such rows are
  // chosen one after the other, each once the one before is known to be right: the engine waits.
  Ticket launch(Stream& stream, View logits, std::span<const SamplingRow> rows,
                std::span<const TokenId> drafts = {});
  // Waits for the device. In the order of the launches.
  std::vector<Sampled> read(const Ticket& ticket);

 private:
  struct Place {
    Buffer sampled;       // [rows] SampledToken, of the host
    Buffer alternatives;  // [rows, most] TokenLogit, of the host
  };
  SamplingLane(std::int64_t rows, int alternatives) : rows_(rows), most_(alternatives) {}
  void choose(Stream& stream, SampleArgs args, std::span<const std::size_t> which, Ticket& ticket);
  SampledToken read_token(const Ticket& ticket, std::size_t row) const;
  std::int64_t alternative_bytes() const {
    return static_cast<std::int64_t>(most_) * static_cast<std::int64_t>(sizeof(TokenLogit));
  }

  std::int64_t rows_;
  std::int64_t most_;                // alternatives
  Buffer stats_;                     // [rows] RowStats
  Buffer sampled_;                   // [rows] SampledToken
  Buffer alternatives_;              // [rows, most] TokenLogit
  Buffer last_tokens_;               // [rows] i32
  std::vector<SamplingRow> chosen_;  // of one choose()
  std::int64_t filled_ = 0;          // rows of the place of the latest launch
  std::vector<Place> places_;
  std::size_t next_ = 0;
};

}  // namespace saccade
