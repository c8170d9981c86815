// gemm with bf16 weights on a matrix unit (AMX): activations are rounded to bf16, sums are f32.
//
// The unit is so fast that memory decides nearly everywhere. Few rows cost what reading the weights
// costs, as in gemm.cc. For many, x is rounded once into tiles (2 bytes an element, 1 KiB a tile),
// and for 512 rows x 256 columns each step of 512 in depth reads 512 KiB of x and 256 KiB of
// weights and updates 512 KiB of c for 134 Mflop, all in the second-level cache; a pair of panels
// (32 KiB) stays in the first level while all rows pass it.
#include <algorithm>

#include "ops/cpu/gemm.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileDepth = 32;
constexpr std::int64_t kTileElements = kTileRows * kTileDepth;
constexpr std::int64_t kRowBlock = 512;
constexpr std::int64_t kPanelBlock = 16;
constexpr std::int64_t kDepthBlock = 512 / kTileDepth;
constexpr std::int64_t kMostRows = 4096;  // rounded at a time: bounds the scratch

std::int64_t tiles(std::int64_t count, std::int64_t tile) { return (count + tile - 1) / tile; }

}  // namespace

void CpuStream::gemm_tiles(const GemmArgs& args) {
  const auto& weight = static_cast<const PanelWeight&>(*args.weight);
  const std::int64_t depth_tiles = tiles(weight.in(), kTileDepth);
  const std::int64_t row_tile_stride = depth_tiles * kTileElements;
  for (std::int64_t top = 0; top < args.x.rows(); top += kMostRows) {
    const std::int64_t rows = std::min(kMostRows, args.x.rows() - top);
    const std::int64_t row_tiles = tiles(rows, kTileRows);
    Bf16* const x = shared_scratch().reserve<Bf16>(row_tiles * row_tile_stride);
    each_row(row_tiles, kTileRows * weight.in(), [&](std::int64_t tile) {
      const std::int64_t row = tile * kTileRows;
      tiles_->round_rows(args.x.row<float>(top + row), args.x.stride(),
                         std::min(kTileRows, rows - row), weight.in(), x + tile * row_tile_stride);
    });

    const bool few = rows <= kFewRows;
    const Blocks blocks{rows, weight.panels(), few ? rows : kRowBlock,
                        few ? few_rows_panels(weight) : kPanelBlock};
    pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
      Block block = blocks.at(index);
      const std::int64_t c_stride = block.panels * 16;
      TileArgs tile;
      tile.row_tiles = tiles(block.rows, kTileRows);
      tile.row_tile_stride = row_tile_stride;
      tile.panel_stride = weight.panel_bytes() / 2;
      tile.panels = block.panels;
      const std::int64_t c_size = tile.row_tiles * kTileRows * c_stride;
      tile.c = worker_scratch(worker).reserve<float>(c_size + depth_tiles * kTileDepth);
      if (block.rows == 1) tile.one_row = tile.c + c_size;
      tile.c_stride = c_stride;
      const std::int64_t step = few ? depth_tiles : kDepthBlock;
      for (std::int64_t depth = 0; depth < depth_tiles; depth += step) {
        tile.x = x + block.row / kTileRows * row_tile_stride + depth * kTileElements;
        tile.weights =
            reinterpret_cast<const Bf16*>(weight.panel(block.panel)) + depth * kTileElements;
        tile.depth_tiles = std::min(step, depth_tiles - depth);
        tile.accumulate = depth > 0;
        tiles_->multiply(tile);
      }
      block.row += top;
      finish_block(kernels_, args, block, tile.c, c_stride);
    });
  }
}

}  // namespace saccade::cpu
