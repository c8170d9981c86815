// Codes of four bits on AMX tiles of bf16. Included by the translation unit compiled for AMX alone.
//
// What a group's sixteen codes stand for, rounded to bf16, is a table of an output, and VPERMW
// looks 32 of them up at a time: 32 inputs of one output, a row of a tile. That is how the unit
// wants its first operand, so for few rows it multiplies the weights by x and not x by the weights.
// The same products are added in the same order, so the bits are those of TileKernels::multiply.
// For many rows tiles are turned round, which costs as much again, and multiplied as others are.
#pragma once

#include <cstring>

#include "ops/cpu/products/amx_tiles.h"
#include "ops/cpu/products/four_bit_scales.h"

namespace saccade::cpu::amx {

constexpr Index kBlockTiles = 4;  // of 32 inputs, whose codes share words

// Of sixteen outputs, what each code of the group at hand stands for: twice sixteen, as VPERMW
// looks at five bits of which the highest is of the next code.
struct CodeTables {
  alignas(64) Bf16 values[kTileRows][32];
  Index group = -1;

  void make(const FourBitPanels& w, const std::byte* panel, Index of) {
    if (of == group) return;
    group = of;
    const F scale = load_scales<V>(w, panel, of);
    const __m128i bytes =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(panel + w.zeros + of * 16));
    const F zero = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
    alignas(64) float scales[16];
    alignas(64) float lifts[16];
    V::store(scales, scale);
    V::store(lifts, V::zero() - zero * scale);
    const F codes = V::iota();
#pragma GCC unroll 16
    for (Index out = 0; out < kTileRows; ++out) {
      const F value = V::fma(codes, V::set(scales[out]), V::set(lifts[out]));
      const auto half = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(value));
      _mm512_store_si512(values[out], _mm512_broadcast_i64x4(half));
    }
  }
  __m512i of(Index out) const { return _mm512_load_si512(values[out]); }
};

// Tile `tile` of a panel, one of its rows a vector.
inline void look_up(const FourBitPanels& w, const std::byte* panel, Index tile, CodeTables& tables,
                    __m512i (&rows)[kTileRows]) {
  tables.make(w, panel, tile * kTileDepth / w.group);
  const std::byte* const codes = panel + w.codes + tile / kBlockTiles * kTileBytes;
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(4 * (tile % kBlockTiles)));
#pragma GCC unroll 16
  for (Index out = 0; out < kTileRows; ++out) {
    const __m512i words = _mm512_loadu_si512(codes + out * kRowBytes);
    rows[out] = _mm512_permutexvar_epi16(_mm512_srl_epi16(words, shift), tables.of(out));
  }
}

// The four tiles of a block whose inputs are of one group.
inline void look_up_block(const FourBitPanels& w, const std::byte* panel, Index block,
                          CodeTables& tables, std::byte* tiles) {
  tables.make(w, panel, block * kBlockTiles * kTileDepth / w.group);
  const std::byte* const codes = panel + w.codes + block * kTileBytes;
#pragma GCC unroll 4
  for (Index out = 0; out < kTileRows; ++out) {
    const __m512i words = _mm512_loadu_si512(codes + out * kRowBytes);
    __builtin_prefetch(codes + out * kRowBytes + 2 * kTileBytes);
    const __m512i values = tables.of(out);
    std::byte* const row = tiles + out * kRowBytes;
    _mm512_store_si512(row, _mm512_permutexvar_epi16(words, values));
    _mm512_store_si512(row + kTileBytes,
                       _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4), values));
    _mm512_store_si512(row + 2 * kTileBytes,
                       _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 8), values));
    _mm512_store_si512(row + 3 * kTileBytes,
                       _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 12), values));
  }
}

// Tiles 0 to 3 are sums [16 outputs][rows], 4 is x [16 pairs][rows][2], 5 to 7 weights.
struct FewRowsConfig : TileConfig {
  explicit FewRowsConfig(Index count) {
    for (int tile = 0; tile <= 4; ++tile) row_bytes[tile] = static_cast<std::uint16_t>(4 * count);
  }
};

class FewRowsTiles {
 public:
  explicit FewRowsTiles(Index rows) {
    const FewRowsConfig config(rows);
    asm volatile(""
                 :
                 : "m"(config));  // the intrinsic says that it reads its first eight bytes only
    _tile_loadconfig(&config);
  }
  ~FewRowsTiles() { _tile_release(); }
  FewRowsTiles(const FewRowsTiles&) = delete;
  FewRowsTiles& operator=(const FewRowsTiles&) = delete;
};

// Sums [16 outputs][rows] of a panel to its columns of c.
inline void turn_sums(const float* sums, Index rows, float* c, Index c_stride) {
  for (Index row = 0; row < rows; ++row)
    for (Index out = 0; out < 16; ++out) c[row * c_stride + out] = sums[out * rows + row];
}

// Blocks of a few panels, looked up one block ahead of the products: a tile that was stored just
// now would be waited for.
template <int N>
class FewRowsProduct {
 public:
  FewRowsProduct(const FourBitTileArgs& args, Index panel)
      : args_(args), x_tile_(kTileRows * args.rows * 4), x_stride_(args.rows * 4) {
    for (int n = 0; n < N; ++n) panels_[n] = args.w.weights + (panel + n) * args.w.panel_stride;
    c_ = args.c + panel * 16;
  }

