// What the ways of multiplying (gemm.cc in f32, gemm_tiles.cc on bf16 tiles, gemm_int8.cc in bytes)
// share.
#pragma once

#include <cstring>
#include <span>

#include "ops/cpu/cpu_device.h"

namespace saccade::cpu {

// Up to this many rows a multiplication is bound by reading its weights.
constexpr std::int64_t kFewRows = 16;
// Rows of x that are rounded at a time: bounds the scratch.
constexpr std::int64_t kMaxRows = 4096;

// A block of y: rows [row, row + rows) x panels [panel, panel + panels).
struct Block {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t panel = 0;
  std::int64_t panels = 0;
};

// Cuts y into blocks of at most row_block x panel_block; block(i), 0 <= i < count().
struct Blocks {
  std::int64_t rows = 0;
  std::int64_t panels = 0;
  std::int64_t row_block = 1;
  std::int64_t panel_block = 1;

  std::int64_t across() const { return (panels + panel_block - 1) / panel_block; }
  std::int64_t count() const { return (rows + row_block - 1) / row_block * across(); }
  // Blocks that share weights follow one another.
  Block at(std::int64_t index) const {
    const std::int64_t down = count() / across();
    Block block;
    block.row = index % down * row_block;
    block.rows = std::min(row_block, rows - block.row);
    block.panel = index / down * panel_block;
    block.panels = std::min(panel_block, panels - block.panel);
    return block;
  }
};

// Panels of a block of about so many bytes of weights, by fours, such that each thread has as many
// blocks.
std::int64_t even_panels(std::int64_t panels, std::int64_t panel_bytes, std::int64_t block_bytes,
                         int threads);

// Panels of a few-row block: about 512 KiB of weights, which a thread reads in some 50 us; of codes
// of four bits 128 KiB.
std::int64_t few_rows_panels(const PanelWeight& weight, int threads);
std::int64_t few_rows_panels(const FourBitWeight& weight, int threads);

constexpr std::int64_t tile_count(std::int64_t count, std::int64_t tile) {
  return (count + tile - 1) / tile;
}

// Of products of rounded rows: a block of many rows is so many rows by columns; a step of depth of
// both operands and its sums then stay in the second-level cache (gemm_int8.cc,
// gemm_codes_by_bytes.cc).
constexpr std::int64_t kRoundedRowBlock = 252;
constexpr std::int64_t kRoundedColBlock = 256;
constexpr std::int64_t kRoundedDepthBlock = 512;
constexpr std::int64_t kMaxRoundedRows = 4096;  // rounded at a time: bounds the scratch

// At least so many bytes, an odd number of cache lines: rows one after another then lie in
// different sets.
constexpr std::int64_t odd_lines(std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  return (tile_count(bytes, kLine) | 1) * kLine;
}

template <typename Weight, typename Body>
void CpuStream::each_rounded_block(std::int64_t rows, const Weight& weight, std::int64_t parts,
                                   const Body& body) {
  const bool few = rows <= kFewRows;
  const Blocks blocks{
      rows, weight.panels() / parts, few ? rows : kRoundedRowBlock,
      few ? few_rows_panels(weight, pool_.size()) : kRoundedColBlock / kernels_.lanes / parts};
  pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
    body(blocks.at(index), few, worker_scratch(worker));
  });
}

// y block = act(c + bias) + residual.
void finish_block(const Kernels& kernels, const GemmArgs& args, const Block& block, const float* c,
                  std::int64_t c_stride);

// Of a row of a gated MLP, inner from column `col` on = act(gate + bias) * (up + bias); both are
// overwritten.
void gate_row(const Kernels& kernels, const MlpArgs& args, std::int64_t row, std::int64_t col,
              std::span<float> gate, float* up);

// ---- products of tiles: see gemm_tiles.cc ----

constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileDepth = 32;
constexpr std::int64_t kTileElements = kTileRows * kTileDepth;

