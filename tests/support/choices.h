// Where a property test's decisions come from: a seed, or every sequence of decisions there is.
//
//   Choices choices = Choices::exhaustive();
//   while (choices.next()) { ... choices.pick(3) ... }   // the body runs once for each sequence
//
// With exhaustive choices a test over small cases is a proof over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

namespace saccade {

class Choices {
 public:
  static Choices random(std::uint64_t seed) {
    Choices choices;
    choices.rng_.emplace(seed);
    return choices;
  }
  static Choices exhaustive() { return {}; }

  // Begins the next run; false when every sequence has been seen (always true with a seed).
  bool next() {
    position_ = 0;
    if (rng_) return true;
    if (!started_) return started_ = true;
    while (!taken_.empty() && taken_.back().value + 1 == taken_.back().bound) taken_.pop_back();
    if (taken_.empty()) return false;
    ++taken_.back().value;
    return true;
  }

  // A number in [0, bound).
  std::int64_t pick(std::int64_t bound) {
    CHECK(bound > 0, "nothing to pick from");
    if (rng_) return static_cast<std::int64_t>(rng_->below(static_cast<std::uint64_t>(bound)));
    if (position_ == taken_.size()) taken_.push_back({0, bound});
    CHECK(taken_[position_].bound == bound, "decisions must depend on earlier ones alone");
    return taken_[position_++].value;
  }
  // A number in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + pick(high - low + 1); }
  bool coin() { return pick(2) == 1; }

 private:
  struct Taken {
    std::int64_t value;
    std::int64_t bound;
  };
  std::optional<Rng> rng_;
  std::vector<Taken> taken_;
  std::size_t position_ = 0;
  bool started_ = false;
};

}  // namespace saccade
