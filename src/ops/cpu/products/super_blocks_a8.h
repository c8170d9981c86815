// Products of int8 activations with SuperBlocks (ops/formats/block_codes.h): what w4a8.h is
// for groups that have a scale and a zero each.
//
// Of a block's units the sums of products times their scales are an integer, and so are the sums of
// x times the minima: neither is more than 2^25. Both become f32 once, get d and dmin, and their
// difference is added to the blocks before, of which there is a zero at first. So nothing of the
// file is rounded before it is multiplied, and all instruction sets give the same bits.
//
// A panel is a list of blocks, each of: d [lanes], dmin [lanes], scales [8][lanes], minima
// [8][lanes], codes [32] words of eight inputs [lanes].
#pragma once

#include "ops/cpu/products/code_words.h"
#include "ops/formats/block_codes.h"

namespace saccade::cpu {

// Where the parts of a block are, in bytes.
struct SuperBlockLayout {
  Index lanes;
  constexpr Index minima_scales() const { return lanes * static_cast<Index>(sizeof(F16)); }
  constexpr Index scales() const { return 2 * minima_scales(); }
  constexpr Index minima() const { return scales() + lanes * SuperBlock::kUnits; }
  constexpr Index codes() const { return minima() + lanes * SuperBlock::kUnits; }
  constexpr Index bytes() const { return codes() + lanes * (SuperBlock::kElements / 2); }
};

template <typename V, typename D>
struct SuperBlocksA8 {
  using F = typename V::F;
  using I = typename D::I;
  using Words = CodeWordSums<V, D>;
  static constexpr Index kLanes = V::kLanes;
  static constexpr SuperBlockLayout kLayout{kLanes};
  static_assert(kBlockUnit == Words::kUnit);

  static I widen(const std::byte* p) { return D::widen(reinterpret_cast<const std::uint8_t*>(p)); }

  template <int R, int N>
  static void tile(const W4A8Args& args, Index row, Index panel) {
    typename Words::template RowPointers<R> x(
        reinterpret_cast<const std::uint8_t*>(args.x) + row * args.x_stride + args.begin,
        args.x_stride);
    const Index first = args.begin / SuperBlock::kElements;
    const Index end = first + args.depth / SuperBlock::kElements;
    const std::byte* block = args.w.weights + panel * args.w.panel_stride + first * kLayout.bytes();
    for (Index at = first; at < end; ++at, block += kLayout.bytes()) {
      I whole[R][N] = {};
      const std::byte* codes = block + kLayout.codes();
      for (Index unit = 0; unit < SuperBlock::kUnits; ++unit) {
        Words::template add_scaled<R, N>(whole, codes, block + kLayout.scales() + unit * kLanes,
                                         args.w.panel_stride, x);
        codes += Words::kUnitBytes;
      }
      end_block<R, N>(whole, args, row, panel, at, block);
    }
  }

 private:
  template <int R, int N>
  static void end_block(const I (&whole)[R][N], const W4A8Args& args, Index row, Index panel,
                        Index at, const std::byte* block) {
    const std::int32_t* const x_sums =
        args.x_sums + row * args.x_sums_stride + at * SuperBlock::kUnits;
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n, block += args.w.panel_stride) {
      I less[R] = {};  // -minimum * sum of x
      for (Index unit = 0; unit < SuperBlock::kUnits; ++unit) {
        const I minimum = widen(block + kLayout.minima() + unit * kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
          less[r] =
              D::plus_product(less[r], minimum, D::set(-x_sums[r * args.x_sums_stride + unit]));
      }
      const F d = V::load(reinterpret_cast<const F16*>(block));
      const F dmin = V::load(reinterpret_cast<const F16*>(block + kLayout.minima_scales()));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        float* const c = args.c + (row + r) * args.c_stride + (panel + n) * kLanes;
        const F value = D::to_float(whole[r][n]) * d + D::to_float(less[r]) * dmin;
        V::store(c, (at == 0 ? V::zero() : V::load(c)) + value);
      }
    }
  }
};

}  // namespace saccade::cpu
