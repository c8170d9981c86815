// Codes of four bits in NEON registers. Included by translation units compiled for AArch64 alone.
#pragma once

#include <cstring>

#include "ops/cpu/simd/vec_neon.h"

namespace saccade::cpu {

struct NibblesNeon {
  using Words = uint32x4_t;  // eight codes a lane
  // 6 rows x 2 vectors of sums, 2 of codes, of scales, of zeros and of weights, 15 and a broadcast:
  // 22 of 32 registers. The others are for the codes that GCC 12 makes ahead: more rows spill.
  static constexpr int kTileRows = 6;

  static Words load(const void* p) {
    Words a;
    std::memcpy(&a, p, sizeof(a));
    return a;
  }
  // Code `i` of each lane. USHL shifts right where the count is negative.
  static float32x4_t code(Words words, int i) {
    return vcvtq_f32_u32(vandq_u32(vshlq_u32(words, vdupq_n_s32(-4 * i)), vdupq_n_u32(15)));
  }
  // A byte a lane.
  static float32x4_t load_bytes(const std::uint8_t* p) {
    std::uint8_t bytes[8] = {};
    std::memcpy(bytes, p, 4);
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vld1_u8(bytes)))));
  }
};

}  // namespace saccade::cpu
