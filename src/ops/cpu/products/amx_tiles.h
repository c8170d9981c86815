// Products of AMX tiles of bf16 and of bytes. Included by the translation unit compiled for AMX
// alone.
//
// TDPBF16PS multiplies 16 x 32 by 32 x 16 and adds to 16 x 16 of f32, some fifteen times the rate
// of f32 multiply-adds; TDPBUSD does twice as much in bytes. Products are exact, sums run in order
// of depth, and a row of the result depends on that row of x alone: a row is the same whether 1 or
// 16 of a tile's rows are used.
#pragma once

#include "ops/cpu/products/bf16_tiles.h"

namespace saccade::cpu::amx {

using bf16::F;
using bf16::kRowBytes;
using bf16::kTileDepth;
using bf16::kTileElements;
using bf16::kTileRows;
using bf16::round_32;
using bf16::V;

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Tiles 4 and 5 are x, so many inputs of bytes deep, 6 and 7 weights.
template <Index kInputs>
struct ByteTileConfig : TileConfig {
  constexpr ByteTileConfig() {
    row_bytes[4] = row_bytes[5] = kInputs;
    rows[6] = rows[7] = kInputs / 4;
  }
};

// Tiles are a thread's state: set up for one loop, and released so that the system need not save
// them.
template <typename Config>
class TilesOf {
 public:
  TilesOf() {
    static constexpr Config kConfig;
    _tile_loadconfig(&kConfig);
  }
  ~TilesOf() { _tile_release(); }
  TilesOf(const TilesOf&) = delete;
  TilesOf& operator=(const TilesOf&) = delete;
};
using Tiles = TilesOf<TileConfig>;
template <Index kInputs>
using ByteTiles = TilesOf<ByteTileConfig<kInputs>>;

// Which operand passes through the first-level cache once, and should not push the other out of it.
enum class Stream { kX, kWeights };

// What a tile holds: bf16, or activations offset to unsigned bytes and weights of signed ones.
enum class Unit { kBf16, kInt8 };

// Tile numbers are part of the instruction: macros of one line each.
#define SACCADE_LOAD_X(tile, address)               \
  do {                                              \
    if constexpr (kStream == Stream::kX)            \
      _tile_stream_loadd(tile, address, kRowBytes); \
    else                                            \
      _tile_loadd(tile, address, kRowBytes);        \
  } while (false)
#define SACCADE_LOAD_WEIGHTS(tile, address)         \
  do {                                              \
    if constexpr (kStream == Stream::kWeights)      \
      _tile_stream_loadd(tile, address, kRowBytes); \
    else                                            \
      _tile_loadd(tile, address, kRowBytes);        \
  } while (false)
#define SACCADE_MULTIPLY(sum, x, weights) \
  do {                                    \
    if constexpr (kUnit == Unit::kBf16)   \
      _tile_dpbf16ps(sum, x, weights);    \
    else                                  \
      _tile_dpbusd(sum, x, weights);      \
  } while (false)
// What the sums of a panel begin at: for bytes a row of floats, sixteen times. Earlier sums pass
// the first-level cache as x does.
#define SACCADE_BEGIN(tile, from, panel)                \
  do {                                                  \
    if (args.accumulate)                                \
      _tile_stream_loadd(tile, from, stride);           \
    else if constexpr (kUnit == Unit::kBf16)            \
      _tile_zero(tile);                                 \
    else                                                \
      _tile_loadd(tile, args.starts + (panel) * 16, 0); \
  } while (false)

// What a pair of row tiles asks for on its way through the depth, so that it is there when it is
// needed: its share of the pair of panels that is next, into the second-level cache, and the sums
// that the next pair of row tiles goes on from, into the first.
//
// Weights come from memory, and the first level has room for sixteen lines on their way: if all of
// these waited for memory, x would wait for them. So a panel's part of the depth is asked for in
// four places at once, quarter by quarter: the processor's own prefetching follows each (it goes by
// pages of 4 KiB and runs some twenty lines ahead), and most of what is asked for has come by then.
template <Stream kStream>
class Ahead {
 public:
  Ahead(const TileArgs& args, Index panel, Index row)
      : sums_(args.c + (row + 2) * kTileRows * args.c_stride + panel * 16),
        stride_(args.c_stride),
        row_pairs_((args.row_tiles() + 1) / 2),
        quarter_(args.depth_tiles * (kTileBytes / 4)) {
    const std::byte* const next = panel + 2 < args.panels || args.next == nullptr
                                      ? args.weights + (panel + 2) * args.panel_stride
                                      : args.next;
    // In lines of a quarter, of both panels.
    const Index lines = quarter_ / kLine;
    const Index begin = 2 * lines * (row / 2) / row_pairs_;
    const Index behind = begin < lines ? begin : begin - lines;  // in its panel
    in_panel_ = lines - behind;
    weights_ = next + (begin < lines ? 0 : args.panel_stride) + behind * kLine;
    to_panel_ = args.panel_stride - quarter_;
  }
  // Called once a step of depth; sixteen steps ask for all rows of a pair's sums.
  void ask() {
    if constexpr (kStream == Stream::kX) {
      for (due_ += kLinesOfStep; due_ >= row_pairs_; due_ -= row_pairs_) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) _mm_prefetch(weights_ + i * quarter_, _MM_HINT_T1);
        weights_ += kLine;
        if (--in_panel_ == 0) weights_ += to_panel_;
      }
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i, sums_ += stride_) {
        __builtin_prefetch(sums_);
        __builtin_prefetch(sums_ + 16);
      }
    }
  }

 private:
  static constexpr Index kLine = 64;
  // Of each quarter of two panels, were there one pair of row tiles.
  static constexpr Index kLinesOfStep = 2 * kTileBytes / 4 / kLine;

  const std::byte* weights_;
  const float* sums_;
  Index stride_;
  Index row_pairs_;
  Index quarter_;       // bytes
  Index in_panel_ = 0;  // lines until its quarters end
  Index to_panel_ = 0;  // bytes from there to the next panel
  Index due_ = 0;
};

