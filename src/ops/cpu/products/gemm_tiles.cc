// gemm with bf16 weights in tiles, on a matrix unit (AMX) or by vectors of bf16: activations are
// rounded to bf16, sums are f32.
//
// A matrix unit is so fast that memory decides nearly everywhere (for vectors, which do a fifteenth
// of its work, any order that keeps weights near would do). Few rows cost what reading the weights
// costs, as in gemm.cc. For many, x is rounded once into tiles (2 bytes an element, 1 KiB a tile),
// and a pair of panels, 512 deep (32 KiB), stays in the first-level cache while rows pass it from
// the second; what comes next of the weights is asked for meanwhile. Two orders keep rows there, of
// which the depth chooses:
//  - Up to 2048 inputs, 256 rows lie in the second level whole (1 MiB at most) and weights stream
//    past: a small group of panels is finished, while its sums are hot, before the next begins.
//  - Of more inputs, the sums of 256 rows x 384 columns stay (384 KiB), and each step of 512 in
//    depth reads 256 KiB of x and 384 KiB of weights for 101 Mflop.
#include <algorithm>

#include "ops/cpu/products/gemm.h"

namespace saccade::cpu {
namespace {}  // namespace

TileOrder order_of(std::int64_t rows, std::int64_t depth_tiles, std::int64_t panels, int threads,
                   std::int64_t unit) {
  constexpr std::int64_t kShallow = 2048 / kTileDepth;
  const bool shallow = depth_tiles <= kShallow;
  TileOrder order{};
  order.rows = even_part(rows, 256, 2 * kTileRows);
  const std::int64_t down = (rows + order.rows - 1) / order.rows;
  // Two blocks a thread at the least, where panels suffice.
  const std::int64_t most =
      std::clamp<std::int64_t>(panels * down / (2 * threads), 2, shallow ? 64 : 24);
  order.panels = even_part(panels, most, unit);
  order.group = shallow ? std::min(kGroupPanels / unit * unit, order.panels) : order.panels;
  return order;
}

const Bf16* CpuStream::round_tiles(View x, Bf16* tiles) {
  const std::int64_t stride = tile_count(x.cols(), kTileDepth) * kTileElements;
  each_row(tile_count(x.rows(), kTileRows), kTileRows * x.cols(), [&](std::int64_t tile) {
    const std::int64_t row = tile * kTileRows;
    tiles_->round_rows(x.row<float>(row), x.stride(), std::min(kTileRows, x.rows() - row), x.cols(),
                       tiles + tile * stride);
  });
  return tiles;
}

void CpuStream::gemm_few_tiles(const GemmArgs& args, const Bf16* x) {
  const auto& weight = static_cast<const PanelWeight&>(*args.weight);
  const std::int64_t rows = args.y.rows();
  const std::int64_t depth_tiles = tile_count(weight.in(), kTileDepth);
  const Blocks blocks{rows, weight.panels(), rows, few_rows_panels(weight, pool_.size())};
  pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
    const Block block = blocks.at(index);
    TileArgs tile;
    tile.x = reinterpret_cast<const std::byte*>(x);
    tile.rows = rows;
    tile.weights = weight.panel(block.panel);
    tile.panel_stride = weight.panel_bytes();
    tile.panels = block.panels;
    tile.depth_tiles = depth_tiles;
    tile.c_stride = block.panels * 16;
    const std::int64_t c_size = kTileRows * tile.c_stride;
    tile.c = worker_scratch(worker).reserve<float>(c_size + depth_tiles * kTileDepth);
    if (rows == 1) tile.one_row = tile.c + c_size;
    tiles_->multiply(tile);
    finish_block(kernels_, args, block, tile.c, tile.c_stride);
  });
}

void CpuStream::gemm_many_tiles(const GemmArgs& args, const Bf16* x) {
  const PackedWeight& weight = *args.weight;
  const std::int64_t rows = args.y.rows();
  const std::int64_t depth_tiles = tile_count(weight.in(), kTileDepth);
  const std::int64_t panels = panels_of(weight);
  const TileOrder order = order_of(rows, depth_tiles, panels, pool_.size(), tiles_->panel_unit);
  const Blocks blocks{rows, panels, order.rows, order.panels};
  pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
    const Block block = blocks.at(index);
    const std::int64_t sums = TileProduct::sums(block.rows, order.group);
    float* const c =
        worker_scratch(worker).reserve<float>(sums + TileProduct::room(weight, order.group));
    const TileProduct product(*tiles_, weight, x, block.row, block.rows, c + sums);
    for (std::int64_t first = 0; first < block.panels; first += order.group) {
      Block part = block;
      part.panel += first;
      part.panels = std::min(order.group, block.panels - first);
      product.multiply(part.panel, part.panels, part.panel + part.panels, c);
      finish_block(kernels_, args, part, c, TileProduct::stride(part.panels));
    }
  });
}

