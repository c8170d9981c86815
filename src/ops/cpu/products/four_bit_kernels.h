// Products with codes of four bits, for a vector type V and its codes N (nibbles_*.h): see
// FourBitArgs in kernels.h. Codes become f32 weights in registers and meet x as in Panels
// (panel_kernels.h), in the same order: bits are those of Panels with the weights unpacked.
#pragma once

#include "ops/cpu/products/four_bit_scales.h"
#include "ops/cpu/products/panel_kernels.h"

namespace saccade::cpu {

template <typename V, typename N>
struct FourBits {
  using F = typename V::F;
  using P = Panels<V>;
  using Words = typename N::Words;
  static constexpr Index kLanes = V::kLanes;
  static constexpr Index kCodes = 8;  // of a word

  // A code's weight: code * scale + lift.
  template <int C>
  struct Grid {
    F scale[C];
    F lift[C];
    Grid(const FourBitPanels& w, Index panel, Index group) {
#pragma GCC unroll 4
      for (int n = 0; n < C; ++n) {
        const std::byte* const p = w.weights + (panel + n) * w.panel_stride;
        scale[n] = load_scales<V>(w, p, group);
        const auto* const zeros = reinterpret_cast<const std::uint8_t*>(p + w.zeros);
        lift[n] = V::zero() - N::load_bytes(zeros + group * kLanes) * scale[n];
      }
    }
  };

  // use(first panel's words, grid, count) for each word of the panels, and how many of its codes
  // count.
  template <int C, typename Use>
  static void each_word(const FourBitArgs& args, Index panel, Use&& use) {
    const Index word_bytes = kLanes * static_cast<Index>(sizeof(std::uint32_t));
    const std::byte* codes = args.w.weights + panel * args.w.panel_stride + args.w.codes +
                             args.begin / kCodes * word_bytes;
    const Index end = args.begin + args.depth;
    for (Index at = args.begin; at < end;) {
      const Index group = at / args.w.group;
      const Index stop = (group + 1) * args.w.group < end ? (group + 1) * args.w.group : end;
      const Grid<C> grid(args.w, panel, group);
      for (; at < stop; at += kCodes, codes += word_bytes)
        use(codes, grid, stop - at < kCodes ? stop - at : kCodes);
      at = stop;
    }
  }

  template <int C>
  static void weights_of(const Words (&words)[C], const Grid<C>& grid, int code, F (&weight)[C]) {
#pragma GCC unroll 4
    for (int n = 0; n < C; ++n)
      weight[n] = V::fma(N::code(words[n], code), grid.scale[n], grid.lift[n]);
  }

  template <int R, int C>
  static void tile(const FourBitArgs& args, Index row, Index panel) {
    F sum[R][C];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < C; ++n) sum[r][n] = V::zero();
    }
    typename P::template RowPointers<R> x(args.x + row * args.x_stride, args.x_stride);
    each_word<C>(args, panel, [&](const std::byte* codes, const Grid<C>& grid, Index count) {
      Words words[C];
#pragma GCC unroll 4
      for (int n = 0; n < C; ++n) {
        const std::byte* const p = codes + n * args.w.panel_stride;
        __builtin_prefetch(p + kAhead);
        words[n] = N::load(p);
      }
      F weight[C];
      if (count == kCodes) {
#pragma GCC unroll 8
        for (int i = 0; i < kCodes; ++i) {
          weights_of<C>(words, grid, i, weight);
          P::template step<R, C>(sum, weight, x, i);
        }
        x.advance(kCodes);
        return;
      }
      for (int i = 0; i < count; ++i) {
        weights_of<C>(words, grid, i, weight);
        P::template step<R, C>(sum, weight, x, 0);
        x.advance(1);
      }
    });
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      float* c = args.c + (row + r) * args.c_stride + panel * kLanes;
#pragma GCC unroll 4
      for (int n = 0; n < C; ++n)
        V::store(c + n * kLanes, args.accumulate ? V::load(c + n * kLanes) + sum[r][n] : sum[r][n]);
    }
  }

  // The tile of `rows` rows, 1 <= rows <= R.
  template <int C, int R>
  static void tile_of(Index rows, const FourBitArgs& args, Index row, Index panel) {
    if (rows == R) return tile<R, C>(args, row, panel);
    if constexpr (R > 1) tile_of<C, R - 1>(rows, args, row, panel);
  }

  static void panels(const FourBitArgs& args) {
    constexpr int kTileRows = N::kTileRows;
    const Index tiles = (args.rows + kTileRows - 1) / kTileRows;
    Index panel = 0;
    if (args.rows <= 2) {
      for (; panel + 4 <= args.w.panels; panel += 4) tile_of<4, 2>(args.rows, args, 0, panel);
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

  static void unpack(const FourBitArgs& args) {
    float* c = args.c;
    for (Index panel = 0; panel < args.w.panels; ++panel) {
      each_word<1>(args, panel, [&](const std::byte* codes, const Grid<1>& grid, Index count) {
        const Words words[1] = {N::load(codes)};
        if (count == kCodes) {
#pragma GCC unroll 8
          for (int i = 0; i < kCodes; ++i, c += kLanes) {
            F weight[1];
            weights_of<1>(words, grid, i, weight);
            V::store(c, weight[0]);
          }
          return;
        }
        for (int i = 0; i < count; ++i, c += kLanes) {
          F weight[1];
          weights_of<1>(words, grid, i, weight);
          V::store(c, weight[0]);
        }
      });
    }
  }

  static constexpr FourBitKernels table() {
    FourBitKernels table;
    table.panels = panels;
    table.unpack = unpack;
    return table;
  }

 private:
  static constexpr int kAhead = 2048;  // bytes: as in Panels
};

}  // namespace saccade::cpu
