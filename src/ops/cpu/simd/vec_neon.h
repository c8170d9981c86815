// Four floats in one NEON register. Included by translation units compiled for AArch64 alone.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "ops/cpu/isa/kernels.h"

namespace saccade::cpu {

struct VecNeon {
  using F = float32x4_t;  // + - * / work on it
  using Mask = uint32x4_t;
  static constexpr int kLanes = 4;
  // 10 rows x 2 vectors of accumulators, 2 of weights, a broadcast and the mask of load_odd(): 24
  // of 32 registers. The others are for broadcasts that GCC 12 has on their way: at 12 rows it
  // spills.
  static constexpr int kTileRows = 10;

  static void pin(F& a) { asm("" : "+w"(a)); }  // a stays in its register here
  static F zero() { return vdupq_n_f32(0); }
  static F set(float x) { return vdupq_n_f32(x); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }  // a * b + c
  // b where either is NaN: FMAX and FMIN would return the NaN.
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static F abs(F a) { return vabsq_f32(a); }
  static F round(F a) { return vrndnq_f32(a); }  // to even
  // n integral, |n| <= 252. In two halves, since 2^n alone may overflow where a * 2^n does not.
  static F times_power_of_two(F a, F n) {
    const int32x4_t whole = vcvtq_s32_f32(n);
    const int32x4_t half = vshrq_n_s32(whole, 1);
    return a * power_of_two(half) * power_of_two(vsubq_s32(whole, half));
  }
  static Mask less(F a, F b) { return vcltq_f32(a, b); }
  static Mask equal(F a, F b) { return vceqq_f32(a, b); }
  static Mask both(Mask a, Mask b) { return vandq_u32(a, b); }
  static unsigned bits(Mask m) { return vaddvq_u32(vandq_u32(m, uint32x4_t{1, 2, 4, 8})); }
  static F select(Mask m, F yes, F no) { return vbslq_f32(m, yes, no); }
  static F iota() { return F{0, 1, 2, 3}; }  // lane i is i
  static float sum(F a) {
    const float32x2_t halves = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(halves, 0) + vget_lane_f32(halves, 1);
  }
  static float first(F a) { return vgetq_lane_f32(a, 0); }
  static float largest(F a) { return vmaxvq_f32(a); }

  static F load(const float* p) { return vld1q_f32(p); }
  static F load(const Bf16* p) { return widen_bf16(vld1_u16(&p->bits)); }
  static F load(const F16* p) { return widen_f16(vld1_u16(&p->bits)); }
  static F load(const std::int8_t* p) { return load_first(p, kLanes); }
  static F load(const E4m3* p) { return load_first(p, kLanes); }
  static void store(float* p, F a) { vst1q_f32(p, a); }
  static void store(Bf16* p, F a) { vst1_u16(&p->bits, round_bf16(a)); }
  static void store(F16* p, F a) { vst1_u16(&p->bits, round_f16(a)); }
  // Lanes that are bf16 values already.
  static void store_exact(Bf16* p, F a) { vst1_u16(&p->bits, high_halves(a)); }

  // The first `count` lanes, 0 <= count <= kLanes; memory past them is not touched, lanes are 0.
  static F load_first(const float* p, int count) {
    float lanes[kLanes] = {};
    std::memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(float));
    return vld1q_f32(lanes);
  }
  static F load_first(const Bf16* p, int count) { return widen_bf16(load_halves(p, count)); }
  static F load_first(const F16* p, int count) { return widen_f16(load_halves(p, count)); }
  static F load_first(const std::int8_t* p, int count) {
    return vcvtq_f32_s32(vmovl_s16(load_bytes(p, count)));
  }
  static F load_first(const E4m3* p, int count) { return widen_e4m3(load_bytes(p, count)); }
  static void store_first(float* p, F a, int count) {
    float lanes[kLanes];
    vst1q_f32(lanes, a);
    std::memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(float));
  }
  static void store_first(Bf16* p, F a, int count) { store_halves(p, round_bf16(a), count); }
  static void store_first(F16* p, F a, int count) { store_halves(p, round_f16(a), count); }
  static void store_first_exact(Bf16* p, F a, int count) { store_halves(p, high_halves(a), count); }

  // Of four pairs of bf16, the first members, or the second.
  static F load_even(const Bf16* p) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u16(vld1q_u16(&p->bits)), 16));
  }
  static F load_odd(const Bf16* p) {
    return vreinterpretq_f32_u32(
        vandq_u32(vreinterpretq_u32_u16(vld1q_u16(&p->bits)), vdupq_n_u32(0xffff0000)));
  }

  // rows[i] lane j becomes rows[j] lane i.
  static void transpose(F (&rows)[4]) {
    const F even_low = vtrn1q_f32(rows[0], rows[1]);
    const F odd_low = vtrn2q_f32(rows[0], rows[1]);
    const F even_high = vtrn1q_f32(rows[2], rows[3]);
    const F odd_high = vtrn2q_f32(rows[2], rows[3]);
    rows[0] = vcombine_f32(vget_low_f32(even_low), vget_low_f32(even_high));
    rows[1] = vcombine_f32(vget_low_f32(odd_low), vget_low_f32(odd_high));
    rows[2] = vcombine_f32(vget_high_f32(even_low), vget_high_f32(even_high));
    rows[3] = vcombine_f32(vget_high_f32(odd_low), vget_high_f32(odd_high));
  }

 private:
  static F power_of_two(int32x4_t n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
  }
  static F widen_bf16(uint16x4_t a) { return vreinterpretq_f32_u32(vshll_n_u16(a, 16)); }
  static F widen_f16(uint16x4_t a) { return vcvt_f32_f16(vreinterpret_f16_u16(a)); }
  // As f16, whose exponents are 8 more: the sign is put above them, and a copy of it taken away.
  static F widen_e4m3(int16x4_t a) {
    const uint16x4_t halves = vand_u16(vreinterpret_u16_s16(vshl_n_s16(a, 7)), vdup_n_u16(0xbfff));
    return widen_f16(halves) * set(256.0f);
  }
  static uint16x4_t high_halves(F a) { return vshrn_n_u32(vreinterpretq_u32_f32(a), 16); }
  static uint16x4_t round_bf16(F a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet), 16);
  }
  static uint16x4_t round_f16(F a) { return vreinterpret_u16_f16(vcvt_f16_f32(a)); }
  // Four bytes or fewer, with their signs.
  static int16x4_t load_bytes(const void* p, int count) {
    std::int8_t bytes[8] = {};
    std::memcpy(bytes, p, static_cast<std::size_t>(count));
    return vget_low_s16(vmovl_s8(vld1_s8(bytes)));
  }
  static uint16x4_t load_halves(const void* p, int count) {
    std::uint16_t halves[kLanes] = {};
    std::memcpy(halves, p, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
    return vld1_u16(halves);
  }
  static void store_halves(void* p, uint16x4_t a, int count) {
    std::uint16_t halves[kLanes];
    vst1_u16(halves, a);
    std::memcpy(p, halves, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
  }
};

}  // namespace saccade::cpu
