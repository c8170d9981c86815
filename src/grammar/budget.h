// What one grammar may take to be compiled, charged where it is taken: one budget goes with the
// grammar from its text to its automaton.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace saccade::grammar {

// One thread. Once a limit has been passed all charges fail; whoever is refused ends as soon as it
// can, with what it has, and its caller reports check().
class Budget {
 public:
  enum Kind : std::uint8_t { kSteps, kBytes, kExpressions, kStates, kKinds };
  using Limits = std::array<std::uint64_t, kKinds>;
  // A step is about an edge or an expression looked at: 5 to 10 ns.
  static constexpr Limits kLimits = {std::uint64_t{1} << 26, std::uint64_t{128} << 20,
                                     std::uint64_t{1} << 17, std::uint64_t{1} << 17};

  explicit Budget(const Limits& limits = kLimits) : limits_(limits) {}

  bool charge(Kind kind, std::uint64_t amount) {
    taken_[kind] += amount;
    if (taken_[kind] > limits_[kind] && passed_ == kKinds) passed_ = kind;
    return passed_ == kKinds;
  }
  // What has been freed.
  void give_back(Kind kind, std::uint64_t amount) { taken_[kind] -= amount; }

  bool spent() const { return passed_ != kKinds; }
  std::uint64_t limit(Kind kind) const { return limits_[kind]; }
  // kTooLarge, with the first limit that was passed.
  Result<void> check() const;

 private:
  Limits limits_;
  std::array<std::uint64_t, kKinds> taken_{};
  Kind passed_ = kKinds;
};

}  // namespace saccade::grammar
