// gemm with weights of bytes on a matrix unit (AMX): as gemm_int8.cc, and as gemm_tiles.cc, whose
// order of work it takes. A tile of 1 KiB is 64 deep, twice that of bf16, in the same time.
#include <algorithm>
#include <cstring>

#include "ops/cpu/gemm.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kMostRows = 4096;  // rounded at a time: bounds the scratch
constexpr std::int64_t kTileRowBytes = kTileBytes / kTileRows;

}  // namespace

void CpuStream::gemm_int8_tiles(const GemmArgs& args) {
  const auto& weight = static_cast<const PanelWeight&>(*args.weight);
  for (std::int64_t top = 0; top < args.x.rows(); top += kMostRows) {
    const std::int64_t end = std::min(top + kMostRows, args.x.rows());
    GemmArgs part = args;
    part.x = args.x.row_range(top, end);
    part.y = args.y.row_range(top, end);
    if (!args.residual.empty()) part.residual = args.residual.row_range(top, end);
    const Int8Tiles x = round_int8_tiles(part.x, weight.panel_bytes() / kTileBytes);
    const std::int64_t rows = end - top;
    TileOrder order =
        order_of(rows, weight.panel_bytes() / kTileBytes, weight.panels(), pool_.size());
    if (rows <= kFewRows) order = {rows, few_rows_panels(weight), kGroupPanels};
    const Blocks blocks{rows, weight.panels(), order.rows, order.panels};
    pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
      const Block block = blocks.at(index);
      const TileProduct product(*tiles_, weight, x.tiles, block.row, block.rows, nullptr);
      const std::int64_t sums = TileProduct::sums(block.rows, order.group);
      const std::int64_t stride = TileProduct::stride(order.group);
      auto* const c = worker_scratch(worker).reserve<std::int32_t>(sums + stride);
      auto* const scaled = reinterpret_cast<float*>(c + sums);
      for (std::int64_t first = 0; first < block.panels; first += order.group) {
        Block group = block;
        group.panel += first;
        group.panels = std::min(order.group, block.panels - first);
        product.multiply(group.panel, group.panels, group.panel + group.panels, c);
        for (group.row = block.row, group.rows = 1; group.row < block.row + block.rows;
             ++group.row) {
          int8_.scale_row(c + (group.row - block.row) * TileProduct::stride(group.panels),
                          weight.scales(group.panel), x.scales[group.row], group.panels * 16,
                          scaled);
          finish_block(kernels_, part, group, scaled, 0);
        }
      }
    });
  }
}

Int8Tiles CpuStream::round_int8_tiles(View x, std::int64_t depth_tiles) {
  const std::int64_t row_tiles = tile_count(x.rows(), kTileRows);
  auto* const tiles = shared_scratch().reserve<std::uint8_t>(
      row_tiles *
      (depth_tiles * kTileBytes + kTileRows * static_cast<std::int64_t>(sizeof(float))));
  auto* const scales = reinterpret_cast<float*>(tiles + row_tiles * depth_tiles * kTileBytes);
  pool_.parallel_for(
      x.rows(), row_grain(x.cols()), [&](std::int64_t begin, std::int64_t end, int worker) {
        const std::int64_t depth = depth_tiles * kTileRowBytes;
        auto* const codes = worker_scratch(worker).reserve<std::uint8_t>(depth);
        for (std::int64_t row = begin; row < end; ++row) {
          scales[row] = int8_.round_activations(x.row<float>(row), x.cols(), depth, codes);
          std::uint8_t* to =
              tiles + row / kTileRows * depth_tiles * kTileBytes + row % kTileRows * kTileRowBytes;
          for (std::int64_t at = 0; at < depth; at += kTileRowBytes, to += kTileBytes)
            std::memcpy(to, codes + at, kTileRowBytes);
        }
      });
  return {tiles, scales};
}

}  // namespace saccade::cpu
