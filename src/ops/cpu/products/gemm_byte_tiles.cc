// gemm and the gated mlp of rows of bytes on tiles: on a matrix unit (AMX) with weights of bytes
// and with codes of four bits, by vectors (VPDPBUSD) with weights of bytes. The bits are those of
// gemm_int8.cc and gemm_w4a8.cc, the order of work is that of gemm_tiles.cc. A tile of
// 1 KiB is 64 deep, twice that of bf16, in the same time.
//
// Gate and up of an MLP are multiplied side by side, and what becomes of them is written once: for
// 512 rows of 8960 that spares writing 37 MB and reading them. A row has to be there whole before
// it is rounded, so unlike in bf16 (mlp_tiles.cc) it is written as f32.
#include <algorithm>

#include "ops/cpu/products/byte_products.h"
#include "ops/cpu/products/super_block_tiles.h"
#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

const PanelWeight& weight_as(const PackedWeight& weight, const PanelWeight*) {
  return static_cast<const PanelWeight&>(weight);
}
const FourBitWeight& weight_as(const PackedWeight& weight, const FourBitWeight*) {
  return *four_bits(&weight);
}

// Tiles of rows to be rounded, in shared scratch.
struct ByteRoom {
  ByteRoom(Scratch& scratch, std::int64_t rows, std::int64_t depth) {
    const std::int64_t padded = tile_count(rows, kTileRows) * kTileRows;
    const std::int64_t bytes = padded * depth;
    tiles = scratch.reserve<std::uint8_t>(bytes + padded * static_cast<Index>(sizeof(float)));
    scales = reinterpret_cast<float*>(tiles + bytes);
  }
  std::uint8_t* tiles;
  float* scales;
};

}  // namespace

template <typename Product>
void CpuStream::multiply_bytes(const GemmArgs& args) {
  const auto& weight =
      weight_as(*args.weight, static_cast<const typename Product::Weight*>(nullptr));
  const std::int64_t rows = args.x.rows();
  const Int8Tiles x = round_byte_tiles(args.x, weight);
  const TileOrder order = Product::order(weight, rows, pool_.size(), Product::panel_unit(*tiles_));
  const Blocks blocks{rows, weight.panels(), order.rows, order.panels};
  pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
    const Block block = blocks.at(index);
    const std::int64_t size = Product::sums(block.rows, order.group);
    float* const sums = worker_scratch(worker).reserve<float>(size + order.group * kTileRows +
                                                              Product::room(weight));
    float* const row_of_sums = sums + size;
    const Product product({*tiles_, int8_}, weight, x, block.row, block.rows,
                          row_of_sums + order.group * kTileRows);
    for (std::int64_t first = 0; first < block.panels; first += order.group) {
      const std::int64_t panel = block.panel + first;
      const std::int64_t panels = std::min(order.group, block.panels - first);
      product.multiply(panel, panels, panel + panels, sums);
      for (std::int64_t row = 0; row < block.rows; ++row) {
        product.scale_row(sums, panel, panels, row, row_of_sums);
        finish_block(kernels_, args, {block.row + row, 1, panel, panels}, row_of_sums, 0);
      }
    }
  });
}

template <typename Product>
void CpuStream::multiply_gated_bytes(const MlpArgs& args) {
  const auto& weight = weight_as(*args.in, static_cast<const typename Product::Weight*>(nullptr));
  const std::int64_t rows = args.x.rows();
  const std::int64_t width_panels = args.out->in() / kTileRows;
  const Int8Tiles x = round_byte_tiles(args.x, weight);
  const std::int64_t unit = Product::panel_unit(*tiles_);
  TileOrder order = Product::order(weight, rows, pool_.size(), unit);
  order.group = std::max(unit, order.group / 2 / unit * unit);
  order.panels = tile_count(tile_count(order.panels, 2), order.group) * order.group;
  const Blocks blocks{rows, width_panels, order.rows, order.panels};
  pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
    const Block block = blocks.at(index);
    const std::int64_t size = Product::sums(block.rows, order.group);
    const std::int64_t row_size = order.group * kTileRows;
    float* const gate =
        worker_scratch(worker).reserve<float>(2 * size + 2 * row_size + Product::room(weight));
    float* const up = gate + size;
    float* const of_gate = up + size;
    float* const of_up = of_gate + row_size;
    const Product product({*tiles_, int8_}, weight, x, block.row, block.rows, of_up + row_size);
    for (std::int64_t first = 0; first < block.panels; first += order.group) {
      const std::int64_t panel = block.panel + first;
      const std::int64_t panels = std::min(order.group, block.panels - first);
      product.multiply(panel, panels, width_panels + panel, gate);
      product.multiply(width_panels + panel, panels, panel + panels, up);
      for (std::int64_t row = 0; row < block.rows; ++row) {
        product.scale_row(gate, panel, panels, row, of_gate);
        product.scale_row(up, width_panels + panel, panels, row, of_up);
        gate_row(kernels_, args, block.row + row, panel * kTileRows,
                 {of_gate, static_cast<std::size_t>(panels * kTileRows)}, of_up);
      }
    }
  });
}

bool CpuStream::gates_bytes(const MlpArgs& args) const {
  if (!args.gated() || args.x.rows() <= kFewRows || args.out->in() % kTileRows != 0) return false;
  if (args.in->operand_dtype() != DType::kI8) return false;
  const FourBitWeight* const codes = four_bits(args.in);
  return codes == nullptr || codes->order().empty();
}

