// Sums of rows of bytes times codes of four bits, a unit of 32 inputs at a time: what products with
// groups (w4a8.h) and with SuperBlocks (super_blocks_a8.h) have in common.
//
// Where D multiplies bytes into sums of pairs of sixteen bits (D::kPairSums: VPMADDUBSW), the eight
// pairs that a lane's half has in a unit fit into sixteen bits, 8 * 2 * 15 * 127 = 30,480: they are
// added up there and go into 32 bits once, times the unit's scale where it has one.
#pragma once

#include "ops/cpu/products/int8_kernels.h"

namespace saccade::cpu {

template <typename V, typename D>
struct CodeWordSums {
  using I = typename D::I;
  using B = typename D::B;
  template <int R>
  using RowPointers = typename Int8<V, D>::template RowPointers<R>;
  static constexpr Index kUnit = 32;  // inputs: four words of eight a lane
  static constexpr Index kWordBytes = V::kLanes * 4;
  static constexpr Index kUnitBytes = 4 * kWordBytes;
  static constexpr int kPrefetchRows = 8;
  static constexpr int kAhead = 2048;  // bytes: as in Panels
  // Rows x 2 vectors of sums, and 4 of codes, beside what a product needs for itself. Sums of pairs
  // have registers to themselves: the others are touched once a unit.
  static constexpr int kTileRows = D::kPairSums       ? D::kTileRows
                                   : D::kTileRows > 4 ? D::kTileRows - 2
                                                      : 3;

  // sum += x times the unit at `codes` of N panels.
  template <int R, int N>
  [[gnu::always_inline]] static void add(I (&sum)[R][N], const std::byte* codes, Index panel_stride,
                                         RowPointers<R>& x) {
    if constexpr (D::kPairSums) {
      I pairs[R][N] = {};
      add_unit<R, N>(pairs, codes, panel_stride, x);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) sum[r][n] = D::plus_pairs(sum[r][n], pairs[r][n], D::ones());
      }
    } else {
      add_unit<R, N>(sum, codes, panel_stride, x);
    }
  }

  // sum += scale * (x times the unit); `scales`: a byte a lane, of the first of N panels.
  template <int R, int N>
  [[gnu::always_inline]] static void add_scaled(I (&sum)[R][N], const std::byte* codes,
                                                const std::byte* scales, Index panel_stride,
                                                RowPointers<R>& x) {
    I unit[R][N] = {};
    add_unit<R, N>(unit, codes, panel_stride, x);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      I scale = D::widen(reinterpret_cast<const std::uint8_t*>(scales + n * panel_stride));
      if constexpr (D::kPairSums) scale = D::in_both_halves(scale);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        if constexpr (D::kPairSums)
          sum[r][n] = D::plus_pairs(sum[r][n], unit[r][n], scale);
        else
          sum[r][n] = D::plus_product(sum[r][n], unit[r][n], scale);
      }
    }
  }

 private:
  // Adds to sums; sums of pairs begin anew.
  template <int R, int N>
  [[gnu::always_inline]] static void add_unit(I (&sum)[R][N], const std::byte* codes,
                                              Index panel_stride, RowPointers<R>& x) {
#pragma GCC unroll 4
    for (int word = 0; word < 4; ++word, codes += kWordBytes) {
      B words[N];
      B four[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const std::byte* const p = codes + n * panel_stride;
        if (R <= kPrefetchRows) __builtin_prefetch(p + kAhead);
        words[n] = D::load(reinterpret_cast<const std::int8_t*>(p));
        four[n] = D::low_nibbles(words[n]);
      }
      add_half<R, N>(sum, four, x, word == 0);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) four[n] = D::high_nibbles(words[n]);
      add_half<R, N>(sum, four, x, false);
    }
  }

  // The even inputs of a word, or the odd ones.
  template <int R, int N>
  [[gnu::always_inline]] static void add_half(I (&sum)[R][N], const B (&codes)[N],
                                              RowPointers<R>& x, bool first) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const B value = x.broadcast(r);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        if constexpr (D::kPairSums) {
          const I pairs = D::pairs(codes[n], value);
          sum[r][n] = first ? pairs : D::add_pairs(sum[r][n], pairs);
        } else {
          sum[r][n] = D::dot(sum[r][n], codes[n], value);
        }
        D::pin(sum[r][n]);
      }
    }
    x.advance();
  }
};

}  // namespace saccade::cpu
