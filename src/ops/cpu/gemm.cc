// y = act(x W^T + bias) + residual, in two shapes.
//
// Few rows (decode): each weight is used `rows` times and never again, so the time is that of
// reading W from memory once; panels are read whole, one after the other.
//
// Many rows (prefill, vision): blocks are chosen so that everything but a stream of weights stays
// in the second-level cache. For 512 rows x 256 columns, each step of 256 in depth reads 512 KiB of
// x, at most 256 KiB of weights and updates 512 KiB of c, for 67 Mflop; a pair of panels (32 KiB
// at most) stays in the first level while all rows pass it.
#include "ops/cpu/cpu_backend.h"
#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kFewRows = 16;
constexpr std::int64_t kRowBlock = 512;
constexpr std::int64_t kColBlock = 256;
constexpr std::int64_t kDepthBlock = 256;  // sums of this length are added up: part of the result
constexpr std::int64_t kFewRowsBytes = 512 << 10;  // of weights a thread takes at a time

// A block of y: rows [row, row + rows) x panels [panel, panel + panels).
struct Block {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t panel = 0;
  std::int64_t panels = 0;
};

struct Gemm {
  const GemmArgs& args;
  const PanelWeight& weight;
  const Kernels& kernels;

  void multiply(const Block& block, std::int64_t depth, float* c, std::int64_t c_stride) const {
    const std::int64_t steps = std::min(kDepthBlock, weight.in() - depth);
    PanelArgs panel;
    panel.x = args.x.row<float>(block.row) + depth;
    panel.x_stride = args.x.stride();
    panel.rows = block.rows;
    panel.weights = weight.panel(block.panel) +
                    depth * kernels.lanes * static_cast<std::int64_t>(size_of(weight.type()));
    panel.panel_stride = weight.panel_bytes();
    panel.panels = block.panels;
    panel.depth = steps;
    panel.c = c;
    panel.c_stride = c_stride;
    panel.accumulate = depth > 0;
    (weight.type() == DType::kBf16 ? kernels.panels_bf16 : kernels.panels_f32)(panel);
  }

  void finish(const Block& block, const float* c, std::int64_t c_stride) const {
    const std::int64_t col = block.panel * kernels.lanes;
    FinishArgs finish;
    finish.cols = std::min(block.panels * kernels.lanes, weight.out() - col);
    finish.bias = args.bias.empty() ? nullptr : args.bias.row<float>(0) + col;
    finish.activation = args.activation;
    for (std::int64_t row = 0; row < block.rows; ++row) {
      finish.c = c + row * c_stride;
      finish.residual =
          args.residual.empty() ? nullptr : args.residual.row<float>(block.row + row) + col;
      finish.y = args.y.row<float>(block.row + row) + col;
      kernels.finish_row(finish);
    }
  }

  void few_rows(const Block& block, Scratch& scratch) const {
    constexpr std::int64_t kPanels = 4;  // read side by side: enough sums in flight for one row
    const std::int64_t c_stride = block.panels * kernels.lanes;
    float* c = scratch.reserve<float>(block.rows * c_stride);
    for (std::int64_t first = 0; first < block.panels; first += kPanels) {
      Block part = block;
      part.panel += first;
      part.panels = std::min(kPanels, block.panels - first);
      for (std::int64_t depth = 0; depth < weight.in(); depth += kDepthBlock)
        multiply(part, depth, c + first * kernels.lanes, c_stride);
    }
    finish(block, c, c_stride);
  }

  void many_rows(const Block& block, Scratch& scratch) const {
    const std::int64_t c_stride = block.panels * kernels.lanes;
    float* c = scratch.reserve<float>(block.rows * c_stride);
    for (std::int64_t depth = 0; depth < weight.in(); depth += kDepthBlock)
      multiply(block, depth, c, c_stride);
    finish(block, c, c_stride);
  }
};

}  // namespace

void CpuBackend::gemm(const GemmArgs& args) {
  check_shapes(args);
  const std::int64_t rows = args.x.rows();
  const auto& weight = static_cast<const PanelWeight&>(*args.weight);
  if (rows == 0 || weight.out() == 0) return;
  CHECK(weight.in() > 0, "gemm over no inputs");
  const Gemm gemm{args, weight, kernels_};

  const bool few = rows <= kFewRows;
  const std::int64_t row_block = few ? rows : kRowBlock;
  const std::int64_t fitting = std::max<std::int64_t>(1, kFewRowsBytes / weight.panel_bytes());
  const std::int64_t panel_block =
      few ? std::min<std::int64_t>((fitting + 3) / 4 * 4, 64) : kColBlock / kernels_.lanes;
  const std::int64_t row_blocks = (rows + row_block - 1) / row_block;
  const std::int64_t panel_blocks = (weight.panels() + panel_block - 1) / panel_block;
  pool_.parallel_each(row_blocks * panel_blocks, [&](std::int64_t item, int worker) {
    Block block;
    block.row = item / panel_blocks * row_block;
    block.rows = std::min(row_block, rows - block.row);
    block.panel = item % panel_blocks * panel_block;
    block.panels = std::min(panel_block, weight.panels() - block.panel);
    if (few)
      gemm.few_rows(block, worker_scratch(worker));
    else
      gemm.many_rows(block, worker_scratch(worker));
  });
}

}  // namespace saccade::cpu
