// W4A8 (int8 activations by 4-bit weights) on tiles of a matrix unit: W4A8::multiply
// (w4a8.h) to the bit, for a matrix unit T, a vector type V of sixteen floats and a set D
// of operations on as many words. Included by the translation unit of that unit alone, and by a
// test that has a unit in software.
//
// A panel's codes become bytes once, less their zeros, which fit (-16 to 15), and lie in the
// first-level cache while all rows pass. A lane's word of eight codes is a low and a high half of
// its bytes, two rows of a tile, so that x lies as W4A8::round_row leaves it. A tile's sums
// leave the unit after each group of inputs, as exact integers; they become f32 and get their
// scales by vectors, two groups at a time, while the unit is at the next two.
//
// Tiles are T::kDepth inputs deep: 64, or 32, which is half of what the unit can do in the same
// time. It matters little: what is done to the sums of a group takes longer than either. While
// tiles are in use, Sapphire Rapids has one port for vectors of floats, so to convert, to multiply
// and to add sixteen rows takes 48 cycles, and the products 16. So where it is exact, sums begin at
// the integer whose bits are the float 1.5 * 2^23: with a sum added they are the bits of 1.5 * 2^23
// + sum, and one fused product with the scale, less 1.5 * 2^23 * scale, converts and multiplies.
// It is rounded once, as the product alone is.
#pragma once

#include <algorithm>
#include <bit>

#include "ops/cpu/products/four_bit_scales.h"

namespace saccade::cpu {

template <typename V, typename D, typename T>
class W4A8Tiles {
 public:
  // Of an odd row tile, or panel, the unit multiplies the same one twice.
  static void multiply(const W4A8TileArgs& args) {
    [[maybe_unused]] const typename T::Session session;
    const Index depth = args.depth_tiles;
    float* const scales = reinterpret_cast<float*>(args.room + 2 * depth * kTileBytes);
    float* const nowhere = scales + depth * kGroupScales;
    auto* const sums = reinterpret_cast<std::int32_t*>(nowhere + kGroupSums);
    for (Index panel = 0; panel < args.w.panels; panel += 2) {
      bool exact = has_exact_lifts(args.w);
      for (Index i = 0; i < 2; ++i)
        exact &= unpack(args, std::min(panel + i, args.w.panels - 1), args.room + i * kTileBytes,
                        scales + i * kLanes);
      asm volatile("" ::: "memory");  // a unit's loads are no reads that the compiler knows of
      if (exact)
        multiply_rows<Lifted>(args, panel, {sums, {nowhere, scales}});
      else
        multiply_rows<Plain>(args, panel, {sums, {nowhere, scales}});
    }
  }

  // A row of c, by the row's scale.
  static void scale_row(const float* c, Index panels, Index row, float scale, float* out) {
    const Index pairs = (panels + 1) / 2;
    const float* from = c + row / (2 * kLanes) * pairs * kSums * kTileValues +
                        row / kLanes % 2 * 2 * kTileValues + row % kLanes * kLanes;
    const F by = V::set(scale);
    for (Index panel = 0; panel < panels; ++panel, out += kLanes) {
      V::store(out, by * V::load(from));
      from += panel % 2 == 0 ? kTileValues : (kSums - 1) * kTileValues;
    }
  }

 private:
  using F = typename V::F;
  using B = typename D::B;
  static constexpr Index kLanes = 16;
  static constexpr Index kDepth = T::kDepth;                // inputs of a tile
  static constexpr Index kTileBytes = kLanes * kDepth;      // as bytes; so many of x, too
  static constexpr Index kWords = kDepth / 8;               // of a tile's lane
  static constexpr Index kWordBytes = 64;                   // of sixteen lanes
  static constexpr Index kCodeBytes = kWords * kWordBytes;  // of a tile
  static constexpr Index kSums = 4;                         // tiles: two of rows by two of panels
  static constexpr Index kTileValues = 16 * kLanes;
  // Of a group: the scales of two panels, then their lifts.
  static constexpr Index kGroupScales = 4 * kLanes;