TileProduct::TileProduct(const TileKernels& kernels, const PackedWeight& weight, const void* x,
                         std::int64_t row, std::int64_t rows, float* room)
    : codes_(four_bits(&weight)),
      panels_(codes_ == nullptr ? static_cast<const PanelWeight*>(&weight) : nullptr),
      kernels_(kernels),
      multiply_(weight.operand_dtype() == DType::kI8 ? kernels.multiply_int8 : kernels.multiply),
      depth_tiles_(codes_ == nullptr ? panels_->panel_bytes() / kTileBytes
                                     : tile_count(weight.in(), kTileDepth)),
      rows_(rows),
      x_(static_cast<const std::byte*>(x) + row / kTileRows * depth_tiles_ * kTileBytes),
      room_(reinterpret_cast<std::byte*>(room)) {}

void TileProduct::multiply(std::int64_t panel, std::int64_t panels, std::int64_t next,
                           void* c) const {
  TileArgs tile;
  tile.rows = rows_;
  tile.row_tile_stride = depth_tiles_ * kTileBytes;
  tile.panels = panels;
  tile.c = static_cast<float*>(c);
  tile.c_stride = stride(panels);
  if (codes_ != nullptr) return multiply_codes(tile, panel);
  tile.panel_stride = panels_->panel_bytes();
  if (panels_->type() == DType::kI8) tile.starts = panels_->starts(panel);
  const std::int64_t step =
      rows_ <= kTileRows ? depth_tiles_ : even_part(depth_tiles_, kDepthStep, 1);
  for (std::int64_t depth = 0; depth < depth_tiles_; depth += step) {
    const std::int64_t end = std::min(depth + step, depth_tiles_);
    tile.x = x_ + depth * kTileBytes;
    tile.weights = panels_->panel(panel) + depth * kTileBytes;
    tile.next =
        end < depth_tiles_ ? panels_->panel(panel) + end * kTileBytes : panels_->panel(next);
    tile.depth_tiles = end - depth;
    tile.accumulate = depth > 0;
    multiply_(tile);
  }
}

void TileProduct::multiply_codes(TileArgs& tile, std::int64_t panel) const {
  FourBitTileArgs codes;
  codes.w = codes_->panels(panel, tile.panels);
  codes.tiles = room_;
  tile.grid = &codes.w;
  const std::int64_t step = even_part(depth_tiles_, kMaxUnpackedTiles, 4);
  for (std::int64_t depth = 0; depth < depth_tiles_; depth += step) {
    codes.begin = depth;
    codes.depth_tiles = std::min(step, depth_tiles_ - depth);
    kernels_.unpack_four_bits(codes);
    tile.x = x_ + depth * kTileBytes;
    tile.weights = tile.next = room_;
    tile.panel_stride = codes.depth_tiles * kTileBytes;
    tile.depth_tiles = codes.depth_tiles;
    tile.begin = depth;
    tile.accumulate = depth > 0;
    multiply_(tile);
  }
  tile.grid = nullptr;  // codes end here
}

void CpuStream::gemm_tiles(const GemmArgs& args) {
  const std::int64_t in = tile_count(args.weight->in(), kTileDepth) * kTileDepth;
  for (std::int64_t top = 0; top < args.x.rows(); top += kMaxRows) {
    const std::int64_t end = std::min(top + kMaxRows, args.x.rows());
    const std::int64_t padded = tile_count(end - top, kTileRows) * kTileRows;
    GemmArgs part = args;
    part.x = args.x.row_range(top, end);
    part.y = args.y.row_range(top, end);
    if (!args.residual.empty()) part.residual = args.residual.row_range(top, end);
    multiply_tiles(part, round_tiles(part.x, shared_scratch().reserve<Bf16>(padded * in)));
  }
}

void CpuStream::multiply_tiles(const GemmArgs& args, const Bf16* x) {
  if (args.y.rows() <= kFewRows && four_bits(args.weight) == nullptr)
    return gemm_few_tiles(args, x);
  gemm_many_tiles(args, x);
}

}  // namespace saccade::cpu
