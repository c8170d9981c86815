// Products of rows of bytes with SuperBlocks on tiles of bytes: super_blocks_a8.h to the bit,
// for a matrix unit T, a vector type V of sixteen floats and a set D of operations on as many
// words, as in w4a8_tiles.h.
//
// A code times a scale of six bits is no byte, but times three of its bits it is: 15 * 7. So a
// panel becomes two planes of bytes, of the scales' upper and lower halves, and a block's sum,
// which need not leave the unit before its end, is eight times the upper plane's and the lower
// plane's. Twice the products of bytes; but of groups of 32 sums take longer than that
// (w4a8_tiles.h), and here they are taken once for 256 inputs.
//
// The sums of x of a block's units are one tile more: their upper bytes, then their lower ones (64
// times the one and the other), which meet the minima at one of two places.
#pragma once

#include <cstring>

#include "ops/cpu/products/super_blocks_a8.h"

namespace saccade::cpu {

// A block's part of that tile's row: what the lower byte holds is -32 to 31.
inline void split_sums(const std::int32_t* sums, std::uint8_t* row) {
  constexpr Index kUnits = SuperBlock::kUnits;
  std::memset(row, 0, 64);
  for (Index unit = 0; unit < kUnits; ++unit) {
    const std::int32_t high = (sums[unit] + 32) >> 6;
    row[unit] = static_cast<std::uint8_t>(high);
    row[kUnits + unit] = static_cast<std::uint8_t>(sums[unit] - 64 * high);
  }
}

template <typename V, typename D, typename T>
class SuperBlockTiles {
 public:
  // Of an odd row tile the unit multiplies the same one twice.
  static void multiply(const SuperBlockTileArgs& args) {
    [[maybe_unused]] const typename T::Session session;
    const Room room(args);
    for (Index block = 0; block < args.blocks; ++block)
      std::memset(room.tiles + (block * kTiles + kTiles - 1) * 2 * kTileBytes, 0, 2 * kTileBytes);
    for (Index panel = 0; panel < args.w.panels; ++panel) {
      for (Index block = 0; block < args.blocks; ++block) unpack(args, panel, block, room);
      asm volatile("" ::: "memory");  // a unit's loads are no reads that the compiler knows of
      multiply_rows(args, panel, room);
    }
  }

 private:
  using F = typename V::F;
  using B = typename D::B;
  static constexpr Index kLanes = 16;
  static constexpr SuperBlockLayout kLayout{kLanes};
  static constexpr Index kTiles = SuperBlockTileArgs::kTiles;
  static constexpr Index kRow = 64;  // bytes of a tile's
  static constexpr Index kTileValues = 16 * kLanes;
  static constexpr Index kSums = 4 * kTileValues;  // two row tiles by two planes

  struct Room {
    explicit Room(const SuperBlockTileArgs& args)
        : tiles(args.room),
          scales(reinterpret_cast<float*>(tiles + args.blocks * kTiles * 2 * kTileBytes)),
          sums(reinterpret_cast<std::int32_t*>(scales + args.blocks * 2 * kLanes)),
          minima(sums + 2 * kSums),
          nowhere(reinterpret_cast<float*>(minima + kSums)) {}
    std::byte* tiles;      // [blocks][kTiles][2 planes]
    float* scales;         // [blocks]: d, dmin
    std::int32_t* sums;    // [2][kSums]
    std::int32_t* minima;  // [kSums]
    float* nowhere;        // a c before the first
  };

  static void unpack(const SuperBlockTileArgs& args, Index panel, Index block, const Room& room) {
    const std::byte* const from =
        args.w.weights + panel * args.w.panel_stride + (args.begin + block) * kLayout.bytes();
    float* const scales = room.scales + block * 2 * kLanes;
    V::store(scales, V::load(reinterpret_cast<const F16*>(from)));
    V::store(scales + kLanes,
             V::load(reinterpret_cast<const F16*>(from + kLayout.minima_scales())));
    std::byte* to = room.tiles + block * kTiles * 2 * kTileBytes;
    std::byte* const minima = to + (kTiles - 1) * 2 * kTileBytes;
    const std::byte* codes = from + kLayout.codes();
    for (Index unit = 0; unit < SuperBlock::kUnits; ++unit) {
      alignas(64) std::uint8_t high[kLanes];
      alignas(64) std::uint8_t low[kLanes];
      for (Index lane = 0; lane < kLanes; ++lane) {
        const auto scale =
            std::to_integer<std::uint8_t>(from[kLayout.scales() + unit * kLanes + lane]);
        high[lane] = scale >> 3;
        low[lane] = scale & 7;
        const auto minimum = static_cast<std::byte>(
            -std::to_integer<int>(from[kLayout.minima() + unit * kLanes + lane]));
        const Index at = unit / 4 * kRow + lane * 4 + unit % 4;
        minima[at] = minimum;                          // meets upper bytes
        minima[kTileBytes + at + 2 * kRow] = minimum;  // lower ones
      }
      const B upper = D::four_times(high);
      const B lower = D::four_times(low);
      // Two units are a tile of 64 inputs, each word two of its rows.
      for (Index word = 0; word < kBlockUnit / 8; ++word, codes += kRow, to += 2 * kRow) {
        const B some = D::load_codes(codes);
        const B even = D::low_nibbles(some);
        const B odd = D::high_nibbles(some);
        D::store(to, D::times(even, upper));
        D::store(to + kRow, D::times(odd, upper));
        D::store(to + kTileBytes, D::times(even, lower));
        D::store(to + kTileBytes + kRow, D::times(odd, lower));
      }
      if (unit % 2 == 1) to += kTileBytes;
    }
  }

