// What an encode is predicted to take, as a value: who measures it, and how, is somebody else's.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace saccade {

// Milliseconds of an encode of n tokens: a + b n + c n^2. None may be negative.
struct EncodeCost {
  double a = 0;
  double b = 0;
  double c = 0;

  bool known() const { return a > 0 || b > 0 || c > 0; }
  double milliseconds(std::int64_t tokens) const {
    const auto n = static_cast<double>(tokens);
    return a + b * n + c * n * n;
  }
  Nanos duration(std::int64_t tokens) const {
    return static_cast<Nanos>(milliseconds(tokens) * static_cast<double>(kMillisecond));
  }
};

}  // namespace saccade
