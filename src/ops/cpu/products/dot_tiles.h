// Products of tiles of bf16 by VDPBF16PS, and of bytes by VPDPBUSD, for processors that have the
// instructions and no matrix unit. Included by the translation unit compiled for AVX512-BF16 alone.
//
// They multiply sixteen pairs, or fours of bytes, by sixteen and add to sixteen sums of f32, or of
// integers: two and four times the rate of f32 multiply-adds. Each sum runs over the depth in
// order, whatever rows and panels are beside it, so a row is the same in any company.
#pragma once

#include <cstring>

#include "ops/cpu/products/bf16_tiles.h"

namespace saccade::cpu::dot {

using bf16::F;
using bf16::kRowBytes;
using bf16::kTileRows;
using bf16::V;

constexpr Index kTilePairs = 16;  // of a tile's depth: pairs of bf16, fours of bytes
constexpr int kPairBytes = 4;     // what is multiplied at a time: a lane of x
// 8 rows x 3 panels of sums, 3 of weights and a broadcast: 28 of 32 registers. One pointer reaches
// eight rows of a tile, and a tile is two of them.
constexpr int kBlockRows = 8;
constexpr int kBlockPanels = 3;
// Three panels of weights, so deep, stay in the first-level cache while rows pass.
constexpr Index kDepthPairs = 8 * kTilePairs;

struct Bf16Pairs {
  using Sum = F;
  using W = __m512bh;
  static void pin(Sum& a) { V::pin(a); }
  static Sum zero() { return V::zero(); }
  static Sum load(const float* p) { return V::load(p); }
  static void store(float* p, Sum a) { V::store(p, a); }
  static W weight(const std::byte* p) { return reinterpret_cast<W>(_mm512_loadu_si512(p)); }
  static Sum dot(Sum sum, int x, W weight) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<W>(_mm512_set1_epi32(x)), weight);
  }
};

// Activations are unsigned by an offset, as VPDPBUSD wants them (int8_kernels.h); sums are 32-bit
// integers in c.
struct ByteFours {
  using Sum = __m512i;
  using W = __m512i;
  static void pin(Sum& a) { asm("" : "+v"(a)); }
  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(float* p, Sum a) { _mm512_storeu_si512(p, a); }
  static W weight(const std::byte* p) { return _mm512_loadu_si512(p); }
  static Sum dot(Sum sum, int x, W weight) {
    return _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(x), weight);
  }
};

// What is multiplied of the depth: pairs [begin, end), begin a multiple of kTilePairs. The first
// part of a product begins its sums anew unless it accumulates.
struct Depth {
  Index begin;
  Index end;
};

template <typename U, int R, int N>
inline void clear(typename U::Sum (&sum)[R][N]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[r][n] = U::zero();
  }
}

// sum[r][n] += the pair of x at `x` in row r, times the pairs of weight[n].
template <typename U, int R, int N>
inline void add_pair(typename U::Sum (&sum)[R][N], const std::byte* x,
                     const typename U::W (&weight)[N]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    int pair;
    std::memcpy(&pair, x + r * kRowBytes, sizeof(pair));
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      sum[r][n] = U::dot(sum[r][n], pair, weight[n]);
      U::pin(sum[r][n]);  // as in Panels
    }
  }
}

// Where the rows from `row` on of x begin in the tile that pair `pair` is in.
inline const std::byte* x_tile(const TileArgs& args, Index row, Index pair) {
  return args.x + row / kTileRows * args.row_tile_stride + row % kTileRows * kRowBytes +
         pair / kTilePairs * kTileBytes;
}

