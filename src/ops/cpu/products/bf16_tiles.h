// Tiles of bf16 as TileArgs has them, and numbers rounded into them. Included by the translation
// units compiled for AVX512-BF16 alone: with AMX (amx_tiles.h) and without (dot_tiles.h).
#pragma once

#include "ops/cpu/simd/vec_avx512.h"

namespace saccade::cpu::bf16 {

using F = __m512;
using V = VecAvx512;

constexpr Index kTileRows = 16;
constexpr Index kTileDepth = 32;
constexpr Index kTileElements = kTileRows * kTileDepth;  // 1 KiB
constexpr int kRowBytes = 64;

inline __mmask16 lanes_below(Index count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1U << count) - 1);
}

// 32 floats, of which `count` are there, to bf16; the rest become zeros.
inline __m512i round_32(const float* x, Index count) {
  const F low = _mm512_maskz_loadu_ps(lanes_below(count), x);
  const F high = _mm512_maskz_loadu_ps(lanes_below(count - 16), x + 16);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// TileKernels::round_rows.
inline void round_rows(const float* x, Index x_stride, Index rows, Index cols, Bf16* out) {
  for (Index row = 0; row < rows; ++row) {
    for (Index col = 0; col < cols; col += kTileDepth)
      _mm512_storeu_si512(out + col / kTileDepth * kTileElements + row * kTileDepth,
                          round_32(x + row * x_stride + col, cols - col));
  }
}

}  // namespace saccade::cpu::bf16
