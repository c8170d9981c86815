// mlp with bf16 weights in tiles (gemm_tiles.cc). What is between the two products is never in
// memory as f32: while the sums of a few panels are hot they are activated, rounded and stored as
// the tiles that the second product reads. For 512 rows of a gated MLP of 8960 that spares writing
// 37 MB of gate and up, reading them and writing 18 MB of what becomes of them, and reading and
// rounding those: 9 MB are written and read instead. Bits are those of gemm, gated and gemm, to
// which few rows are left.
#include <algorithm>

#include "ops/cpu/products/gemm.h"
#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

// How the first product is cut. Of a gated MLP a panel is two of the weights'.
TileOrder inner_order(std::int64_t rows, const MlpArgs& args, int threads, std::int64_t unit) {
  const std::int64_t panels = tile_count(args.out->in(), 16);
  const std::int64_t parts = args.gated() ? 2 : 1;
  TileOrder order = order_of(rows, tile_count(args.in->in(), kTileDepth), panels, threads, unit);
  order.group = std::max(unit, order.group / parts / unit * unit);
  if (order.group > kGroupPanels) order.panels = order.group;
  return order;
}

// Columns of the first product for some rows, from sums to tiles.
class InnerBlock {
 public:
  // `room`: room_for() numbers. x and inner: tiles of all rows.
  InnerBlock(const MlpArgs& args, const Kernels& kernels, const TileKernels& tiles, const Bf16* x,
             Bf16* inner, const Block& block, std::int64_t group, float* room)
      : args_(args),
        kernels_(kernels),
        tiles_(tiles),
        product_(tiles, *args.in, x, block.row, block.rows, room),
        rows_(block.rows),
        width_(args.out->in()),
        tile_stride_(tile_count(width_, kTileDepth) * kTileElements),
        inner_(inner + block.row / kTileRows * tile_stride_),
        gate_(room + TileProduct::room(*args.in, group + 1)),
        up_(gate_ + TileProduct::sums(rows_, group)) {}
  static std::int64_t room_for(const PackedWeight& in, std::int64_t rows, std::int64_t group) {
    return TileProduct::room(in, group + 1) + TileProduct::sums(rows, group) +
           TileProduct::sums(rows, group + 1);
  }

  // Panels [panel, panel + panels) of the width; both are even but at its end.
  void make(std::int64_t panel, std::int64_t panels) {
    const std::int64_t cols = std::min(panels * 16, width_ - panel * 16);
    const std::int64_t stride = TileProduct::stride(panels);
    if (args_.gated()) {
      // The up half begins in the middle of a panel where the width is no multiple of 16.
      const std::int64_t first = (width_ + panel * 16) / 16;
      const std::int64_t shift = width_ % 16;
      const std::int64_t up_panels = tile_count(shift + cols, 16);
      product_.multiply(panel, panels, first, gate_);
      product_.multiply(first, up_panels, panel + panels, up_);
      for (std::int64_t row = 0; row < rows_; ++row)
        gate_row(panel * 16, cols, gate_ + row * stride,
                 up_ + row * TileProduct::stride(up_panels) + shift);
    } else {
      product_.multiply(panel, panels, panel + panels, gate_);
      for (std::int64_t row = 0; row < rows_; ++row)
        finish(panel * 16, cols, args_.activation, gate_ + row * stride);
    }
    for (std::int64_t row = 0; row < rows_; row += kTileRows)
      tiles_.round_rows(gate_ + row * stride, stride, std::min(kTileRows, rows_ - row), cols,
                        inner_ + row / kTileRows * tile_stride_ + panel / 2 * kTileElements);
  }

 private:
  void gate_row(std::int64_t col, std::int64_t cols, float* gate, float* up) const {
    if (!args_.in_bias.empty()) {
      finish(col, cols, Activation::kNone, gate);
      finish(width_ + col, cols, Activation::kNone, up);
    }
    kernels_.gated_row(gate, up, args_.activation, gate, cols);
  }
  // act(sums + bias), where they are.
  void finish(std::int64_t col, std::int64_t cols, Activation activation, float* sums) const {
    FinishArgs finish;
    finish.c = sums;
    finish.bias = args_.in_bias.empty() ? nullptr : args_.in_bias.row<float>(0) + col;
    finish.activation = activation;
    finish.cols = cols;
    finish.y = sums;
    kernels_.finish_row(finish);
  }

  const MlpArgs& args_;
  const Kernels& kernels_;
  const TileKernels& tiles_;
  TileProduct product_;
  std::int64_t rows_;
  std::int64_t width_;
  std::int64_t tile_stride_;  // from one row tile of inner to the next
  Bf16* inner_;
  float* gate_;
  float* up_;
};

}  // namespace

void CpuStream::mlp(const MlpArgs& args) {
  if (gates_bytes(args)) return mlp_bytes(args);
  const auto on_tiles = [](const PackedWeight* weight) {
    const FourBitWeight* const codes = four_bits(weight);  // whose inputs may want another order
    return weight != nullptr && weight->operand_dtype() == DType::kBf16 &&
           (codes == nullptr || codes->order().empty());
  };
  // Of few rows the sums are small, and reading all weights in their order is what counts.
  if (args.x.rows() <= kFewRows || !on_tiles(args.in) || !on_tiles(args.out))
    return Stream::mlp(args);
  check_shapes(args);
  CHECK(args.in->in() > 0 && args.out->in() > 0, "mlp over no inputs");
  const std::int64_t in = tile_count(args.in->in(), kTileDepth) * kTileDepth;
  const std::int64_t width = tile_count(args.out->in(), kTileDepth) * kTileDepth;
  for (std::int64_t top = 0; top < args.x.rows(); top += kMaxRows) {
    const std::int64_t end = std::min(top + kMaxRows, args.x.rows());
    const std::int64_t padded = tile_count(end - top, kTileRows) * kTileRows;
    MlpArgs part = args;
    part.x = args.x.row_range(top, end);
    const Bf16* const x = round_tiles(part.x, shared_scratch().reserve<Bf16>(padded * in));
    Bf16* const inner = device_.inner_.reserve<Bf16>(padded * width);
    make_inner_tiles(part, x, inner);
    multiply_tiles({.x = {},
                    .weight = args.out,
                    .bias = args.out_bias,
                    .residual = args.residual.empty() ? View() : args.residual.row_range(top, end),
                    .y = args.y.row_range(top, end)},
                   inner);
  }
}

void CpuStream::make_inner_tiles(const MlpArgs& args, const Bf16* x, Bf16* inner) {
  const std::int64_t rows = args.x.rows();
  const TileOrder order = inner_order(rows, args, pool_.size(), tiles_->panel_unit);
  const Blocks blocks{rows, tile_count(args.out->in(), 16), order.rows, order.panels};
  pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
    const Block block = blocks.at(index);
    float* const room = worker_scratch(worker).reserve<float>(
        InnerBlock::room_for(*args.in, block.rows, order.group));
    InnerBlock work(args, kernels_, *tiles_, x, inner, block, order.group, room);
    for (std::int64_t first = 0; first < block.panels; first += order.group)
      work.make(block.panel + first, std::min(order.group, block.panels - first));
  });
}

}  // namespace saccade::cpu
