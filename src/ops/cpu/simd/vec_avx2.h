// Eight floats in one AVX2 register. Included by translation units compiled for AVX2 alone.
#pragma once

#include <immintrin.h>

#include "ops/cpu/isa/kernels.h"

namespace saccade::cpu {

struct VecAvx2 {
  using F = __m256;  // + - * / work on it
  using Mask = __m256;
  static constexpr int kLanes = 8;
  // 6 rows x 2 vectors of accumulators, 2 of weights and a broadcast: 15 of 16 registers.
  static constexpr int kTileRows = 6;

  static void pin(F& a) { asm("" : "+x"(a)); }  // a stays in its register here
  static F zero() { return _mm256_setzero_ps(); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }  // a * b + c
  static F max(F a, F b) { return _mm256_max_ps(a, b); }            // b where either is NaN
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  static F round(F a) { return _mm256_round_ps(a, kNearest); }
  // n integral, |n| <= 252. In two halves, since 2^n alone may overflow where a * 2^n does not.
  static F times_power_of_two(F a, F n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    return a * power_of_two(half) * power_of_two(_mm256_sub_epi32(whole, half));
  }
  static Mask less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static Mask equal(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
  static Mask both(Mask a, Mask b) { return _mm256_and_ps(a, b); }
  static unsigned bits(Mask m) { return static_cast<unsigned>(_mm256_movemask_ps(m)); }
  static F select(Mask m, F yes, F no) { return _mm256_blendv_ps(no, yes, m); }
  static F iota() { return _mm256_set_ps(7, 6, 5, 4, 3, 2, 1, 0); }  // lane i is i
  static float sum(F a) {
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
  }
  static float first(F a) { return _mm256_cvtss_f32(a); }
  static float largest(F a) {
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
  }

  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static F load(const Bf16* p) {
    return widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F load(const F16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F load(const std::int8_t* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static F load(const E4m3* p) {
    return widen_e4m3(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static void store(float* p, F a) { _mm256_storeu_ps(p, a); }
  static void store(Bf16* p, F a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), round_bf16(a));
  }
  static void store(F16* p, F a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, kNearest));
  }
  // Lanes that are bf16 values already.
  static void store_exact(Bf16* p, F a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), high_halves(a));
  }

  // The first `count` lanes, 0 <= count <= kLanes; memory past them is not touched, lanes are 0.
  static F load_first(const float* p, int count) {
    return _mm256_maskload_ps(p, lanes_below(count));
  }
  static F load_first(const Bf16* p, int count) { return widen_bf16(load_halves(p, count)); }
  static F load_first(const F16* p, int count) { return _mm256_cvtph_ps(load_halves(p, count)); }
  static F load_first(const std::int8_t* p, int count) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_bytes(p, count)));
  }
  static F load_first(const E4m3* p, int count) { return widen_e4m3(load_bytes(p, count)); }
  static void store_first(float* p, F a, int count) {
    _mm256_maskstore_ps(p, lanes_below(count), a);
  }
  static void store_first(Bf16* p, F a, int count) { store_halves(p, round_bf16(a), count); }
  static void store_first(F16* p, F a, int count) {
    store_halves(p, _mm256_cvtps_ph(a, kNearest), count);
  }

  static void store_first_exact(Bf16* p, F a, int count) { store_halves(p, high_halves(a), count); }

  // Of eight pairs of bf16, the first members, or the second.
  static F load_even(const Bf16* p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), 16));
  }
  static F load_odd(const Bf16* p) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
                         _mm256_set1_epi32(static_cast<int>(0xffff0000))));
  }

  // rows[i] lane j becomes rows[j] lane i.
  static void transpose(F (&rows)[8]) {
    F a[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
      a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    F b[8];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
      b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
      b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
      b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      rows[j] = _mm256_permute2f128_ps(b[j], b[j + 4], 0x20);
      rows[j + 4] = _mm256_permute2f128_ps(b[j], b[j + 4], 0x31);
    }
  }

 private:
  static constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  static __m256i lanes_below(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
  }
  static F power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  static F widen_bf16(__m128i a) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(a), 16));
  }
  // As f16, whose exponents are 8 more: the sign is put above them, and a copy of it taken away.
  static F widen_e4m3(__m128i a) {
    const __m128i halves = _mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(a), 7),
                                         _mm_set1_epi16(static_cast<short>(0xbfff)));
    return _mm256_cvtph_ps(halves) * set(256.0f);
  }
  static __m128i high_halves(F a) {
    const __m256i halves = _mm256_srli_epi32(_mm256_castps_si256(a), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  }
  static __m128i round_bf16(F a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    const __m256i wide = _mm256_blendv_epi8(rounded, quiet, nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  }
  // AVX2 has no masked access to elements of 8 and 16 bits.
  static __m128i load_bytes(const void* p, int count) {
    alignas(16) unsigned char bytes[16] = {};
    for (int i = 0; i < count; ++i) bytes[i] = static_cast<const unsigned char*>(p)[i];
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  }
  static __m128i load_halves(const void* p, int count) {
    alignas(16) unsigned short halves[8] = {};
    for (int i = 0; i < count; ++i) halves[i] = static_cast<const unsigned short*>(p)[i];
    return _mm_load_si128(reinterpret_cast<const __m128i*>(halves));
  }
  static void store_halves(void* p, __m128i a, int count) {
    alignas(16) unsigned short halves[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(halves), a);
    for (int i = 0; i < count; ++i) static_cast<unsigned short*>(p)[i] = halves[i];
  }
};

}  // namespace saccade::cpu
