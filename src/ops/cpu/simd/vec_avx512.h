// Sixteen floats in one AVX-512 register. Included by translation units compiled for AVX-512 alone.
#pragma once

#include <immintrin.h>

#include "ops/cpu/isa/kernels.h"

namespace saccade::cpu {

struct VecAvx512 {
  using F = __m512;  // + - * / work on it
  using Mask = __mmask16;
  static constexpr int kLanes = 16;
  // 14 rows x 2 vectors of accumulators, 2 of weights and a broadcast: 31 of 32 registers.
  static constexpr int kTileRows = 14;

  static void pin(F& a) { asm("" : "+v"(a)); }  // a stays in its register here
  static F zero() { return _mm512_setzero_ps(); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
  static F max(F a, F b) { return _mm512_max_ps(a, b); }            // b where either is NaN
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F abs(F a) { return _mm512_abs_ps(a); }
  static F round(F a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static F times_power_of_two(F a, F n) { return _mm512_scalef_ps(a, n); }  // n integral
  static Mask less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Mask equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  static unsigned bits(Mask m) { return m; }
  static F select(Mask m, F yes, F no) { return _mm512_mask_blend_ps(m, no, yes); }
  // Lane i is i.
  static F iota() { return _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0); }
  static float sum(F a) { return _mm512_reduce_add_ps(a); }
  static float first(F a) { return _mm512_cvtss_f32(a); }
  static float largest(F a) { return _mm512_reduce_max_ps(a); }

  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load(const Bf16* p) {
    return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load(const F16* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load(const std::int8_t* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static F load(const E4m3* p) {
    return widen_e4m3(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void store(float* p, F a) { _mm512_storeu_ps(p, a); }
  static void store(Bf16* p, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_bf16(a));
  }
  static void store(F16* p, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a, kNearest));
  }
  // Lanes that are bf16 values already.
  static void store_exact(Bf16* p, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), high_halves(a));
  }

  // The first `count` lanes, 0 <= count <= kLanes; memory past them is not touched, lanes are 0.
  static F load_first(const float* p, int count) {
    return _mm512_maskz_loadu_ps(lanes_below(count), p);
  }
  static F load_first(const Bf16* p, int count) {
    return widen_bf16(_mm256_maskz_loadu_epi16(lanes_below(count), p));
  }
  static F load_first(const F16* p, int count) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_below(count), p));
  }
  static F load_first(const std::int8_t* p, int count) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(lanes_below(count), p)));
  }
  static F load_first(const E4m3* p, int count) {
    return widen_e4m3(_mm_maskz_loadu_epi8(lanes_below(count), p));
  }
  static void store_first(float* p, F a, int count) {
    _mm512_mask_storeu_ps(p, lanes_below(count), a);
  }
  static void store_first(Bf16* p, F a, int count) {
    _mm256_mask_storeu_epi16(p, lanes_below(count), round_bf16(a));
  }
  static void store_first(F16* p, F a, int count) {
    _mm256_mask_storeu_epi16(p, lanes_below(count), _mm512_cvtps_ph(a, kNearest));
  }

  static void store_first_exact(Bf16* p, F a, int count) {
    _mm256_mask_storeu_epi16(p, lanes_below(count), high_halves(a));
  }

  // Of sixteen pairs of bf16, the first members, or the second.
  static F load_even(const Bf16* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
  }
  static F load_odd(const Bf16* p) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }

  // rows[i] lane j becomes rows[j] lane i.
  static void transpose(F (&rows)[16]) {
    F a[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {  // pairs of lanes
      a[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
      a[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {  // quads: rows[i + j] holds column j of each 128-bit part
      rows[i] = as_f(_mm512_unpacklo_pd(as_d(a[i]), as_d(a[i + 2])));
      rows[i + 1] = as_f(_mm512_unpackhi_pd(as_d(a[i]), as_d(a[i + 2])));
      rows[i + 2] = as_f(_mm512_unpacklo_pd(as_d(a[i + 1]), as_d(a[i + 3])));
      rows[i + 3] = as_f(_mm512_unpackhi_pd(as_d(a[i + 1]), as_d(a[i + 3])));
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {  // then the 4 x 4 matrix of 128-bit parts
      const F low01 = _mm512_shuffle_f32x4(rows[j], rows[j + 4], 0x88);
      const F high01 = _mm512_shuffle_f32x4(rows[j], rows[j + 4], 0xdd);
      const F low23 = _mm512_shuffle_f32x4(rows[j + 8], rows[j + 12], 0x88);
      const F high23 = _mm512_shuffle_f32x4(rows[j + 8], rows[j + 12], 0xdd);
      a[j] = _mm512_shuffle_f32x4(low01, low23, 0x88);
      a[j + 8] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
      a[j + 4] = _mm512_shuffle_f32x4(high01, high23, 0x88);
      a[j + 12] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = a[i];
  }

 private:
  static constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  static Mask lanes_below(int count) { return static_cast<Mask>((1U << count) - 1); }
  static F as_f(__m512d a) { return _mm512_castpd_ps(a); }
  static __m512d as_d(F a) { return _mm512_castps_pd(a); }
  static F widen_bf16(__m256i a) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16));
  }
  // As f16, whose exponents are 8 more: the sign is put above them, and a copy of it taken away.
  static F widen_e4m3(__m128i a) {
    const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(a), 7),
                                            _mm256_set1_epi16(static_cast<short>(0xbfff)));
    return _mm512_cvtph_ps(halves) * set(256.0f);
  }
  static __m256i high_halves(F a) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(a), 16));
  }
  static __m256i round_bf16(F a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    const Mask nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, rounded, quiet));
  }
};

}  // namespace saccade::cpu
