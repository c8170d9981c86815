// y = act(x W^T + bias) + residual in f32, in two shapes.
//
// Few rows (decode): each weight is used `rows` times and never again, so the time is that of
// reading W from memory once; panels are read whole, one after the other.
//
// Many rows (prefill, vision): blocks are chosen so that everything but a stream of weights stays
// in the second-level cache. For 512 rows x 256 columns, each step of 256 in depth reads 512 KiB of
// x, at most 256 KiB of weights and updates 512 KiB of c, for 67 Mflop; a pair of panels (32 KiB
// at most) stays in the first level while all rows pass it.
#include "ops/cpu/products/gemm.h"

#include <algorithm>

#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kRowBlock = 252;
constexpr std::int64_t kColBlock = 256;
constexpr std::int64_t kDepthBlock = 512;  // sums of this length are added up: part of the result

// c of the block (+)= the product over [depth, depth + kDepthBlock).
void multiply(const Kernels& kernels, const GemmArgs& args, const Block& block, std::int64_t depth,
              float* c, std::int64_t c_stride) {
  const auto& weight = static_cast<const PanelWeight&>(*args.weight);
  PanelArgs panel;
  panel.x = args.x.row<float>(block.row) + depth;
  panel.x_stride = args.x.stride();
  panel.rows = block.rows;
  panel.weights = weight.panel(block.panel) +
                  depth * kernels.lanes * static_cast<std::int64_t>(size_of(weight.type()));
  panel.panel_stride = weight.panel_bytes();
  panel.panels = block.panels;
  panel.depth = std::min(kDepthBlock, weight.in() - depth);
  panel.c = c;
  panel.c_stride = c_stride;
  panel.accumulate = depth > 0;
  (weight.type() == DType::kBf16 ? kernels.panels_bf16 : kernels.panels_f32)(panel);
}

}  // namespace

std::int64_t even_panels(std::int64_t panels, std::int64_t panel_bytes, std::int64_t block_bytes,
                         int threads) {
  const std::int64_t fitting = std::max<std::int64_t>(4, block_bytes / panel_bytes);
  const std::int64_t blocks = tile_count(tile_count(panels, fitting), threads) * threads;
  return std::max<std::int64_t>(4, tile_count(panels, blocks) / 4 * 4);
}

std::int64_t few_rows_panels(const PanelWeight& weight, int threads) {
  return std::min<std::int64_t>(
      even_panels(weight.panels(), weight.panel_bytes(), 512 << 10, threads), 64);
}

void finish_block(const Kernels& kernels, const GemmArgs& args, const Block& block, const float* c,
                  std::int64_t c_stride) {
  const std::int64_t col = block.panel * kernels.lanes;
  FinishArgs finish;
  finish.cols = std::min(block.panels * kernels.lanes, args.weight->out() - col);
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

void gate_row(const Kernels& kernels, const MlpArgs& args, std::int64_t row, std::int64_t col,
              std::span<float> gate, float* up) {
  const auto cols = static_cast<std::int64_t>(gate.size());
  if (!args.in_bias.empty()) {
    FinishArgs finish;
    finish.cols = cols;
    finish.bias = args.in_bias.row<float>(0) + col;
    finish.c = finish.y = gate.data();
    kernels.finish_row(finish);
    finish.bias += args.out->in();
    finish.c = finish.y = up;
    kernels.finish_row(finish);
  }
  kernels.gated_row(gate.data(), up, args.activation, args.inner.row<float>(row) + col, cols);
}

void CpuStream::gemm(const GemmArgs& args) {
  check_shapes(args);
  if (args.x.rows() == 0 || args.weight->out() == 0) return;
  CHECK(args.weight->in() > 0, "gemm over no inputs");
  if (const FourBitWeight* codes = four_bits(args.weight)) return gemm_four_bits(args, *codes);
  const auto& weight = static_cast<const PanelWeight&>(*args.weight);
  if (weight.operand_dtype() == DType::kBf16) return gemm_tiles(args);
  if (weight.operand_dtype() == DType::kI8) return gemm_int8(args);

  const bool few = args.x.rows() <= kFewRows;
  const Blocks blocks{args.x.rows(), weight.panels(), few ? args.x.rows() : kRowBlock,
                      few ? few_rows_panels(weight, pool_.size()) : kColBlock / kernels_.lanes};
  pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
    const Block block = blocks.at(index);
    const std::int64_t c_stride = block.panels * kernels_.lanes;
    float* const c = worker_scratch(worker).reserve<float>(block.rows * c_stride);
    // Few rows: four panels at a time from top to bottom, so that memory is read in order.
    const std::int64_t step = few ? 4 : block.panels;
    for (std::int64_t first = 0; first < block.panels; first += step) {
      Block part = block;
      part.panel += first;
      part.panels = std::min(step, block.panels - first);
      for (std::int64_t depth = 0; depth < weight.in(); depth += kDepthBlock)
        multiply(kernels_, args, part, depth, c + first * kernels_.lanes, c_stride);
    }
    finish_block(kernels_, args, block, c, c_stride);
  });
}

}  // namespace saccade::cpu
