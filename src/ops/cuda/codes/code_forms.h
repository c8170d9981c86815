// The forms of kept weights as kernels take them: sixteen inputs of an output to pairs of bf16.
#pragma once

#include "ops/cuda/codes/code_pairs.h"
#include "ops/cuda/codes/code_places.h"

namespace saccade::cuda {

// What a lane has of one output in a chunk: the inputs of its quad, as code_places.h lays them, and
// how those of step k become the pairs that mma() takes.
struct E4m3Form {
  static constexpr int kWords = 4;
  static constexpr int kChunkBytes = kE4m3ChunkBytes;
  static constexpr bool kZeros = false;
  static SACCADE_DEVICE void widen(const std::uint32_t (&words)[kWords], int k, std::uint32_t,
                                   std::uint32_t (&pairs)[2]) {
    pairs[0] = e4m3_pair(words[k]);
    pairs[1] = e4m3_pair(words[k] << 8);
  }
};

struct NibbleForm {
  static constexpr int kWords = 2;
  static constexpr int kChunkBytes = kNibbleChunkBytes;
  static constexpr bool kZeros = true;
  // 128 + code is a bf16 with the code for its last bits; `zero` is pair_of_zero().
  static SACCADE_DEVICE void widen(const std::uint32_t (&words)[kWords], int k, std::uint32_t zero,
                                   std::uint32_t (&pairs)[2]) {
    const std::uint32_t word = words[k / 2] >> (k % 2 * 8);
    pairs[0] = subtract_pairs((word & 0x000f000fU) | kPairOf128, zero);
    pairs[1] = subtract_pairs((word >> 4 & 0x000f000fU) | kPairOf128, zero);
  }
  static SACCADE_DEVICE std::uint32_t pair_of_zero(std::uint8_t zero) {
    return kPairOf128 + std::uint32_t{zero} * 0x00010001U;
  }
  static constexpr std::uint32_t kPairOf128 = 0x43004300U;
};

}  // namespace saccade::cuda