// `total` in equal parts of at most `most`, rounded up to `unit`.
inline std::int64_t even_part(std::int64_t total, std::int64_t most, std::int64_t unit) {
  const std::int64_t parts = tile_count(total, most);
  return tile_count(tile_count(total, parts), unit) * unit;
}

// How many rows and panels are a block, and how many panels are multiplied before the next step of
// depth.
struct TileOrder {
  std::int64_t rows;
  std::int64_t panels;
  std::int64_t group;
};

// For `rows` rows and `panels` panels, which are multiplied by whole units
// (TileKernels::panel_unit); gemm_tiles.cc has the reasons. A tile is 1 KiB whatever it holds, so
// bf16 and bytes go by the same order.
TileOrder order_of(std::int64_t rows, std::int64_t depth_tiles, std::int64_t panels, int threads,
                   std::int64_t unit);
constexpr std::int64_t kGroupPanels = 8;  // of a group that is finished while it is hot

// A row of bytes, so many a tile, to the tiles that it has a part of.
inline void spread_row(const std::uint8_t* codes, std::int64_t row, std::int64_t depth_tiles,
                       std::int64_t tile_inputs, std::uint8_t* tiles) {
  const std::int64_t tile_bytes = kTileRows * tile_inputs;
  std::uint8_t* to =
      tiles + row / kTileRows * depth_tiles * tile_bytes + row % kTileRows * tile_inputs;
  for (std::int64_t tile = 0; tile < depth_tiles; ++tile, codes += tile_inputs, to += tile_bytes)
    std::memcpy(to, codes, static_cast<std::size_t>(tile_inputs));
}

// Panels of a weight on a matrix unit, whatever they are stored as.
inline std::int64_t panels_of(const PackedWeight& weight) {
  return tile_count(weight.out(), kTileRows);
}

// Some rows of x, rounded to tiles, times the panels of a weight. One of codes of four bits is
// unpacked a step of depth at a time.
class TileProduct {
 public:
  // x: the first of all rows, as tiles of bf16 or of bytes, as the weight is; `row` is a multiple
  // of kTileRows. `room`: room() numbers for the panels of a multiply().
  TileProduct(const TileKernels& kernels, const PackedWeight& weight, const void* x,
              std::int64_t row, std::int64_t rows, float* room);

  // Sums (f32, or 32-bit integers of bytes) from one row to the next: an odd number of
  // cache lines, so that the rows of a tile lie in different sets.
  static std::int64_t stride(std::int64_t panels) { return panels * 16 + (panels % 2 ? 0 : 16); }
  // How many multiply() writes for so many panels.
  static std::int64_t sums(std::int64_t rows, std::int64_t panels) {
    return tile_count(rows, kTileRows) * kTileRows * stride(panels);
  }
  // For the unpacked tiles of so many panels.
  static std::int64_t room(const PackedWeight& weight, std::int64_t panels) {
    constexpr std::int64_t kTileFloats = kTileBytes / static_cast<std::int64_t>(sizeof(float));
    return four_bits(&weight) == nullptr ? 0 : panels * kMaxUnpackedTiles * kTileFloats;
  }
  // c [rows, stride(panels)] = x times panels [panel, panel + panels). `next`: the panel with which
  // the caller goes on.
  void multiply(std::int64_t panel, std::int64_t panels, std::int64_t next, void* c) const;

 private:
  static constexpr std::int64_t kDepthStep = 16;  // tiles, at most

  void multiply_codes(TileArgs& tile, std::int64_t panel) const;

  const FourBitWeight* codes_;
  const PanelWeight* panels_;  // unless there are codes
  const TileKernels& kernels_;
  void (*multiply_)(const TileArgs&);
  std::int64_t depth_tiles_;
  std::int64_t rows_;
  const std::byte* x_;
  std::byte* room_;
};

}  // namespace saccade::cpu
