// W4A8: products of int8 activations with 4-bit weights, for a vector type V of floats and a set D
// of instructions for bytes (int8_kernels.h): see W4A8Kernels in kernels.h.
//
// Four bits and a mask are four bytes of a lane, and four more are behind them: of a word's eight
// inputs the even ones, then the odd ones. Rows of x lie in that order, so that nothing else is
// done to a code before it is multiplied. A group's sums are exact integers, less its zero times
// the sum of its x, which they begin with; they become f32 once, get the scale, and are added to
// the groups before, of which there is a zero at first. No product is fused with a sum, so all
// instruction sets give the same bits.
#pragma once

#include "ops/cpu/products/code_words.h"
#include "ops/cpu/products/four_bit_scales.h"
#include "ops/cpu/products/int8_kernels.h"
#include "ops/cpu/products/super_blocks_a8.h"

namespace saccade::cpu {

template <typename V, typename D>
struct W4A8 {
  using F = typename V::F;
  using I = typename D::I;
  using Words = CodeWordSums<V, D>;
  using Rounding = Int8<V, D>;
  static constexpr Index kLanes = V::kLanes;
  static constexpr Index kUnit = Words::kUnit;  // inputs that rows are filled up to
  static constexpr int kTileRows = Words::kTileRows;
  static constexpr int kWideRows = kTileRows >= 8 ? 5 : 1;  // x 4 vectors

  static float round_row(const float* row, Index cols, Index group, std::int8_t* out,
                         std::int32_t* sums) {
    using Sixteen = std::int8_t __attribute__((vector_size(16)));
    auto* const codes = reinterpret_cast<std::uint8_t*>(out);
    const float scale = Rounding::round_to(row, cols, Rounding::largest(row, cols), 0, codes);
    const Index padded = (cols + kUnit - 1) / kUnit * kUnit;
    for (Index col = cols; col < padded; ++col) out[col] = 0;
    for (Index begin = 0; begin < padded; begin += group) {
      const Index end = begin + group < padded ? begin + group : padded;
      std::int32_t sum = 0;
      for (Index col = begin; col < end; ++col) sum += out[col];
      *sums++ = sum;
    }
    for (Index col = 0; col < padded; col += 16) {
      Sixteen some;
      __builtin_memcpy(&some, out + col, sizeof(some));
      some =
          __builtin_shufflevector(some, some, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
      __builtin_memcpy(out + col, &some, sizeof(some));
    }
    return scale;
  }

  // sum = -zero * sum of x
  template <int R, int N>
  static void begin_group(I (&sum)[R][N], const W4A8Args& args, Index row, Index panel,
                          Index group) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const std::byte* const p = args.w.weights + (panel + n) * args.w.panel_stride;
      const I zero =
          D::widen(reinterpret_cast<const std::uint8_t*>(p + args.w.zeros) + group * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
        sum[r][n] = D::minus_product(zero, args.x_sums[(row + r) * args.x_sums_stride + group]);
    }
  }

  template <int R, int N>
  static void end_group(const I (&sum)[R][N], const W4A8Args& args, Index row, Index panel,
                        Index group) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const F scale =
          load_scales<V>(args.w, args.w.weights + (panel + n) * args.w.panel_stride, group);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        float* const c = args.c + (row + r) * args.c_stride + (panel + n) * kLanes;
        const F value = D::to_float(sum[r][n]) * scale;
        V::store(c, (group == 0 ? V::zero() : V::load(c)) + value);
      }
    }
  }

  template <int R, int N>
  static void tile(const W4A8Args& args, Index row, Index panel) {
    typename Words::template RowPointers<R> x(
        reinterpret_cast<const std::uint8_t*>(args.x) + row * args.x_stride + args.begin,
        args.x_stride);
    const std::byte* codes = args.w.weights + panel * args.w.panel_stride + args.w.codes +
                             args.begin / kUnit * Words::kUnitBytes;
    const Index end = args.begin + args.depth;
    for (Index at = args.begin; at < end;) {
      const Index group = at / args.w.group;
      const Index stop = (group + 1) * args.w.group < end ? (group + 1) * args.w.group : end;
      I sum[R][N];
      begin_group<R, N>(sum, args, row, panel, group);
      for (; at < stop; at += kUnit, codes += Words::kUnitBytes)
        Words::template add<R, N>(sum, codes, args.w.panel_stride, x);
      end_group<R, N>(sum, args, row, panel, group);
    }
  }

  // The tile of `rows` rows, 1 <= rows <= R.
  template <int N, int R>
  static void tile_of(Index rows, const W4A8Args& args, Index row, Index panel) {
    if (rows != R) {
      if constexpr (R > 1) tile_of<N, R - 1>(rows, args, row, panel);
    } else if (args.w.super_blocks) {
      SuperBlocksA8<V, D>::template tile<R, N>(args, row, panel);
    } else {
      tile<R, N>(args, row, panel);
    }
  }

  // Panels outside, rows inside. Few rows take four panels at a time: their sums hide latency.
  static void multiply(const W4A8Args& args) {
    const Index tiles = (args.rows + kTileRows - 1) / kTileRows;
    Index panel = 0;
    if (args.rows <= kWideRows) {
      for (; panel + 4 <= args.w.panels; panel += 4)
        tile_of<4, kWideRows>(args.rows, args, 0, panel);
    }
    while (panel < args.w.panels) {
      const bool two = panel + 2 <= args.w.panels;
      for (Index i = 0; i < tiles; ++i) {
        const Index row = args.rows * i / tiles;  // heights differ by one at most
        const Index rows = args.rows * (i + 1) / tiles - row;
        if (two)
          tile_of<2, kTileRows>(rows, args, row, panel);
        else
          tile_of<1, kTileRows>(rows, args, row, panel);
      }
      panel += two ? 2 : 1;
    }
  }

  static constexpr W4A8Kernels table() {
    W4A8Kernels table;
    table.round_row = round_row;
    table.multiply = multiply;
    return table;
  }
};

}  // namespace saccade::cpu