// Two row tiles by two panels: tiles 0 to 3 are sums, 4 and 5 x, 6 and 7 weights. Each tile that is
// read is used twice.
template <Stream kStream, Unit kUnit>
inline void multiply_2x2(const TileArgs& args, Index row, Index panel) {
  const Index stride = args.c_stride * static_cast<Index>(sizeof(float));
  float* const c = args.c + row * kTileRows * args.c_stride + panel * 16;
  float* const c_low = c + kTileRows * args.c_stride;
  SACCADE_BEGIN(0, c, panel);
  SACCADE_BEGIN(1, c + 16, panel + 1);
  SACCADE_BEGIN(2, c_low, panel);
  SACCADE_BEGIN(3, c_low + 16, panel + 1);
  const std::byte* const x = args.x + row * args.row_tile_stride;
  const std::byte* const x_low = x + args.row_tile_stride;
  const std::byte* const weights = args.weights + panel * args.panel_stride;
  const std::byte* const weights_right = weights + args.panel_stride;
  Ahead<kStream> ahead(args, panel, row);
  for (Index k = 0; k < args.depth_tiles * kTileBytes; k += kTileBytes) {
    SACCADE_LOAD_X(4, x + k);
    SACCADE_LOAD_WEIGHTS(6, weights + k);
    SACCADE_MULTIPLY(0, 4, 6);
    SACCADE_LOAD_WEIGHTS(7, weights_right + k);
    SACCADE_MULTIPLY(1, 4, 7);
    SACCADE_LOAD_X(5, x_low + k);
    SACCADE_MULTIPLY(2, 5, 6);
    SACCADE_MULTIPLY(3, 5, 7);
    ahead.ask();
  }
  _tile_stored(0, c, stride);
  _tile_stored(1, c + 16, stride);
  _tile_stored(2, c_low, stride);
  _tile_stored(3, c_low + 16, stride);
}

// Two row tiles by one panel.
template <Stream kStream, Unit kUnit>
inline void multiply_2x1(const TileArgs& args, Index row, Index panel) {
  const Index stride = args.c_stride * static_cast<Index>(sizeof(float));
  float* const c = args.c + row * kTileRows * args.c_stride + panel * 16;
  float* const c_low = c + kTileRows * args.c_stride;
  SACCADE_BEGIN(0, c, panel);
  SACCADE_BEGIN(2, c_low, panel);
  const std::byte* const x = args.x + row * args.row_tile_stride;
  const std::byte* const x_low = x + args.row_tile_stride;
  const std::byte* const weights = args.weights + panel * args.panel_stride;
  for (Index k = 0; k < args.depth_tiles * kTileBytes; k += kTileBytes) {
    SACCADE_LOAD_X(4, x + k);
    SACCADE_LOAD_WEIGHTS(6, weights + k);
    SACCADE_MULTIPLY(0, 4, 6);
    SACCADE_LOAD_X(5, x_low + k);
    SACCADE_MULTIPLY(2, 5, 6);
  }
  _tile_stored(0, c, stride);
  _tile_stored(2, c_low, stride);
}

