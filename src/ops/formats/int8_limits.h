// Numbers of int8_rows.h, apart so that kernels compiled for one instruction set can include them
// and nothing else.
#pragma once

#include <cstdint>

namespace saccade {

// So many products of two codes cannot leave the range of 32 bits.
constexpr std::int64_t kMaxInt8Inputs = std::int64_t{1} << 17;
// A largest magnitude under this one is taken for zero.
constexpr float kInt8Least = 1e-30F;
// The search of the clip: how many, how far apart, and how many worse ones in a row end it.
constexpr int kInt8Clips = 30;
constexpr float kInt8ClipStep = 0.02F;
constexpr int kInt8ClipPatience = 3;

}  // namespace saccade
