// The matrix kernel under gemm and attention, for a vector type V: see PanelArgs in kernels.h.
//
// A tile is R rows x N panels of accumulators that stay in registers for the whole depth; each step
// reads N vectors of weights and broadcasts R activations for R x N multiply-adds. Rows of the
// result never mix, and each sums over depth from first to last in one accumulator, so a row comes
// out the same from every tile height: that is what makes results independent of the batch.
#pragma once

#include "ops/cpu/isa/kernels.h"

namespace saccade::cpu {

template <typename V>
struct Panels {
  using F = typename V::F;
  static constexpr Index kLanes = V::kLanes;
  static constexpr Index kTileRows = V::kTileRows;
  // A row or two cannot hide the latency of a multiply-add with two panels.
  static constexpr int kWide = 4;

  // Rows 0, 1, 2 of each group of three are addressed from one pointer (p, p + s, p + 2s): fourteen
  // pointers would not fit the integer registers. The empty asm keeps the compiler from undoing it.
  static constexpr int kGroup = 3;

  template <int R>
  struct RowPointers {
    const float* group[(R + kGroup - 1) / kGroup];
    Index stride;
    RowPointers(const float* x, Index x_stride) : stride(x_stride) {
      for (int g = 0; g < (R + kGroup - 1) / kGroup; ++g) group[g] = x + g * kGroup * x_stride;
    }
    F broadcast(int row, int ahead) const {
      return V::set(group[row / kGroup][(row % kGroup) * stride + ahead]);
    }
    void advance(int steps) {
#pragma GCC unroll 8
      for (int g = 0; g < (R + kGroup - 1) / kGroup; ++g) {
        group[g] += steps;
        asm("" : "+r"(group[g]));
      }
    }
  };

  template <int R, int N>
  static void step(F (&sum)[R][N], const F (&weight)[N], const RowPointers<R>& x, int ahead) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const F value = x.broadcast(r, ahead);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        sum[r][n] = V::fma(value, weight[n], sum[r][n]);
        V::pin(sum[r][n]);  // left alone, GCC 12 interleaves two steps and spills half of them
      }
    }
  }

  template <int R, int N>
  static void accumulate(F (&sum)[R][N], RowPointers<R> x, const float* weights, Index stride,
                         Index depth) {
    for (Index k = 0; k < depth; ++k) {
      F weight[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const float* p = weights + n * stride + k * kLanes;
        if (R <= kPrefetchRows) __builtin_prefetch(reinterpret_cast<const char*>(p) + kAhead);
        weight[n] = V::load(p);
      }
      step<R, N>(sum, weight, x, 0);
      x.advance(1);
    }
  }

  template <int R, int N>
  static void accumulate(F (&sum)[R][N], RowPointers<R> x, const Bf16* weights, Index stride,
                         Index depth) {
    for (Index pair = 0; pair < depth / 2; ++pair) {
      F weight[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const Bf16* p = weights + n * stride + pair * 2 * kLanes;
        if (R <= kPrefetchRows) __builtin_prefetch(reinterpret_cast<const char*>(p) + kAhead);
        weight[n] = V::load_even(p);
      }
      step<R, N>(sum, weight, x, 0);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) weight[n] = V::load_odd(weights + n * stride + pair * 2 * kLanes);
      step<R, N>(sum, weight, x, 1);
      x.advance(2);
    }
    if (depth % 2 != 0) {
      F weight[N];
      for (int n = 0; n < N; ++n)
        weight[n] = V::load_even(weights + n * stride + (depth - 1) * kLanes);
      step<R, N>(sum, weight, x, 0);
    }
  }

  template <typename W, int R, int N>
  static void tile(const PanelArgs& args, Index row, Index panel) {
    F sum[R][N];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r][n] = V::zero();
    }
    const Index stride = args.panel_stride / static_cast<Index>(sizeof(W));
    accumulate<R, N>(sum, RowPointers<R>(args.x + row * args.x_stride, args.x_stride),
                     static_cast<const W*>(args.weights) + panel * stride, stride, args.depth);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      float* c = args.c + (row + r) * args.c_stride + panel * kLanes;
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n)
        V::store(c + n * kLanes, args.accumulate ? V::load(c + n * kLanes) + sum[r][n] : sum[r][n]);
    }
  }

  // The tile of `rows` rows, 1 <= rows <= R.
  template <typename W, int N, int R = V::kTileRows>
  static void tile_of(Index rows, const PanelArgs& args, Index row, Index panel) {
    if (rows == R) return tile<W, R, N>(args, row, panel);
    if constexpr (R > 1) tile_of<W, N, R - 1>(rows, args, row, panel);
  }

  // Panels outside, rows inside: a pair of panels stays in the first-level cache while rows pass.
  template <typename W>
  static void run(const PanelArgs& args) {
    const Index tiles = (args.rows + kTileRows - 1) / kTileRows;
    Index panel = 0;
    if (args.rows <= 2) {
      for (; panel + kWide <= args.panels; panel += kWide) {
        if (args.rows == 1) tile<W, 1, kWide>(args, 0, panel);
        if (args.rows == 2) tile<W, 2, kWide>(args, 0, panel);
      }
    }
    while (panel < args.panels) {
      const bool two = panel + 2 <= args.panels;
      for (Index i = 0; i < tiles; ++i) {
        const Index row = args.rows * i / tiles;  // heights differ by one at most
        const Index rows = args.rows * (i + 1) / tiles - row;
        if (two)
          tile_of<W, 2>(rows, args, row, panel);
        else
          tile_of<W, 1>(rows, args, row, panel);
      }
      panel += two ? 2 : 1;
    }
  }

 private:
  // Few rows mean that weights come from memory once and are not used again: the hardware
  // prefetcher stops at page ends, so software asks 2 KiB ahead.
  static constexpr int kPrefetchRows = 8;
  static constexpr int kAhead = 2048;
};

}  // namespace saccade::cpu