// One row tile by one panel.
template <Stream kStream, Unit kUnit>
inline void multiply_1x1(const TileArgs& args, Index row, Index panel) {
  const Index stride = args.c_stride * static_cast<Index>(sizeof(float));
  float* const c = args.c + row * kTileRows * args.c_stride + panel * 16;
  SACCADE_BEGIN(0, c, panel);
  const std::byte* const x = args.x + row * args.row_tile_stride;
  const std::byte* const weights = args.weights + panel * args.panel_stride;
  for (Index k = 0; k < args.depth_tiles * kTileBytes; k += kTileBytes) {
    SACCADE_LOAD_X(4, x + k);
    SACCADE_LOAD_WEIGHTS(6, weights + k);
    SACCADE_MULTIPLY(0, 4, 6);
  }
  _tile_stored(0, c, stride);
}

// A tile load waits for its sixteen lines; ask for those of two steps ahead.
inline void prefetch_tile(const std::byte* tile) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) __builtin_prefetch(tile + 2 * kTileBytes + i * 64);
}

// One row tile by four panels whose weights come from memory.
template <Unit kUnit>
inline void multiply_1x4(const TileArgs& args, Index panel) {
  const Index stride = args.c_stride * static_cast<Index>(sizeof(float));
  float* const c = args.c + panel * 16;
  SACCADE_BEGIN(0, c, panel);
  SACCADE_BEGIN(1, c + 16, panel + 1);
  SACCADE_BEGIN(2, c + 32, panel + 2);
  SACCADE_BEGIN(3, c + 48, panel + 3);
  const std::byte* const weights = args.weights + panel * args.panel_stride;
  for (Index k = 0; k < args.depth_tiles * kTileBytes; k += kTileBytes) {
    const std::byte* const w = weights + k;
    _tile_loadd(4, args.x + k, kRowBytes);
    prefetch_tile(w);
    _tile_loadd(5, w, kRowBytes);
    SACCADE_MULTIPLY(0, 4, 5);
    prefetch_tile(w + args.panel_stride);
    _tile_loadd(6, w + args.panel_stride, kRowBytes);
    SACCADE_MULTIPLY(1, 4, 6);
    prefetch_tile(w + 2 * args.panel_stride);
    _tile_loadd(7, w + 2 * args.panel_stride, kRowBytes);
    SACCADE_MULTIPLY(2, 4, 7);
    prefetch_tile(w + 3 * args.panel_stride);
    _tile_loadd(5, w + 3 * args.panel_stride, kRowBytes);
    SACCADE_MULTIPLY(3, 4, 5);
  }
  _tile_stored(0, c, stride);
  _tile_stored(1, c + 16, stride);
  _tile_stored(2, c + 32, stride);
  _tile_stored(3, c + 48, stride);
}

#undef SACCADE_LOAD_X
#undef SACCADE_LOAD_WEIGHTS
#undef SACCADE_MULTIPLY
#undef SACCADE_BEGIN

// Panels outside, rows inside: a pair of panels stays in the first-level cache while rows pass.
template <Stream kStream, Unit kUnit>
void multiply_panels(const TileArgs& args, Index first_panel = 0) {
  for (Index panel = first_panel; panel < args.panels; panel += 2) {
    const bool two_panels = panel + 2 <= args.panels;
    for (Index row = 0; row < args.row_tiles(); row += 2) {
      if (row + 2 <= args.row_tiles()) {
        if (two_panels)
          multiply_2x2<kStream, kUnit>(args, row, panel);
        else
          multiply_2x1<kStream, kUnit>(args, row, panel);
      } else {
        multiply_1x1<kStream, kUnit>(args, row, panel);
        if (two_panels) multiply_1x1<kStream, kUnit>(args, row, panel + 1);
      }
    }
  }
}

}  // namespace saccade::cpu::amx
