// gemm, and gate and up of an MLP, with weights of bytes: each row of x is rounded to bytes once,
// products and sums are exact integers, and what comes out is their sum times the row's and the
// output's scale.
//
// Few rows cost what reading the weights costs, as in gemm.cc. For many, a block of 252 rows x 256
// columns reads 126 KiB of x and 128 KiB of weights and updates 252 KiB of sums for each step of
// 512 in depth, in the second-level cache; a pair of panels (16 KiB) stays in the first level while
// all rows pass it.
#include <algorithm>

#include "ops/cpu/products/gemm.h"

namespace saccade::cpu {
namespace {

// x, rounded.
struct Codes {
  std::uint8_t* codes = nullptr;
  std::int64_t stride = 0;
  float* scales = nullptr;  // one a row
};

// c [block.rows, block.panels * lanes] = the rows of x times panels of the weight: integers. Few
// rows go four panels at a time from top to bottom, so that memory is read in order.
void multiply(const Int8Kernels& kernels, const PanelWeight& weight, const Codes& x,
              const Block& block, bool few, std::int32_t* c) {
  const std::int64_t lanes = weight.lanes();
  const std::int64_t depth = weight.panel_bytes() / lanes;
  Int8PanelArgs panel;
  panel.x_stride = x.stride;
  panel.rows = block.rows;
  panel.panel_stride = weight.panel_bytes();
  panel.c_stride = block.panels * lanes;
  const std::int64_t across = few ? 4 : block.panels;
  const std::int64_t down = few ? depth : kRoundedDepthBlock;
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
      kernels.panels(panel);
    }
  }
}

}  // namespace

// Of x, rounded: body(x, and what each_rounded_block() says).
template <typename Body>
void CpuStream::each_int8_block(View x, const PanelWeight& weight, std::int64_t parts,
                                const Body& body) {
  const std::int64_t depth = weight.panel_bytes() / kernels_.lanes;
  const std::int64_t rows = x.rows();
  Codes codes;
  codes.stride = odd_lines(depth);
  codes.codes = shared_scratch().reserve<std::uint8_t>(
      rows * (codes.stride + static_cast<std::int64_t>(sizeof(float))));
  codes.scales = reinterpret_cast<float*>(codes.codes + rows * codes.stride);
  each_row(rows, weight.in(), [&](std::int64_t row) {
    codes.scales[row] = int8_.round_activations(x.row<float>(row), weight.in(), depth,
                                                codes.codes + row * codes.stride);
  });
  each_rounded_block(rows, weight, parts, [&](const Block& block, bool few, Scratch& scratch) {
    body(codes, block, few, scratch);
  });
}

void CpuStream::gemm_int8(const GemmArgs& args) {
  if (tiles_ != nullptr && args.x.rows() > tiles_->int8_rows) return gemm_byte_tiles(args);
  const auto& weight = static_cast<const PanelWeight&>(*args.weight);
  for (std::int64_t top = 0; top < args.x.rows(); top += kMaxRoundedRows) {
    const View some = args.x.row_range(top, std::min(top + kMaxRoundedRows, args.x.rows()));
    each_int8_block(
        some, weight, 1, [&](const Codes& x, const Block& block, bool few, Scratch& scratch) {
          const std::int64_t stride = block.panels * kernels_.lanes;
          std::int32_t* const c = scratch.reserve<std::int32_t>((block.rows + 1) * stride);
          multiply(int8_, weight, x, block, few, c);
          auto* const scaled = reinterpret_cast<float*>(c + block.rows * stride);
          for (std::int64_t row = 0; row < block.rows; ++row) {
            int8_.scale_row(c + row * stride, weight.scales(block.panel), x.scales[block.row + row],
                            stride, scaled);
            finish_block(kernels_, args, {top + block.row + row, 1, block.panel, block.panels},
                         scaled, stride);
          }
        });
  }
}

void CpuStream::gate_int8(const MlpArgs& args) {
  const auto& weight = static_cast<const PanelWeight&>(*args.in);
  each_int8_block(
      args.x, weight, 2, [&](const Codes& x, const Block& block, bool few, Scratch& scratch) {
        const std::int64_t stride = block.panels * kernels_.lanes;
        const std::int64_t up_panel = weight.panels() / 2 + block.panel;
        std::int32_t* const gate = scratch.reserve<std::int32_t>((block.rows + 1) * 2 * stride);
        std::int32_t* const up = gate + block.rows * stride;
        multiply(int8_, weight, x, block, few, gate);
        multiply(int8_, weight, x, {block.row, block.rows, up_panel, block.panels}, few, up);
        auto* const of_gate = reinterpret_cast<float*>(up + block.rows * stride);
        float* const of_up = of_gate + stride;
        for (std::int64_t row = 0; row < block.rows; ++row) {
          const float scale = x.scales[block.row + row];
          int8_.scale_row(gate + row * stride, weight.scales(block.panel), scale, stride, of_gate);
          int8_.scale_row(up + row * stride, weight.scales(up_panel), scale, stride, of_up);
          gate_row(kernels_, args, block.row + row, block.panel * kernels_.lanes,
                   {of_gate, static_cast<std::size_t>(stride)}, of_up);
        }
      });
}

}  // namespace saccade::cpu
