// Codes as pairs of bf16, the operands of mma(), in registers: two codes of a word, 16 bits apart,
// at once. What a code stands for but its scale is a bf16 without rounding.
#pragma once

#include "ops/cuda/kernel.h"

namespace saccade::cuda {

// Of the upper bytes of both halves. Their exponents are 120 less than a bf16's, subnormals
// included.
SACCADE_DEVICE std::uint32_t e4m3_pair(std::uint32_t codes) {
  constexpr std::uint32_t kTwoTo120 = 0x7b807b80U;
  return multiply_pairs((codes & 0x80008000U) | (codes & 0x7f007f00U) >> 4, kTwoTo120);
}

// Of the lower bytes of both halves, signed. 128 + the lower seven bits is a bf16 with those for
// its last; without a sign 128 is taken from it, with one 256.
SACCADE_DEVICE std::uint32_t byte_pair(std::uint32_t codes) {
  constexpr std::uint32_t kPairOf128 = 0x43004300U;
  return subtract_pairs((codes & 0x007f007fU) | kPairOf128, (codes & 0x00800080U) | kPairOf128);
}

}  // namespace saccade::cuda
