// Rows of bytes times panels of tiles (TileKernels), of weights of bytes and of codes of four bits.
// Both products are used in one way (gemm_byte_tiles.cc), and give the sums that vectors give.
#pragma once

#include "ops/cpu/products/gemm.h"
#include "ops/cpu/products/super_blocks_a8.h"

namespace saccade::cpu {

constexpr std::int64_t kByteTileInputs = 64;  // of a tile of bytes

// The same of codes of four bits: half of it where groups are not whole tiles.
inline std::int64_t tile_inputs(const FourBitWeight& weight) {
  const bool whole = weight.group() % kByteTileInputs == 0 || weight.groups() == 1;
  return whole ? kByteTileInputs : kByteTileInputs / 2;
}

// What products are made with.
struct ByteKernels {
  const TileKernels& tiles;
  const Int8Kernels& int8;
};

// Some rows of x times weights of bytes.
class Int8Product {
 public:
  using Weight = PanelWeight;

  // `x`: all rows. The block begins at row `row`, a multiple of kTileRows.
  Int8Product(const ByteKernels& kernels, const PanelWeight& weight, const Int8Tiles& x,
              std::int64_t row, std::int64_t rows, float* /*room*/)
      : int8_(kernels.int8),
        weight_(weight),
        scales_(x.scales + row),
        product_(kernels.tiles, weight, x.tiles, row, rows, nullptr) {}

  static std::int64_t panel_unit(const TileKernels& tiles) { return tiles.panel_unit; }
  static TileOrder order(const PanelWeight& weight, std::int64_t rows, int threads,
                         std::int64_t unit) {
    if (rows <= kFewRows) return {rows, few_rows_panels(weight, threads), kGroupPanels};
    return order_of(rows, weight.panel_bytes() / kTileBytes, weight.panels(), threads, unit);
  }
  // Numbers that a product works with beside its sums, and those.
  static std::int64_t room(const PanelWeight& /*weight*/) { return 0; }
  static std::int64_t sums(std::int64_t rows, std::int64_t panels) {
    return TileProduct::sums(rows, panels);
  }
  // Sums of panels [panel, panel + panels). `next`: the panel with which the caller goes on.
  void multiply(std::int64_t panel, std::int64_t panels, std::int64_t next, float* sums) const {
    product_.multiply(panel, panels, next, sums);
  }
  // What the sums of row `row` of the block stand for: [16 * panels].
  void scale_row(const float* sums, std::int64_t panel, std::int64_t panels, std::int64_t row,
                 float* out) const {
    const auto* const integers = reinterpret_cast<const std::int32_t*>(sums);
    int8_.scale_row(integers + row * TileProduct::stride(panels), weight_.scales(panel),
                    scales_[row], panels * kTileRows, out);
  }

 private:
  const Int8Kernels& int8_;
  const PanelWeight& weight_;
  const float* scales_;
  TileProduct product_;
};

// Some rows of x times codes of four bits. A pair of panels is unpacked to bytes, some 512 inputs
// at a time, into the first-level cache, and all rows of the block pass it from the second.
class CodeProduct {
 public:
  using Weight = FourBitWeight;

  CodeProduct(const ByteKernels& kernels, const FourBitWeight& weight, const Int8Tiles& x,
              std::int64_t row, std::int64_t rows, float* room)
      : tiles_(kernels.tiles),
        weight_(weight),
        tile_inputs_(tile_inputs(weight)),
        depth_tiles_(tile_count(weight.in(), tile_inputs_)),
        step_(step_of(weight)),
        x_(reinterpret_cast<const std::byte*>(x.tiles) + row * depth_tiles_ * tile_inputs_),
        scales_(x.scales + row),
        rows_(rows),
        room_(reinterpret_cast<std::byte*>(room)) {}

  static std::int64_t panel_unit(const TileKernels& /*tiles*/) { return 2; }
  // As order_of(), but that rows are half as long as in bf16: twice as many of them stay in the
  // second-level cache, and each code is unpacked for twice as many.
  static TileOrder order(const FourBitWeight& weight, std::int64_t rows, int threads,
                         std::int64_t unit) {
    const bool shallow = weight.in() <= 2048;
    TileOrder order{};
    order.rows = even_part(rows, 512, 2 * kTileRows);
    const std::int64_t down = tile_count(rows, order.rows);
    // Two blocks a thread at the least, where panels suffice.
    const std::int64_t most =
        std::clamp<std::int64_t>(weight.panels() * down / (2 * threads), 2, shallow ? 64 : 12);
    order.panels = even_part(weight.panels(), most, unit);
    order.group = shallow ? std::min(kGroupPanels, order.panels) : order.panels;
    return order;
  }
  static std::int64_t room(const FourBitWeight& weight) {
    return W4A8TileArgs::room_bytes(step_of(weight), tile_inputs(weight)) /
           static_cast<Index>(sizeof(float));
  }
  static std::int64_t sums(std::int64_t rows, std::int64_t panels) {
    return W4A8TileArgs::floats(rows, panels);
  }
  void multiply(std::int64_t panel, std::int64_t panels, std::int64_t next, float* sums) const {
    W4A8TileArgs args;
    args.w = weight_.panels(panel, panels);
    args.words = tile_count(weight_.in(), 32) * 4;
    args.tile_inputs = tile_inputs_;
    args.rows = rows_;
    const std::int64_t x_tile = kTileRows * tile_inputs_;
    args.row_tile_stride = depth_tiles_ * x_tile;
    args.c = sums;
    args.room = room_;
    const std::byte* const codes = args.w.weights + args.w.codes;
    for (std::int64_t depth = 0; depth < depth_tiles_; depth += step_) {
      const std::int64_t end = std::min(depth + step_, depth_tiles_);
      args.begin = depth;
      args.depth_tiles = end - depth;
      args.x = x_ + depth * x_tile;
      args.next = end < depth_tiles_ ? codes + end * (x_tile / 2)
                                     : codes + (next - panel) * args.w.panel_stride;
      tiles_.multiply_w4a8(args);
    }
  }
  void scale_row(const float* sums, std::int64_t /*panel*/, std::int64_t panels, std::int64_t row,
                 float* out) const {
    tiles_.scale_code_row(sums, panels, row, scales_[row], out);
  }