void CpuStream::gate_bytes(const MlpArgs& args) {
  const FourBitWeight* const codes = four_bits(args.in);
  if (codes == nullptr)
    return tiles_ != nullptr ? multiply_gated_bytes<Int8Product>(args) : gate_int8(args);
  if (!codes_on_tiles()) return gate_w4a8(args, *codes);
  if (codes->super_blocks()) return multiply_gated_bytes<SuperBlockProduct>(args);
  multiply_gated_bytes<CodeProduct>(args);
}

void CpuStream::mlp_bytes(const MlpArgs& args) {
  check_shapes(args);
  for (std::int64_t top = 0; top < args.x.rows(); top += kMaxRows) {
    const std::int64_t end = std::min(top + kMaxRows, args.x.rows());
    MlpArgs part = args;
    part.x = args.x.row_range(top, end);
    part.inner = args.inner.row_range(top, end);
    gate_bytes(part);
    gemm({.x = part.inner.col_range(0, args.out->in()),
          .weight = args.out,
          .bias = args.out_bias,
          .residual = args.residual.empty() ? View() : args.residual.row_range(top, end),
          .y = args.y.row_range(top, end)});
  }
}

bool CpuStream::codes_on_tiles() const {
  return tiles_ != nullptr && tiles_->multiply_w4a8 != nullptr;
}

void CpuStream::gemm_byte_tiles(const GemmArgs& args) {
  for (std::int64_t top = 0; top < args.x.rows(); top += kMaxRows) {
    const std::int64_t end = std::min(top + kMaxRows, args.x.rows());
    GemmArgs part = args;
    part.x = args.x.row_range(top, end);
    part.y = args.y.row_range(top, end);
    if (!args.residual.empty()) part.residual = args.residual.row_range(top, end);
    const FourBitWeight* const codes = four_bits(args.weight);
    if (codes == nullptr)
      multiply_bytes<Int8Product>(part);
    else if (codes->super_blocks())
      multiply_bytes<SuperBlockProduct>(part);
    else
      multiply_bytes<CodeProduct>(part);
  }
}

Int8Tiles CpuStream::round_super_block_tiles(View x, const FourBitWeight& weight) {
  constexpr std::int64_t kTiles = SuperBlockTileArgs::kTiles;
  constexpr std::int64_t kUnits = SuperBlock::kUnits;
  const std::int64_t in = weight.in();
  const std::int64_t blocks = SuperBlockProduct::blocks(weight);
  const ByteRoom room(shared_scratch(), x.rows(), blocks * kTiles * kByteTileInputs);
  pool_.parallel_for(
      x.rows(), row_grain(x.cols()), [&](std::int64_t begin, std::int64_t end, int worker) {
        auto* const codes = worker_scratch(worker).reserve<std::uint8_t>(
            in + blocks * kUnits * static_cast<Index>(sizeof(std::int32_t)));
        auto* const sums = reinterpret_cast<std::int32_t*>(codes + in);
        for (std::int64_t row = begin; row < end; ++row) {
          room.scales[row] = w4a8_.round_row(x.row<float>(row), in, kBlockUnit,
                                             reinterpret_cast<std::int8_t*>(codes), sums);
          std::uint8_t* to = room.tiles + row / kTileRows * blocks * kTiles * kTileBytes +
                             row % kTileRows * kByteTileInputs;
          for (std::int64_t block = 0; block < blocks; ++block) {
            const std::uint8_t* const from = codes + block * SuperBlock::kElements;
            for (std::int64_t tile = 0; tile < kTiles - 1; ++tile, to += kTileBytes)
              std::memcpy(to, from + tile * kByteTileInputs, kByteTileInputs);
            split_sums(sums + block * kUnits, to);
            to += kTileBytes;
          }
        }
      });
  return {room.tiles, room.scales};
}

Int8Tiles CpuStream::round_byte_tiles(View x, const PackedWeight& weight) {
  const FourBitWeight* const codes = four_bits(&weight);
  if (codes != nullptr && codes->super_blocks()) return round_super_block_tiles(x, *codes);
  const std::int64_t inputs = codes == nullptr ? kByteTileInputs : tile_inputs(*codes);
  const std::int64_t depth_tiles = tile_count(weight.in(), inputs);
  const std::int64_t depth = depth_tiles * inputs;
  const std::int64_t groups = codes == nullptr ? 0 : codes->groups();
  const ByteRoom room(shared_scratch(), x.rows(), depth);
  pool_.parallel_for(
      x.rows(), row_grain(x.cols()), [&](std::int64_t begin, std::int64_t end, int worker) {
        auto* const row_codes = worker_scratch(worker).reserve<std::uint8_t>(
            depth + groups * static_cast<Index>(sizeof(std::int32_t)));
        std::memset(row_codes + depth - inputs, 0, static_cast<std::size_t>(inputs));
        for (std::int64_t row = begin; row < end; ++row) {
          const float* const from = x.row<float>(row);
          // The sums of groups are what vectors need alone.
          room.scales[row] =
              codes == nullptr
                  ? int8_.round_activations(from, x.cols(), depth, row_codes)
                  : w4a8_.round_row(from, x.cols(), codes->group(),
                                    reinterpret_cast<std::int8_t*>(row_codes),
                                    reinterpret_cast<std::int32_t*>(row_codes + depth));
          spread_row(row_codes, row, depth_tiles, inputs, room.tiles);
        }
      });
  return {room.tiles, room.scales};
}

}  // namespace saccade::cpu
