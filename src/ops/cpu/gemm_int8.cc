// gemm with weights of bytes: each row of x is rounded to bytes once, products and sums are exact
// integers, and what comes out is their sum times the row's and the output's scale.
//
// Few rows cost what reading the weights costs, as in gemm.cc. For many, a block of 252 rows x 256
// columns reads 126 KiB of x and 128 KiB of weights and updates 252 KiB of sums for each step of
// 512 in depth, in the second-level cache; a pair of panels (16 KiB) stays in the first level while
// all rows pass it.
#include <algorithm>

#include "ops/cpu/gemm.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kRowBlock = 252;
constexpr std::int64_t kColBlock = 256;
constexpr std::int64_t kDepthBlock = 512;
constexpr std::int64_t kMostRows = 4096;  // rounded at a time: bounds the scratch
constexpr std::int64_t kLine = 64;

// An odd number of cache lines: rows one after another then lie in different sets.
std::int64_t odd_lines(std::int64_t bytes) { return ((bytes + kLine - 1) / kLine | 1) * kLine; }

// x, rounded.
struct Codes {
  std::uint8_t* codes = nullptr;
  std::int64_t stride = 0;
  float* scales = nullptr;  // one a row
};

}  // namespace

void CpuStream::gemm_int8(const GemmArgs& args) {
  if (tiles_ != nullptr && args.x.rows() > tiles_->int8_rows) return gemm_byte_tiles(args);
  const auto& weight = static_cast<const PanelWeight&>(*args.weight);
  const std::int64_t lanes = kernels_.lanes;
  const std::int64_t depth = weight.panel_bytes() / lanes;
  for (std::int64_t top = 0; top < args.x.rows(); top += kMostRows) {
    const std::int64_t rows = std::min(kMostRows, args.x.rows() - top);
    Codes x;
    x.stride = odd_lines(depth);
    x.codes = shared_scratch().reserve<std::uint8_t>(
        rows * (x.stride + static_cast<std::int64_t>(sizeof(float))));
    x.scales = reinterpret_cast<float*>(x.codes + rows * x.stride);
    each_row(rows, weight.in(), [&](std::int64_t row) {
      x.scales[row] = int8_.round_activations(args.x.row<float>(top + row), weight.in(), depth,
                                              x.codes + row * x.stride);
    });

    const bool few = rows <= kFewRows;
    const Blocks blocks{rows, weight.panels(), few ? rows : kRowBlock,
                        few ? few_rows_panels(weight, pool_.size()) : kColBlock / lanes};
    pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
      const Block block = blocks.at(index);
      Int8PanelArgs panel;
      panel.x_stride = x.stride;
      panel.rows = block.rows;
      panel.panel_stride = weight.panel_bytes();
      panel.c_stride = block.panels * lanes;
      std::int32_t* const c =
          worker_scratch(worker).reserve<std::int32_t>((block.rows + 1) * panel.c_stride);
      // Few rows: four panels at a time from top to bottom, so that memory is read in order.
      const std::int64_t across = few ? 4 : block.panels;
      const std::int64_t down = few ? depth : kDepthBlock;
      for (std::int64_t first = 0; first < block.panels; first += across) {
        panel.panels = std::min(across, block.panels - first);
        panel.starts = weight.starts(block.panel + first);
        panel.c = c + first * lanes;
        for (std::int64_t at = 0; at < depth; at += down) {
          panel.x = x.codes + block.row * x.stride + at;
          panel.weights =
              reinterpret_cast<const std::int8_t*>(weight.panel(block.panel + first)) + at * lanes;
          panel.depth = std::min(down, depth - at);
          panel.accumulate = at > 0;
          int8_.panels(panel);
        }
      }
      auto* const scaled = reinterpret_cast<float*>(c + block.rows * panel.c_stride);
      for (std::int64_t row = 0; row < block.rows; ++row) {
        int8_.scale_row(c + row * panel.c_stride, weight.scales(block.panel),
                        x.scales[block.row + row], panel.c_stride, scaled);
        finish_block(kernels_, args, {top + block.row + row, 1, block.panel, block.panels}, scaled,
                     panel.c_stride);
      }
    });
  }
}

}  // namespace saccade::cpu
