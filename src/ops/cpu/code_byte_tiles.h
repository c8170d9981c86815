// Products of rows of bytes with codes of four bits on tiles of bytes: CodesByBytes::multiply
// (codes_by_bytes.h) to the bit, for a matrix unit T, a vector type V of sixteen floats and a set D
// of operations on as many words. Included by the translation unit of that unit alone, and by a
// test that has a unit in software.
//
// A panel's codes become bytes once, less their zeros, which fit (-16 to 15), and lie in the
// first-level cache while all rows pass. A lane's word of eight codes is a low and a high half of
// its bytes, two rows of a tile, so that x lies as CodesByBytes::round_row leaves it. A tile's sums
// leave the unit after each group of inputs, as exact integers; they become f32 and get their
// scales by vectors, two groups at a time, while the unit is at the next two.
#pragma once

#include "ops/cpu/four_bit_scales.h"

namespace saccade::cpu {

template <typename V, typename D, typename T>
class CodeByteTiles {
 public:
  // Of an odd row tile, or panel, the unit multiplies the same one twice.
  static void multiply(const CodeByteTileArgs& args) {
    [[maybe_unused]] const typename T::Session session;
    alignas(64) float nowhere[kSums * kTileNumbers];
    const Index depth = args.depth_tiles;
    const Index group_tiles = (args.w.group + kDepth - 1) / kDepth;
    const Index pairs = (args.w.panels + 1) / 2;
    float* const scales = reinterpret_cast<float*>(args.room + 2 * depth * kTileBytes);
    Groups groups;
    for (Index panel = 0; panel < args.w.panels; panel += 2) {
      const bool two = panel + 2 <= args.w.panels;
      unpack(args, panel, args.room, scales);
      if (two) unpack(args, panel + 1, args.room + depth * kTileBytes, scales + kLanes);
      asm volatile("" ::: "memory");  // a unit's loads are no reads that the compiler knows of
      groups.c = nowhere;
      groups.scales = nowhere;
      groups.fresh = true;
      for (Index row = 0; row < args.row_tiles(); row += 2) {
        ask_ahead(args, panel, row);
        const bool both = row + 2 <= args.row_tiles();
        Step step;
        step.x = args.x + row * args.row_tile_stride;
        step.x_low = both ? step.x + args.row_tile_stride : step.x;
        step.weights = args.room;
        step.weights_right = two ? step.weights + depth * kTileBytes : step.weights;
        float* const c = args.c + (row / 2 * pairs + panel / 2) * (kSums * kTileNumbers);
        const float* scale = scales;
        bool fresh = args.begin == 0;
        Index tile = 0;
        for (; tile + group_tiles < depth; tile += 2 * group_tiles) {
          const Index left = depth - tile - group_tiles;
          multiply_two(step, group_tiles, left < group_tiles ? left : group_tiles, groups);
          groups.c = c;
          groups.scales = scale;
          groups.fresh = fresh;
          scale += 4 * kLanes;
          fresh = false;
        }
        if (tile < depth) {
          groups.finish();
          multiply_one(step, depth - tile, {c, scale, fresh}, groups);
          groups.c = nowhere;
        }
      }
      groups.finish();
    }
  }

  // A row of c, by the row's scale.
  static void scale_row(const float* c, Index panels, Index row, float scale, float* out) {
    const Index pairs = (panels + 1) / 2;
    const float* from = c + row / (2 * kLanes) * pairs * kSums * kTileNumbers +
                        row / kLanes % 2 * 2 * kTileNumbers + row % kLanes * kLanes;
    const F by = V::set(scale);
    for (Index panel = 0; panel < panels; ++panel, out += kLanes) {
      V::store(out, by * V::load(from));
      from += panel % 2 == 0 ? kTileNumbers : (kSums - 1) * kTileNumbers;
    }
  }

 private:
  using F = typename V::F;
  using B = typename D::B;
  static constexpr Index kLanes = 16;
  static constexpr Index kDepth = 64;                       // inputs of a tile
  static constexpr Index kWords = 8;                        // of a tile's lane
  static constexpr Index kWordBytes = 64;                   // of sixteen lanes
  static constexpr Index kCodeBytes = kWords * kWordBytes;  // of a tile
  static constexpr Index kSums = 4;                         // tiles: two of rows by two of panels
  static constexpr Index kTileNumbers = 16 * kLanes;

  static Index end_of(const CodeByteTileArgs& args, Index group, Index end) {
    const Index stop = ((group + 1) * args.w.group + kDepth - 1) / kDepth;
    return stop < end ? stop : end;
  }