  void run() {
    const Index blocks = (args_.depth_tiles + kBlockTiles - 1) / kBlockTiles;
    clear_sums();
    look_up(0);
    for (Index block = 0; block < blocks; ++block) {
      if (block + 1 < blocks) look_up(block + 1);
      const Index first = block * kBlockTiles;
      const Index count =
          args_.depth_tiles - first < kBlockTiles ? args_.depth_tiles - first : kBlockTiles;
      for (Index tile = 0; tile < count; ++tile)
        multiply(args_.x + (first + tile) * x_tile_, tiles_[block % 2][0] + tile * kTileBytes);
    }
    store_sums();
  }

 private:
  void look_up(Index block) {
    const bool one_group = args_.w.group % (kBlockTiles * kTileDepth) == 0;
    for (int n = 0; n < N; ++n) {
      std::byte* const tiles = tiles_[block % 2][n];
      if (one_group) {
        look_up_block(args_.w, panels_[n], block, tables_[n], tiles);
        continue;
      }
      for (Index i = 0; i < kBlockTiles; ++i) {
        const Index tile = block * kBlockTiles + i;
        if (tile >= args_.depth_tiles) break;
        __m512i rows[kTileRows];
        amx::look_up(args_.w, panels_[n], tile, tables_[n], rows);
        for (Index out = 0; out < kTileRows; ++out)
          _mm512_store_si512(tiles + i * kTileBytes + out * kRowBytes, rows[out]);
      }
    }
  }
  static void clear_sums() {
    _tile_zero(0);
    if constexpr (N > 1) _tile_zero(1);
    if constexpr (N > 2) _tile_zero(2);
    if constexpr (N > 3) _tile_zero(3);
  }
  // `tiles`: of the first panel; of the others they are kBlockTiles on.
  void multiply(const std::byte* x, const std::byte* tiles) const {
    constexpr Index kNext = kBlockTiles * kTileBytes;
    _tile_loadd(4, x, x_stride_);
    _tile_loadd(5, tiles, kRowBytes);
    _tile_dpbf16ps(0, 5, 4);
    if constexpr (N > 1) {
      _tile_loadd(6, tiles + kNext, kRowBytes);
      _tile_dpbf16ps(1, 6, 4);
    }
    if constexpr (N > 2) {
      _tile_loadd(7, tiles + 2 * kNext, kRowBytes);
      _tile_dpbf16ps(2, 7, 4);
    }
    if constexpr (N > 3) {
      _tile_loadd(5, tiles + 3 * kNext, kRowBytes);
      _tile_dpbf16ps(3, 5, 4);
    }
  }
  void store_sums() const {
    alignas(64) float sums[16 * 16];
    _tile_stored(0, sums, x_stride_);
    turn_sums(sums, args_.rows, c_, args_.c_stride);
    if constexpr (N > 1) {
      _tile_stored(1, sums, x_stride_);
      turn_sums(sums, args_.rows, c_ + 16, args_.c_stride);
    }
    if constexpr (N > 2) {
      _tile_stored(2, sums, x_stride_);
      turn_sums(sums, args_.rows, c_ + 32, args_.c_stride);
    }
    if constexpr (N > 3) {
      _tile_stored(3, sums, x_stride_);
      turn_sums(sums, args_.rows, c_ + 48, args_.c_stride);
    }
  }

  const FourBitTileArgs& args_;
  Index x_tile_;  // bytes
  Index x_stride_;
  const std::byte* panels_[N];
  float* c_;
  CodeTables tables_[N];
  alignas(64) std::byte tiles_[2][N][kBlockTiles * kTileBytes];
};

inline void multiply_four_bits(const FourBitTileArgs& args) {
  const FewRowsTiles tiles(args.rows);
  Index panel = 0;
  for (; panel + 4 <= args.w.panels; panel += 4) FewRowsProduct<4>(args, panel).run();
  for (; panel < args.w.panels; ++panel) FewRowsProduct<1>(args, panel).run();
}

inline void unpack_four_bits(const FourBitTileArgs& args) {
  std::byte* to = args.tiles;
  for (Index panel = 0; panel < args.w.panels; ++panel) {
    CodeTables tables;
    for (Index tile = 0; tile < args.depth_tiles; ++tile, to += kTileBytes) {
      __m512i rows[kTileRows];
      look_up(args.w, args.w.weights + panel * args.w.panel_stride, args.begin + tile, tables,
              rows);
      F pairs[kTileRows];
#pragma GCC unroll 16
      for (Index i = 0; i < kTileRows; ++i) pairs[i] = _mm512_castsi512_ps(rows[i]);
      V::transpose(pairs);
#pragma GCC unroll 16
      for (Index i = 0; i < kTileRows; ++i)
        _mm512_store_si512(to + i * kRowBytes, _mm512_castps_si512(pairs[i]));
    }
  }
}

inline void round_pairs(const float* x, Index x_stride, Index rows, Index cols, Index begin,
                        Index end, Bf16* out) {
  for (Index tile = begin; tile < end; ++tile) {
    Bf16* const to = out + tile * rows * kTileDepth;
    for (Index row = 0; row < rows; ++row) {
      alignas(64) std::uint32_t pairs[16];
      _mm512_store_si512(
          pairs, round_32(x + row * x_stride + tile * kTileDepth, cols - tile * kTileDepth));
      for (Index pair = 0; pair < 16; ++pair)
        std::memcpy(to + (pair * rows + row) * 2, &pairs[pair], sizeof(pairs[pair]));
    }
  }
}

}  // namespace saccade::cpu::amx
