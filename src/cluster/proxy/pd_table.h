// The servers behind a proxy: which of them answer, what each has been given and not done, and who
// gets the next request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace saccade::cluster {

// What a request is predicted to ask of a server, in prompt tokens, and what it shares with others.
struct PdRequest {
  std::int64_t work = 1;
  std::int64_t prompt = 0;     // tokens that a server which has seen its beginning saves
  std::uint64_t affinity = 0;  // equal for requests that begin alike; 0: of nobody
};

enum class PdState : std::uint8_t {
  kUsable,
  kOut,       // does not answer; probed
  kDraining,  // answers, and wants no new work
  kGone,      // not there any more; its place may become another's
};

// Deciding alone: one thread, or under its owner's lock. Accounting is by what was given away here,
// at once: servers that are asked how they do answer too late to be dealt out by.
class PdTable {
 public:
  static constexpr int kFailuresUntilOut = 2;  // one after another
  static constexpr int kAnswersUntilIn = 3;    // to probes, one after another

  explicit PdTable(std::vector<std::string> names);

  std::size_t size() const { return pds_.size(); }  // places
  std::size_t present() const;                      // servers
  // In the place of one that has gone and has no requests, where there is one.
  std::size_t add(std::string name);
  void remove(std::size_t pd);
  // The server with the least work, or the one that has seen such requests while it has not more
  // than the others by what that saves. Not those in `tried`; absent when nobody is left.
  std::optional<std::size_t> choose(const PdRequest& request,
                                    const std::vector<bool>& tried = {}) const;

  void given(std::size_t pd, const PdRequest& request);
  void done(std::size_t pd, const PdRequest& request);  // however it ended
  void answered(std::size_t pd);                        // something came back
  void refused(std::size_t pd);                         // with 503: others first, until a probe
  void failed(std::size_t pd);                          // no connection, or it broke
  void probed(std::size_t pd, bool answers, bool draining);

  struct Pd {
    std::string name;
    PdState state = PdState::kUsable;
    bool reluctant = false;  // has refused work since the last probe
    std::int64_t work = 0;   // given and not done
    std::int64_t requests = 0;
    std::uint64_t given = 0;  // in all
    std::uint64_t failures = 0;
    int failures_in_a_row = 0;
    int answers_in_a_row = 0;  // to probes, while out
  };
  const Pd& at(std::size_t pd) const { return pds_[pd]; }
  std::size_t usable() const;

 private:
  std::vector<Pd> pds_;
  mutable std::size_t turn_ = 0;  // among equals
};

// Retries are a share of the requests, so that a cluster which fails is not asked twice as much.
class RetryBudget {
 public:
  static constexpr double kShare = 0.1;
  static constexpr double kMost = 10;  // saved up; also what there is at the beginning

  void requested() { left_ = left_ + kShare < kMost ? left_ + kShare : kMost; }
  // Takes one, if there is one.
  bool take() {
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }
  double left() const { return left_; }

 private:
  double left_ = kMost;
};

}  // namespace saccade::cluster
