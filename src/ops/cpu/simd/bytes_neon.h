// Sixteen bytes in one NEON register. Included by translation units compiled for AArch64 alone.
#pragma once

#include <cstring>

#include "ops/cpu/simd/vec_neon.h"

namespace saccade::cpu {

struct BytesNeon {
  using I = int32x4_t;
  using B = int8x16_t;
  // 8 rows x 2 vectors of sums, 2 of weights, and for two products at a time a broadcast and 2
  // vectors of 16 bits each: 24 of 32 registers.
  static constexpr int kTileRows = 8;
  static constexpr std::uint8_t kOffset = 0;
  static constexpr bool kPairSums = false;

  static void pin(I& a) { asm("" : "+w"(a)); }
  static I load(const std::int32_t* p) { return vld1q_s32(p); }
  static B load(const std::int8_t* p) { return vld1q_s8(p); }
  static void store(std::int32_t* p, I a) { vst1q_s32(p, a); }
  static B broadcast(const std::uint8_t* p) {
    std::int32_t four;
    std::memcpy(&four, p, sizeof(four));
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
  }
  // Activations stay within 127: two products, with a weight of -128 too, fit sixteen bits.
  static I dot(I sum, B x, B w) {
    const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(w));
    const int16x8_t high = vmull_high_s8(x, w);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
  }
  // Of codes of four bits, a byte each.
  static B low_nibbles(B a) { return vandq_s8(a, vdupq_n_s8(15)); }
  static B high_nibbles(B a) { return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(a), 4)); }
  static I widen(const std::uint8_t* p) {
    std::uint32_t four;
    std::memcpy(&four, p, sizeof(four));
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(four));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
  }
  static I minus_product(I a, std::int32_t b) { return vmulq_n_s32(a, -b); }
  static I plus_product(I sum, I a, I b) { return vmlaq_s32(sum, a, b); }
  static I set(std::int32_t a) { return vdupq_n_s32(a); }
  static float32x4_t to_float(I a) { return vcvtq_f32_s32(a); }
  static void store_low_bytes(std::uint8_t* p, float32x4_t a, std::uint8_t offset, int count) {
    const uint16x4_t words = vmovn_u32(vreinterpretq_u32_f32(a));
    const uint8x8_t low = vadd_u8(vmovn_u16(vcombine_u16(words, words)), vdup_n_u8(offset));
    std::uint8_t bytes[8];
    vst1_u8(bytes, low);
    std::memcpy(p, bytes, static_cast<std::size_t>(count));
  }
};

}  // namespace saccade::cpu