  // What sums begin at, and what they stand for with their scales.
  struct Plain {
    template <int kTile>
    static void begin() {
      T::template zero<kTile>();
    }
    static F value(const std::int32_t* sums, F scale, F /*lift*/) {
      return D::to_float(D::load_sums(sums)) * scale;
    }
  };
  static constexpr float kLift = 1.5F * (1 << 23);
  struct Lifted {
    template <int kTile>
    static void begin() {
      T::template fill<kTile>(kRow);
    }
    static F value(const std::int32_t* sums, F scale, F lift) {
      return V::fma(D::as_float(D::load_sums(sums)), scale, lift);
    }

   private:
    static constexpr auto kBits = std::bit_cast<std::int32_t>(kLift);
    alignas(64) static constexpr std::int32_t kRow[kLanes] = {
        kBits, kBits, kBits, kBits, kBits, kBits, kBits, kBits,
        kBits, kBits, kBits, kBits, kBits, kBits, kBits, kBits};
  };
  static void clear(float* c) {
    for (Index i = 0; i < kGroupSums; i += kLanes) V::store(c + i, V::set(0));
  }
  // Whether each lift, but for those that are not finite, is exact, and each sum far less than
  // 2^22. Of longer groups the products take as long as their sums.
  static bool has_exact_lifts(const FourBitPanels& w) {
    return w.scale_type != DType::kF32 && w.group <= 64;
  }

  struct Place {
    float* c;
    const float* scales;  // of two panels for each group
  };
  // Two groups one after the other, the second in the unit until others take its place, and what
  // becomes of their sums. Two at a time, as each number of c that is read and written for them is
  // read and written once.
  struct Groups {
    std::int32_t* sums;  // [2][kSums][kTileValues]
    Place place;
  };
  static constexpr Index kGroupSums = kSums * kTileValues;

  // `groups`: where their sums are, a c that is no one's, and all scales.
  template <typename Sums>
  static void multiply_rows(const W4A8TileArgs& args, Index panel, Groups groups) {
    const Place first = groups.place;
    const Index depth = args.depth_tiles;
    const Index group_tiles = (args.w.group + kDepth - 1) / kDepth;
    const Index pairs = (args.w.panels + 1) / 2;
    for (Index row = 0; row < args.row_tiles(); row += 2) {
      ask_ahead(args, panel, row);
      const bool both = row + 2 <= args.row_tiles();
      Step step;
      step.x = args.x + row * args.row_tile_stride;
      step.x_low = both ? step.x + args.row_tile_stride : step.x;
      step.weights = args.room;
      Place at{args.c + (row / 2 * pairs + panel / 2) * kGroupSums, first.scales};
      if (args.begin == 0) clear(at.c);
      Index left = depth;
      if (group_tiles == 1)
        multiply_pairs<Sums, true>(step, left, 1, groups, at);
      else
        multiply_pairs<Sums, false>(step, left, group_tiles, groups, at);
      if (left > 0) {
        finish<Sums>(groups);
        multiply_one<Sums>(step, left, at, groups.sums);
        groups.place = first;
      }
    }
    finish<Sums>(groups);
  }

  static Index end_of(const W4A8TileArgs& args, Index group, Index end) {
    const Index stop = ((group + 1) * args.w.group + kDepth - 1) / kDepth;
    return stop < end ? stop : end;
  }

