// float8_e8m0fnu: a scale in eight bits, a power of two.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace saccade {

// 2^(bits - 127); all ones is NaN.
inline float e8m0_number(std::uint8_t bits) {
  return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, bits - 127);
}

}  // namespace saccade
