// Sixty-four bytes in one AVX-512 register. Included by translation units compiled for AVX-512
// alone.
#pragma once

#include <cstring>

#include "ops/cpu/simd/vec_avx512.h"

namespace saccade::cpu {

struct BytesAvx512 {
  using I = __m512i;
  using B = __m512i;
  static constexpr int kTileRows = 10;
  static constexpr std::uint8_t kOffset = 0;
  static constexpr bool kPairSums = true;

  static void pin(I& a) { asm("" : "+v"(a)); }
  static __m512i load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(std::int32_t* p, I a) { _mm512_storeu_si512(p, a); }
  static B broadcast(const std::uint8_t* p) {
    int four;
    std::memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
  }
  // VPMADDUBSW saturates at sixteen bits; |w| times x with the sign of w, in pairs, stays inside,
  // and so does a weight of -128, which has no negative.
  static I dot(I sum, B x, B w) {
    const __m512i turned =
        _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(w), turned);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  // Codes of four bits times x, in pairs of sixteen bits (code_words.h).
  static I pairs(B codes, B x) { return _mm512_maddubs_epi16(codes, x); }
  static I add_pairs(I a, I b) { return _mm512_add_epi16(a, b); }
  static I plus_pairs(I sum, I pairs, I by) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, by));
  }
  static I ones() { return _mm512_set1_epi16(1); }
  static I in_both_halves(I a) { return _mm512_or_si512(a, _mm512_slli_epi32(a, 16)); }
  // Of codes of four bits, a byte each.
  static B low_nibbles(B a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
  static B high_nibbles(B a) { return low_nibbles(_mm512_srli_epi32(a, 4)); }
  static I widen(const std::uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static I minus_product(I a, std::int32_t b) {
    return _mm512_mullo_epi32(a, _mm512_set1_epi32(-b));
  }
  static I plus_product(I sum, I a, I b) { return _mm512_add_epi32(sum, _mm512_mullo_epi32(a, b)); }
  static I set(std::int32_t a) { return _mm512_set1_epi32(a); }
  static __m512 to_float(I a) { return _mm512_cvtepi32_ps(a); }
  static void store_low_bytes(std::uint8_t* p, __m512 a, std::uint8_t offset, int count) {
    const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(a), _mm512_set1_epi32(offset));
    _mm512_mask_cvtepi32_storeu_epi8(p, static_cast<__mmask16>((1U << count) - 1), bits);
  }
};

}  // namespace saccade::cpu
