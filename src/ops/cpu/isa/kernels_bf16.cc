// The kernels for AVX512-BF16, compiled with its flags.
#include "ops/cpu/attention/bf16_attention.h"
#include "ops/cpu/products/dot_four_bits.h"
#include "ops/cpu/products/dot_tiles.h"

namespace saccade::cpu {
namespace dot {
namespace {

void multiply(const TileArgs& args) {
  if (args.grid != nullptr) return multiply_unpacked(args);
  multiply_pairs<Bf16Pairs>(args, args.depth_tiles * kTilePairs);
}

void multiply_int8(const TileArgs& args) {
  multiply_pairs<ByteFours>(args, args.depth_tiles * kTilePairs);
}

// As bf16_attention.h wants it.
struct AttentionUnit {
  struct Session {};
  static constexpr Index kGroupRows = 2 * kTileRows;
  static void multiply(const TileArgs& args, Index depth) {
    multiply_pairs<Bf16Pairs>(args, (depth + 1) / 2);
  }
};

constexpr TileKernels make_table() {
  TileKernels table;
  table.round_rows = bf16::round_rows;
  table.multiply = dot::multiply;
  table.panel_unit = 2 * kBlockPanels;
  table.multiply_int8 = dot::multiply_int8;
  table.int8_rows = 16;
  table.code_order = CodeOrder::kPairs;
  table.round_pairs = dot::round_pairs;
  table.multiply_four_bits = dot::multiply_four_bits;
  table.unpack_four_bits = dot::unpack_four_bits;
  table.attention = bf16::Attention<AttentionUnit>::table();
  return table;
}

}  // namespace
}  // namespace dot

const TileKernels& bf16_kernels() {
  static constexpr TileKernels kTable = dot::make_table();
  return kTable;
}

}  // namespace saccade::cpu
