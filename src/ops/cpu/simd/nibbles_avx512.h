// Codes of four bits in AVX-512 registers. Included by translation units compiled for AVX-512
// alone.
#pragma once

#include "ops/cpu/simd/vec_avx512.h"

namespace saccade::cpu {

struct NibblesAvx512 {
  using Words = __m512i;  // eight codes a lane
  // 8 rows x 2 vectors of sums, 2 of codes, of scales, of zeros and of weights, 0 to 15 and a
  // broadcast: 26 of 32 registers.
  static constexpr int kTileRows = 8;

  static Words load(const void* p) { return _mm512_loadu_si512(p); }
  // Code `i` of each lane: VPERMPS looks at the lowest four bits alone.
  static __m512 code(Words words, int i) {
    return _mm512_permutexvar_ps(_mm512_srli_epi32(words, static_cast<unsigned>(4 * i)),
                                 VecAvx512::iota());
  }
  // A byte a lane.
  static __m512 load_bytes(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
};

}  // namespace saccade::cpu
