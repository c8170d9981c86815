// What the ways of multiplying (gemm.cc in f32, gemm_tiles.cc on bf16 tiles, gemm_int8.cc in bytes)
// share.
#pragma once

#include "ops/cpu/cpu_device.h"

namespace saccade::cpu {

// Up to this many rows a multiplication is bound by reading its weights.
constexpr std::int64_t kFewRows = 16;

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

// Panels of a few-row block: about 512 KiB of weights, which a thread reads in some 50 us.
std::int64_t few_rows_panels(const PanelWeight& weight);

// y block = act(c + bias) + residual.
void finish_block(const Kernels& kernels, const GemmArgs& args, const Block& block, const float* c,
                  std::int64_t c_stride);

}  // namespace saccade::cpu