// sum += x times N panels of weights, over a part of the depth.
template <typename U, int R, int N, bool kPrefetch>
inline void accumulate(typename U::Sum (&sum)[R][N], const TileArgs& args, Index row, Index panel,
                       Depth depth) {
  constexpr Index kAhead = 2048;  // bytes: the hardware's prefetching stops at page ends
  const std::byte* weights = args.weights + panel * args.panel_stride + depth.begin * kRowBytes;
  const std::byte* tile = x_tile(args, row, depth.begin);
  for (Index pair = depth.begin; pair < depth.end; tile += kTileBytes) {
    const Index stop = pair + kTilePairs < depth.end ? pair + kTilePairs : depth.end;
    const std::byte* x = tile;
    for (; pair < stop; ++pair, x += kPairBytes, weights += kRowBytes) {
      typename U::W weight[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const std::byte* const p = weights + n * args.panel_stride;
        if (kPrefetch) __builtin_prefetch(p + kAhead);
        weight[n] = U::weight(p);
      }
      add_pair<U, R, N>(sum, x, weight);
    }
  }
}

template <typename U, int R, int N, bool kPrefetch>
inline void multiply_block(const TileArgs& args, Index row, Index panel, Depth depth) {
  float* const c = args.c + row * args.c_stride + panel * 16;
  typename U::Sum sum[R][N];
  clear<U, R, N>(sum);
  const bool goes_on = args.accumulate || depth.begin > 0;
  if (goes_on || args.starts != nullptr) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n)
        sum[r][n] =
            U::load(goes_on ? c + r * args.c_stride + n * 16
                            : reinterpret_cast<const float*>(args.starts + (panel + n) * 16));
    }
  }
  accumulate<U, R, N, kPrefetch>(sum, args, row, panel, depth);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) U::store(c + r * args.c_stride + n * 16, sum[r][n]);
  }
}

// block.template operator()<R, N>(row, panel) with R = rows, 1 <= rows <= kMost.
template <int N, int kMost, typename Block>
inline void with_rows(Index rows, Index row, Index panel, const Block& block) {
  if (rows == kMost) return block.template operator()<kMost, N>(row, panel);
  if constexpr (kMost > 1) with_rows<N, kMost - 1>(rows, row, panel, block);
}

// The same for the blocks of a row tile of which `rows` are there: of equal height.
template <int N, typename Block>
inline void each_block(Index rows, Index row, Index panel, const Block& block) {
  if (rows <= kBlockRows) return with_rows<N, kBlockRows>(rows, row, panel, block);
  const Index upper = (rows + 1) / 2;
  with_rows<N, kBlockRows>(upper, row, panel, block);
  with_rows<N, kBlockRows>(rows - upper, row + upper, panel, block);
}

// Calls body.template operator()<N>(panel) for all panels, N at a time.
template <typename Body>
inline void each_panels(Index panel, Index panels, const Body& body) {
  for (; panel + kBlockPanels <= panels; panel += kBlockPanels)
    body.template operator()<kBlockPanels>(panel);
  if (panels - panel == 2) return body.template operator()<2>(panel);
  if (panels - panel == 1) body.template operator()<1>(panel);
}

// TileKernels::multiply, or multiply_int8, of the first `pairs` pairs of the depth.
template <typename U>
inline void multiply_pairs(const TileArgs& args, Index pairs) {
  const auto streamed = [&]<int R, int N>(Index row, Index panel) {
    multiply_block<U, R, N, true>(args, row, panel, {0, pairs});
  };
  Index panel = 0;
  // One row, or two: four panels hide the latency of a product.
  if (args.rows <= 2) {
    for (; panel + 4 <= args.panels; panel += 4) with_rows<4, 2>(args.rows, 0, panel, streamed);
  }
  each_panels(panel, args.panels, [&]<int N>(Index first) {
    if (args.rows <= kBlockRows) return each_block<N>(args.rows, 0, first, streamed);
    for (Index begin = 0; begin < pairs; begin += kDepthPairs) {
      const Depth depth{begin, begin + kDepthPairs < pairs ? begin + kDepthPairs : pairs};
      for (Index row = 0; row < args.rows; row += kTileRows)
        each_block<N>(args.rows - row < kTileRows ? args.rows - row : kTileRows, row, first,
                      [&]<int R, int M>(Index at, Index of) {
                        multiply_block<U, R, M, false>(args, at, of, depth);
                      });
    }
  });
}

}  // namespace saccade::cpu::dot