  template <int kTile>
  struct Number {
    static constexpr int kNumber = kTile;
  };
  template <int kTile>
  [[gnu::always_inline]] static void take(std::int32_t* sums) {
    asm volatile("" : "+r"(sums));
    T::template store<kTile>(sums + kTile * kTileValues);
    T::template zero<kTile>();
  }

  // A tile of each, and before(n) the sums of tile n are touched.
  template <typename Before>
  [[gnu::always_inline]] static void multiply_step(const std::byte* x, const std::byte* x_low,
                                                   const std::byte* weights, Before before) {
    before(Number<0>());
    T::template load<4>(x);
    T::template load<6>(weights);
    T::template multiply<0, 4, 6>();
    before(Number<1>());
    T::template load<7>(weights + kTileBytes);
    T::template multiply<1, 4, 7>();
    before(Number<2>());
    T::template load<5>(x_low);
    T::template multiply<2, 5, 6>();
    before(Number<3>());
    T::template multiply<3, 5, 7>();
  }
  static constexpr auto kNothing = [](auto) {};

  // Rows [kFirst, kFirst + 8) of 32 of a block whose sums have left the unit.
  template <Index kFirst>
  [[gnu::always_inline]] static void add_rows(const std::int32_t* sums, const std::int32_t* minima,
                                              const float* scales, float* c) {
    constexpr Index kTile = kFirst / 16;
    constexpr Index kAt = kFirst % 16 * kLanes;
    sums += 2 * kTile * kTileValues + kAt;
    minima += 2 * kTile * kTileValues + kAt;
    c += 2 * kTile * kTileValues + kAt;
    const F d = V::load(scales);
    const F dmin = V::load(scales + kLanes);
#pragma GCC unroll 8
    for (Index i = 0; i < 8 * kLanes; i += kLanes) {
      const auto whole =
          D::template plus_shifted<3>(D::load_sums(sums + kTileValues + i), D::load_sums(sums + i));
      const auto less = D::template plus_shifted<6>(D::load_sums(minima + kTileValues + i),
                                                    D::load_sums(minima + i));
      const F value = D::to_float(whole) * d + D::to_float(less) * dmin;
      V::store(c + i, V::load(c + i) + value);
    }
  }

  // While the unit is at a block, vectors are at the one before: of this row pair or the last.
  static void multiply_rows(const SuperBlockTileArgs& args, Index panel, const Room& room) {
    const Index panel_pairs = (args.w.panels + 1) / 2;
    float* const c_of_panel = args.c + panel / 2 * kSums + panel % 2 * kTileValues;
    const float* scales = room.scales;
    float* c = room.nowhere;
    std::int32_t* sums = room.sums;
    std::int32_t* const minima = room.minima;
    T::template zero<0>();
    T::template zero<1>();
    T::template zero<2>();
    T::template zero<3>();
    for (Index row = 0; row < args.row_tiles(); row += 2) {
      ask_ahead(args, panel, row);
      const std::byte* x = args.x + row * args.row_tile_stride;
      const Index to_low = row + 2 <= args.row_tiles() ? args.row_tile_stride : 0;
      const std::byte* weights = room.tiles;
      float* const next_c = c_of_panel + row / 2 * panel_pairs * kSums;
      if (args.begin == 0) clear(next_c);
      for (Index block = 0; block < args.blocks; ++block) {
        std::int32_t* const next_sums = room.sums + (sums == room.sums ? kSums : 0);
        const auto step = [&](auto before) {
          multiply_step(x, x + to_low, weights, before);
          x += kTileBytes;
          weights += 2 * kTileBytes;
        };
        step([=](auto n) { take<n.kNumber>(minima); });
        add_rows<0>(sums, minima, scales, c);
        step(kNothing);
        add_rows<8>(sums, minima, scales, c);
        step(kNothing);
        add_rows<16>(sums, minima, scales, c);
        step(kNothing);
        add_rows<24>(sums, minima, scales, c);
        step([=](auto n) { take<n.kNumber>(next_sums); });
        sums = next_sums;
        scales = room.scales + block * 2 * kLanes;
        c = next_c;
      }
    }
    take<0>(minima);
    take<1>(minima);
    take<2>(minima);
    take<3>(minima);
    add_rows<0>(sums, minima, scales, c);
    add_rows<8>(sums, minima, scales, c);
    add_rows<16>(sums, minima, scales, c);
    add_rows<24>(sums, minima, scales, c);
  }

  // Two row tiles of one panel, which lie as those of a pair of panels do.
  static void clear(float* c) {
    for (Index tile = 0; tile < 2; ++tile)
      for (Index i = 0; i < kTileValues; i += kLanes)
        V::store(c + 2 * tile * kTileValues + i, V::set(0));
  }

  // A pair of row tiles asks for its share of the panel that is next.
  static void ask_ahead(const SuperBlockTileArgs& args, Index panel, Index row) {
    constexpr Index kLine = 64;
    const std::byte* const next =
        panel + 1 < args.w.panels
            ? args.w.weights + (panel + 1) * args.w.panel_stride + args.begin * kLayout.bytes()
            : args.next;
    const Index pairs = (args.row_tiles() + 1) / 2;
    const Index lines = args.blocks * kLayout.bytes() / kLine;
    for (Index line = lines * (row / 2) / pairs; line < lines * (row / 2 + 1) / pairs; ++line)
      __builtin_prefetch(next + line * kLine, 0, 2);
  }
};

}  // namespace saccade::cpu
