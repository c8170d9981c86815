// Thirty-two bytes in one AVX2 register. Included by translation units compiled for AVX2 alone.
#pragma once

#include <cstring>

#include "ops/cpu/simd/vec_avx2.h"

namespace saccade::cpu {

struct BytesAvx2 {
  using I = __m256i;
  using B = __m256i;
  static constexpr int kTileRows = 4;
  static constexpr std::uint8_t kOffset = 0;
  static constexpr bool kPairSums = true;

  static void pin(I& a) { asm("" : "+x"(a)); }
  static __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const I*>(p)); }
  static void store(std::int32_t* p, I a) { _mm256_storeu_si256(reinterpret_cast<I*>(p), a); }
  static B broadcast(const std::uint8_t* p) {
    int four;
    std::memcpy(&four, p, sizeof(four));
    return _mm256_set1_epi32(four);
  }
  // VPMADDUBSW saturates at sixteen bits; |w| times x with the sign of w, in pairs, stays inside,
  // and so does a weight of -128, which has no negative.
  static I dot(I sum, B x, B w) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  // Codes of four bits times x, in pairs of sixteen bits (code_words.h).
  static I pairs(B codes, B x) { return _mm256_maddubs_epi16(codes, x); }
  static I add_pairs(I a, I b) { return _mm256_add_epi16(a, b); }
  static I plus_pairs(I sum, I pairs, I by) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, by));
  }
  static I ones() { return _mm256_set1_epi16(1); }
  static I in_both_halves(I a) { return _mm256_or_si256(a, _mm256_slli_epi32(a, 16)); }
  // Of codes of four bits, a byte each.
  static B low_nibbles(B a) { return _mm256_and_si256(a, _mm256_set1_epi8(15)); }
  static B high_nibbles(B a) { return low_nibbles(_mm256_srli_epi32(a, 4)); }
  static I widen(const std::uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static I minus_product(I a, std::int32_t b) {
    return _mm256_mullo_epi32(a, _mm256_set1_epi32(-b));
  }
  static I plus_product(I sum, I a, I b) { return _mm256_add_epi32(sum, _mm256_mullo_epi32(a, b)); }
  static I set(std::int32_t a) { return _mm256_set1_epi32(a); }
  static __m256 to_float(I a) { return _mm256_cvtepi32_ps(a); }
  static void store_low_bytes(std::uint8_t* p, __m256 a, std::uint8_t offset, int count) {
    const __m256i low =
        _mm256_and_si256(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_set1_epi32(offset)),
                         _mm256_set1_epi32(0xff));
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    const long long eight = _mm_cvtsi128_si64(_mm_packus_epi16(words, words));
    std::memcpy(p, &eight, static_cast<unsigned long>(count));
  }
};

}  // namespace saccade::cpu