  static void unpack(const CodeByteTileArgs& args, Index panel, std::byte* to, float* scales) {
    const std::byte* const from = args.w.weights + panel * args.w.panel_stride;
    const std::byte* codes = from + args.w.codes + args.begin * kCodeBytes;
    const Index end = args.begin + args.depth_tiles;
    Index words = args.words - args.begin * kWords;
    for (Index tile = args.begin; tile < end;) {
      const Index group = tile * kDepth / args.w.group;
      const Index stop = end_of(args, group, end);
      const auto* const zeros = reinterpret_cast<const std::uint8_t*>(from + args.w.zeros);
      V::store(scales, load_scales<V>(args.w, from, group));
      scales += 2 * kLanes;  // the other panel's are between
      const B zero = D::four_times(zeros + group * kLanes);
      for (; tile < stop; ++tile, codes += kCodeBytes, to += kTileBytes, words -= kWords) {
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

  // Two groups one after the other, the second in the unit until others take its place, and what
  // becomes of their sums. Two at a time, as each number of c that is read and written for them is
  // read and written once.
  struct Groups {
    alignas(64) std::int32_t sums[2][kSums * kTileNumbers];
    float* c;
    const float* scales;  // of two panels for each group
    bool fresh;

    template <int kTile>
    void store(int group) {
      T::template store<kTile>(sums[group] + kTile * kTileNumbers);
    }
    template <int kTile>
    void add() const {
      const std::int32_t* const first = sums[0] + kTile * kTileNumbers;
      const std::int32_t* const second = sums[1] + kTile * kTileNumbers;
      float* const to = c + kTile * kTileNumbers;
      const F scale = V::load(scales + kTile % 2 * kLanes);
      const F next_scale = V::load(scales + (2 + kTile % 2) * kLanes);
      if (fresh) {
#pragma GCC unroll 16
        for (Index i = 0; i < kTileNumbers; i += kLanes)
          V::store(to + i, value(first + i, scale) + value(second + i, next_scale));
        return;
      }
#pragma GCC unroll 16
      for (Index i = 0; i < kTileNumbers; i += kLanes)
        V::store(to + i,
                 (V::load(to + i) + value(first + i, scale)) + value(second + i, next_scale));
    }
    void finish() {
      each_sum([&](auto n) {
        store<n.kNumber>(1);
        add<n.kNumber>();
      });
    }
  };
  static F value(const std::int32_t* sums, F scale) {
    return D::to_float(D::load_sums(sums)) * scale;
  }

  // What is multiplied next. Tiles 0 to 3 are sums, 4 and 5 x, 6 and 7 weights.
  struct Step {
    const std::byte* x;
    const std::byte* x_low;
    const std::byte* weights;
    const std::byte* weights_right;
  };
  // before(n) and after(n) the sums of tile n are touched.
  template <typename Before, typename After>
  static void multiply_step(Step& step, const Before& before, const After& after) {
    before(Number<0>());
    T::template load<4>(step.x);
    T::template load<6>(step.weights);
    T::template multiply<0, 4, 6>();
    after(Number<0>());
    before(Number<1>());
    T::template load<7>(step.weights_right);
    T::template multiply<1, 4, 7>();
    before(Number<2>());
    T::template load<5>(step.x_low);
    T::template multiply<2, 5, 6>();
    after(Number<2>());
    before(Number<3>());
    T::template multiply<3, 5, 7>();
    step.x += kTileBytes;
    step.x_low += kTileBytes;
    step.weights += kTileBytes;
    step.weights_right += kTileBytes;
  }
  static void multiply_steps(Step& step, Index count) {
    for (; count > 0; --count) multiply_step(step, [](auto) {}, [](auto) {});
  }
  // Two groups of so many tiles, and between their products what is to be done for the two before.
  // Sums leave the unit one tile at a time, each when its place is needed: stores that wait for the
  // unit would keep what is behind them from being looked at.
  static void multiply_two(Step& step, Index tiles, Index next_tiles, Groups& before) {
    multiply_step(
        step,
        [&](auto n) {
          before.template store<n.kNumber>(1);
          T::template zero<n.kNumber>();
        },
        [](auto) {});
    const auto add = [&](auto n) { before.template add<n.kNumber / 2>(); };
    if (tiles > 1) {
      multiply_steps(step, tiles - 2);
      multiply_step(step, [](auto) {}, add);
    } else {
      add(Number<0>());
      add(Number<2>());
    }
    multiply_step(
        step,
        [&](auto n) {
          if constexpr (n.kNumber >= 2) before.template add<n.kNumber>();
          before.template store<n.kNumber>(0);
          T::template zero<n.kNumber>();
        },
        [](auto) {});
    multiply_steps(step, next_tiles - 1);
  }
  struct Place {
    float* c;
    const float* scales;
    bool fresh;
  };
  // A group that is alone.
  static void multiply_one(Step& step, Index tiles, const Place& place, Groups& room) {
    each_sum([](auto n) { T::template zero<n.kNumber>(); });
    multiply_steps(step, tiles);
    each_sum([&](auto n) {
      constexpr int kTile = n.kNumber;
      room.template store<kTile>(0);
      const std::int32_t* const from = room.sums[0] + kTile * kTileNumbers;
      float* const to = place.c + kTile * kTileNumbers;
      const F scale = V::load(place.scales + kTile % 2 * kLanes);
      for (Index i = 0; i < kTileNumbers; i += kLanes) {
        const F some = value(from + i, scale);
        V::store(to + i, place.fresh ? some : V::load(to + i) + some);
      }
    });
  }

  // A pair of row tiles asks for its share of the codes that are next.
  static void ask_ahead(const CodeByteTileArgs& args, Index panel, Index row) {
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