  // Whether all lifts are finite.
  static bool unpack(const W4A8TileArgs& args, Index panel, std::byte* to, float* scales) {
    bool finite = true;
    const std::byte* const from = args.w.weights + panel * args.w.panel_stride;
    const std::byte* codes = from + args.w.codes + args.begin * kCodeBytes;
    const Index end = args.begin + args.depth_tiles;
    Index words = args.words - args.begin * kWords;
    for (Index tile = args.begin; tile < end;) {
      const Index group = tile * kDepth / args.w.group;
      const Index stop = end_of(args, group, end);
      const auto* const zeros = reinterpret_cast<const std::uint8_t*>(from + args.w.zeros);
      const F scale = load_scales<V>(args.w, from, group);
      V::store(scales, scale);
      float* const lifts = scales + 2 * kLanes;  // the other panel's scales are between
      V::store(lifts, V::set(-kLift) * scale);
      for (Index lane = 0; lane < kLanes; ++lane) finite &= lifts[lane] - lifts[lane] == 0;
      scales += kGroupScales;
      const B zero = D::four_times(zeros + group * kLanes);
      for (; tile < stop; ++tile, codes += kCodeBytes, to += 2 * kTileBytes, words -= kWords) {
        if (words >= kWords) {
#pragma GCC unroll 8
          for (Index word = 0; word < kWords; ++word) unpack_word(codes, word, zero, to);
          continue;
        }
        for (Index word = 0; word < words; ++word) unpack_word(codes, word, zero, to);
        for (Index word = words; word < kWords; ++word) {  // where x is zeros
          D::store(to + 2 * word * kWordBytes, zero);
          D::store(to + (2 * word + 1) * kWordBytes, zero);
        }
      }
    }
    return finite;
  }
  static void unpack_word(const std::byte* codes, Index word, B zero, std::byte* to) {
    const B some = D::load_codes(codes + word * kWordBytes);
    D::store(to + 2 * word * kWordBytes, D::minus(D::low_nibbles(some), zero));
    D::store(to + (2 * word + 1) * kWordBytes, D::minus(D::high_nibbles(some), zero));
  }

  template <int kTile>
  struct Number {
    static constexpr int kNumber = kTile;
  };
  template <typename Body>
  static void each_sum(const Body& body) {
    body(Number<0>());
    body(Number<1>());
    body(Number<2>());
    body(Number<3>());
  }

  // A tile of sums leaves the unit, and others begin in its place. The address is made anew: kept,
  // it would be one of more than there are registers.
  template <int kTile, typename Sums>
  [[gnu::always_inline]] static void take(std::int32_t* sums) {
    asm volatile("" : "+r"(sums));
    T::template store<kTile>(sums + kTile * kTileValues);
    Sums::template begin<kTile>();
  }
  template <int kTile, typename Sums>
  [[gnu::always_inline]] static void add(const std::int32_t* sums, float* c, const float* scales) {
    const std::int32_t* const first = sums + kTile * kTileValues;
    const std::int32_t* const second = first + kGroupSums;
    c += kTile * kTileValues;
    scales += kTile % 2 * kLanes;
    const F scale = V::load(scales);
    const F lift = V::load(scales + 2 * kLanes);
    const F next_scale = V::load(scales + kGroupScales);
    const F next_lift = V::load(scales + kGroupScales + 2 * kLanes);
#pragma GCC unroll 16
    for (Index i = 0; i < kTileValues; i += kLanes) {
      const F sum = V::load(c + i) + Sums::value(first + i, scale, lift);
      V::store(c + i, sum + Sums::value(second + i, next_scale, next_lift));
    }
  }
  template <typename Sums>
  static void finish(const Groups& groups) {
    each_sum([&](auto n) {
      T::template store<n.kNumber>(groups.sums + kGroupSums + n.kNumber * kTileValues);
      add<n.kNumber, Sums>(groups.sums, groups.place.c, groups.place.scales);
    });
  }

  // What is multiplied next. Tiles 0 to 3 are sums, 4 and 5 x, 6 and 7 weights.
  struct Step {
    const std::byte* x;
    const std::byte* x_low;
    const std::byte* weights;  // of the left panel, then of the right one

    [[gnu::always_inline]] void advance() {
      x += kTileBytes;
      x_low += kTileBytes;
      weights += 2 * kTileBytes;
    }
  };
  // before(n) and after(n) the sums of tile n are touched.
  template <typename Before, typename After>
  [[gnu::always_inline]] static void multiply_step(Step step, Before before, After after) {
    before(Number<0>());
    T::template load<4>(step.x);
    T::template load<6>(step.weights);
    T::template multiply<0, 4, 6>();
    after(Number<0>());
    before(Number<1>());
    T::template load<7>(step.weights + kTileBytes);
    T::template multiply<1, 4, 7>();
    after(Number<1>());
    before(Number<2>());
    T::template load<5>(step.x_low);
    T::template multiply<2, 5, 6>();
    after(Number<2>());
    before(Number<3>());
    T::template multiply<3, 5, 7>();
    after(Number<3>());
  }
  static constexpr auto kNothing = [](auto) {};

