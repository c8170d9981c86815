// Sums of rows of bytes times words of codes of four bits, eight inputs a lane: what products with
// groups (codes_by_bytes.h) and with SuperBlocks (super_blocks_by_bytes.h) have in common.
#pragma once

#include "ops/cpu/int8_kernels.h"

namespace saccade::cpu {

template <typename V, typename D>
struct CodeWordSums {
  using I = typename D::I;
  using B = typename D::B;
  template <int R>
  using RowPointers = typename Int8<V, D>::template RowPointers<R>;
  static constexpr Index kBytes = V::kLanes * 4;  // of a word in all lanes
  static constexpr int kPrefetchRows = 8;
  static constexpr int kAhead = 2048;  // bytes: as in Panels

  // sum += x times the word at `codes` of N panels, its even inputs and then its odd ones.
  template <int R, int N>
  [[gnu::always_inline]] static void add(I (&sum)[R][N], const std::byte* codes, Index panel_stride,
                                         RowPointers<R>& x) {
    B words[N];
    B four[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const std::byte* const p = codes + n * panel_stride;
      if (R <= kPrefetchRows) __builtin_prefetch(p + kAhead);
      words[n] = D::load(reinterpret_cast<const std::int8_t*>(p));
      four[n] = D::low_nibbles(words[n]);
    }
    add_half<R, N>(sum, four, x);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) four[n] = D::high_nibbles(words[n]);
    add_half<R, N>(sum, four, x);
  }

 private:
  template <int R, int N>
  static void add_half(I (&sum)[R][N], const B (&codes)[N], RowPointers<R>& x) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const B value = x.broadcast(r);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        sum[r][n] = D::dot(sum[r][n], codes[n], value);
        D::pin(sum[r][n]);
      }
    }
    x.advance();
  }
};

}  // namespace saccade::cpu
