// gemm with weights of codes of four bits, which cost a quarter of the memory that bf16 takes.
//
// A weight is (code - zero) * scale in f32, on a matrix unit rounded to bf16 (by vectors of bf16
// codes are multiplied themselves: dot_four_bits.h); from there on the
// product is that of gemm.cc, or of gemm_tiles.cc, to the bit, so it does not matter to a row
// which way its weights are unpacked. Few rows: in registers, on their way from memory. Many: a
// block of panels at a time into the second-level cache, where rows then pass it.
#include <algorithm>
#include <cstring>

#include "ops/cpu/products/gemm.h"
#include "ops/cpu/weights/four_bit_weight.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kRowBlock = 252;
constexpr std::int64_t kColBlock = 128;
constexpr std::int64_t kDepthBlock = 512;  // as in gemm.cc: part of the result

}  // namespace

std::int64_t few_rows_panels(const FourBitWeight& weight, int threads) {
  return even_panels(weight.panels(), weight.panel_bytes(), 128 << 10, threads);
}

void CpuStream::gemm_four_bits(const GemmArgs& args, const FourBitWeight& weight) {
  GemmArgs ordered = args;
  if (!weight.order().empty()) {
    const std::span<const std::int32_t> order = weight.order();
    float* const x = device_.ordered_.reserve<float>(args.x.rows() * weight.in());
    each_row(args.x.rows(), weight.in(), [&](std::int64_t row) {
      const float* const from = args.x.row<float>(row);
      float* const to = x + row * weight.in();
      for (std::size_t i = 0; i < order.size(); ++i) to[i] = from[order[i]];
    });
    ordered.x = View(x, DType::kF32, args.x.rows(), weight.in());
  }
  if (weight.operand_dtype() == DType::kI8) return gemm_w4a8(ordered, weight);
  const bool few = args.x.rows() <= kFewRows;
  if (weight.operand_dtype() == DType::kF32) return gemm_four_bits_f32(ordered, weight);
  if (few) return gemm_few_four_bits(ordered, weight);
  gemm_tiles(ordered);
}

void CpuStream::gemm_few_four_bits(const GemmArgs& args, const FourBitWeight& weight) {
  const std::int64_t rows = args.x.rows();
  const std::int64_t depth_tiles = tile_count(weight.in(), kTileDepth);
  Bf16* const x = shared_scratch().reserve<Bf16>(depth_tiles * kTileDepth * rows);
  pool_.parallel_for(depth_tiles, std::max<std::int64_t>(1, 512 / rows),
                     [&](std::int64_t begin, std::int64_t end, int) {
                       tiles_->round_pairs(args.x.row<float>(0), args.x.stride(), rows, weight.in(),
                                           begin, end, x);
                     });
  const Blocks blocks{rows, weight.panels(), rows, few_rows_panels(weight, pool_.size())};
  pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
    const Block block = blocks.at(index);
    FourBitTileArgs tile;
    tile.w = weight.panels(block.panel, block.panels);
    tile.depth_tiles = depth_tiles;
    tile.x = reinterpret_cast<const std::byte*>(x);
    tile.rows = rows;
    tile.c_stride = block.panels * 16;
    tile.c = worker_scratch(worker).reserve<float>(rows * tile.c_stride);
    tiles_->multiply_four_bits(tile);
    finish_block(kernels_, args, block, tile.c, tile.c_stride);
  });
}

void CpuStream::gemm_four_bits_f32(const GemmArgs& args, const FourBitWeight& weight) {
  const std::int64_t lanes = kernels_.lanes;
  const bool few = args.x.rows() <= kFewRows;
  const Blocks blocks{args.x.rows(), weight.panels(), few ? args.x.rows() : kRowBlock,
                      few ? few_rows_panels(weight, pool_.size()) : kColBlock / lanes};
  pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
    const Block block = blocks.at(index);
    const std::int64_t c_stride = block.panels * lanes;
    const std::int64_t sums = block.rows * c_stride;
    float* const c = worker_scratch(worker).reserve<float>(
        sums + (few ? 0 : block.panels * kDepthBlock * lanes));
    FourBitArgs some;
    some.rows = block.rows;
    some.x_stride = args.x.stride();
    some.c_stride = c_stride;
    // Few rows: four panels at a time from top to bottom, so that memory is read in order.
    const std::int64_t step = few ? 4 : block.panels;
    for (std::int64_t first = 0; first < block.panels; first += step) {
      some.w = weight.panels(block.panel + first, std::min(step, block.panels - first));
      for (some.begin = 0; some.begin < weight.in(); some.begin += kDepthBlock) {
        some.depth = std::min(kDepthBlock, weight.in() - some.begin);
        some.x = args.x.row<float>(block.row) + some.begin;
        some.accumulate = some.begin > 0;
        if (few) {
          some.c = c + first * lanes;
          four_bits_.panels(some);
          continue;
        }
        some.c = c + sums;
        four_bits_.unpack(some);
        PanelArgs panel;
        panel.x = some.x;
        panel.x_stride = some.x_stride;
        panel.rows = some.rows;
        panel.weights = some.c;
        panel.panel_stride = some.depth * lanes * static_cast<std::int64_t>(sizeof(float));
        panel.panels = some.w.panels;
        panel.depth = some.depth;
        panel.c = c;
        panel.c_stride = c_stride;
        panel.accumulate = some.accumulate;
        kernels_.panels_f32(panel);
      }
    }
    finish_block(kernels_, args, block, c, c_stride);
  });
}

}  // namespace saccade::cpu