  // Pairs of groups of so many tiles of the `left` ones, the last maybe shorter, and between their
  // products what is to be done for the two before. Sums leave the unit one tile at a time, each
  // when its place is needed: stores that wait for the unit would keep what is behind them from
  // being looked at. So would a pointer that lies in memory, and be it one that changes seldom: all
  // is in registers here, and nothing else in the function.
  template <typename Sums, bool kOneTile>
  [[gnu::noinline]] static void multiply_pairs(Step& step, Index& left, Index tiles, Groups& groups,
                                               Place& next) {
    Step at = step;
    Index rest = left;
    std::int32_t* const sums = groups.sums;
    float* c = groups.place.c;
    const float* scales = groups.place.scales;
    const float* next_scales = next.scales;
    while (rest > tiles) {
      const auto add_some = [=](auto n) { add<n.kNumber, Sums>(sums, c, scales); };
      // Of groups of one tile what is to be done is spread over two steps, else over three.
      multiply_step(
          at,
          [=](auto n) {
            if constexpr (kOneTile && n.kNumber == 3) add_some(Number<0>());
            take<n.kNumber, Sums>(sums + kGroupSums);
          },
          [=](auto n) {
            if constexpr (kOneTile && n.kNumber == 3) add_some(Number<1>());
          });
      at.advance();
      rest -= tiles;
      Index second = 1;
      if constexpr (!kOneTile) {
        second = rest < tiles ? rest : tiles;
        for (Index i = tiles - 2; i > 0; --i, at.advance()) multiply_step(at, kNothing, kNothing);
        multiply_step(at, kNothing, [=](auto n) {
          if constexpr (n.kNumber % 2 == 0) add_some(Number<n.kNumber / 2>());
        });
        at.advance();
      }
      multiply_step(
          at,
          [=](auto n) {
            if constexpr (n.kNumber == 3 || (!kOneTile && n.kNumber == 2)) add_some(n);
            take<n.kNumber, Sums>(sums);
          },
          [=](auto n) {
            if constexpr (kOneTile && n.kNumber == 0) add_some(Number<2>());
          });
      at.advance();
      rest -= second;
      for (--second; second > 0; --second, at.advance()) multiply_step(at, kNothing, kNothing);
      c = next.c;
      scales = next_scales;
      next_scales += 2 * kGroupScales;
    }
    step = at;
    left = rest;
    groups.place = {c, scales};
    next.scales = next_scales;
  }
  // A group that is alone.
  template <typename Sums>
  static void multiply_one(Step step, Index tiles, const Place& place, std::int32_t* sums) {
    each_sum([](auto n) { Sums::template begin<n.kNumber>(); });
    for (; tiles > 0; --tiles, step.advance()) multiply_step(step, kNothing, kNothing);
    each_sum([&](auto n) {
      constexpr int kTile = n.kNumber;
      T::template store<kTile>(sums);
      float* const to = place.c + kTile * kTileValues;
      const float* const scales = place.scales + kTile % 2 * kLanes;
      const F scale = V::load(scales);
      const F lift = V::load(scales + 2 * kLanes);
      for (Index i = 0; i < kTileValues; i += kLanes)
        V::store(to + i, V::load(to + i) + Sums::value(sums + i, scale, lift));
    });
  }

  // A pair of row tiles asks for its share of the codes that are next.
  static void ask_ahead(const W4A8TileArgs& args, Index panel, Index row) {
    constexpr Index kLine = 64;
    const bool inside = panel + 2 < args.w.panels;
    const std::byte* const next = inside ? args.w.weights + (panel + 2) * args.w.panel_stride +
                                               args.w.codes + args.begin * kCodeBytes
                                         : args.next;
    const Index pairs = (args.row_tiles() + 1) / 2;
    const Index lines = args.depth_tiles * (kCodeBytes / kLine);
    const Index begin = lines * (row / 2) / pairs;
    const Index end = lines * (row / 2 + 1) / pairs;
    for (Index line = begin; line < end; ++line) {
      __builtin_prefetch(next + line * kLine, 0, 2);
      __builtin_prefetch(next + args.w.panel_stride + line * kLine, 0, 2);
    }
  }
};

}  // namespace saccade::cpu