 private:
  // The depth in equal steps of whole groups.
  static std::int64_t step_of(const FourBitWeight& weight) {
    constexpr std::int64_t kDepthStep = 512;  // inputs, unless a group has more
    const std::int64_t inputs = tile_inputs(weight);
    const std::int64_t tiles = tile_count(weight.in(), inputs);
    if (weight.groups() == 1) return tiles;
    return even_part(tiles, kDepthStep / inputs, weight.group() / inputs);
  }

  const TileKernels& tiles_;
  const FourBitWeight& weight_;
  std::int64_t tile_inputs_;
  std::int64_t depth_tiles_;
  std::int64_t step_;
  const std::byte* x_;
  const float* scales_;
  std::int64_t rows_;
  std::byte* room_;
};

// Some rows of x times SuperBlocks, some 512 inputs at a time, as CodeProduct.
class SuperBlockProduct {
 public:
  using Weight = FourBitWeight;

  SuperBlockProduct(const ByteKernels& kernels, const FourBitWeight& weight, const Int8Tiles& x,
                    std::int64_t row, std::int64_t rows, float* room)
      : tiles_(kernels.tiles),
        weight_(weight),
        blocks_(blocks(weight)),
        x_(reinterpret_cast<const std::byte*>(x.tiles) + row / kTileRows * blocks_ * kBlock),
        scales_(x.scales + row),
        rows_(rows),
        room_(reinterpret_cast<std::byte*>(room)) {}

  static std::int64_t blocks(const FourBitWeight& weight) {
    return weight.in() / SuperBlock::kElements;
  }
  static std::int64_t panel_unit(const TileKernels& /*tiles*/) { return 2; }
  static TileOrder order(const FourBitWeight& weight, std::int64_t rows, int threads,
                         std::int64_t unit) {
    return CodeProduct::order(weight, rows, threads, unit);
  }
  static std::int64_t room(const FourBitWeight& weight) {
    return SuperBlockTileArgs::room_bytes(step_of(weight)) / static_cast<Index>(sizeof(float));
  }
  static std::int64_t sums(std::int64_t rows, std::int64_t panels) {
    return W4A8TileArgs::floats(rows, panels);
  }
  void multiply(std::int64_t panel, std::int64_t panels, std::int64_t next, float* sums) const {
    SuperBlockTileArgs args;
    args.w = weight_.panels(panel, panels);
    args.rows = rows_;
    args.row_tile_stride = blocks_ * kBlock;
    args.c = sums;
    args.room = room_;
    const std::int64_t block_bytes = SuperBlockLayout{kTileRows}.bytes();
    const std::int64_t step = step_of(weight_);
    for (std::int64_t begin = 0; begin < blocks_; begin += step) {
      const std::int64_t end = std::min(begin + step, blocks_);
      args.begin = begin;
      args.blocks = end - begin;
      args.x = x_ + begin * kBlock;
      args.next = end < blocks_ ? args.w.weights + end * block_bytes
                                : args.w.weights + (next - panel) * args.w.panel_stride;
      tiles_.multiply_super_blocks(args);
    }
  }
  void scale_row(const float* sums, std::int64_t /*panel*/, std::int64_t panels, std::int64_t row,
                 float* out) const {
    tiles_.scale_code_row(sums, panels, row, scales_[row], out);
  }

 private:
  static constexpr std::int64_t kBlock = SuperBlockTileArgs::kTiles * kTileBytes;  // of x
  static std::int64_t step_of(const FourBitWeight& weight) {
    return std::min<std::int64_t>(2, blocks(weight));
  }

  const TileKernels& tiles_;
  const FourBitWeight& weight_;
  std::int64_t blocks_;
  const std::byte* x_;
  const float* scales_;
  std::int64_t rows_;
  std::byte* room_;
};

}  // namespace saccade::cpu
