// Codes of four bits in AVX2 registers. Included by translation units compiled for AVX2 alone.
#pragma once

#include "ops/cpu/simd/vec_avx2.h"

namespace saccade::cpu {

struct NibblesAvx2 {
  using Words = __m256i;  // eight codes a lane
  static constexpr int kTileRows = 3;

  static Words load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  // Code `i` of each lane.
  static __m256 code(Words words, int i) {
    return _mm256_cvtepi32_ps(
        _mm256_and_si256(_mm256_srli_epi32(words, 4 * i), _mm256_set1_epi32(15)));
  }
  // A byte a lane.
  static __m256 load_bytes(const std::uint8_t* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
};

}  // namespace saccade::cpu
