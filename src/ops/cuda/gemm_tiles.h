// The tensor cores' product, whatever they multiply: tiles of y over stages of x and the weight
// that cp.async fetches. Every tile shape adds the products of an output in the same order, 32
// bytes of each operand at a time along `in`, so a row is the same bits in any batch.
//
// Elements of both operands are words of 16 bits here: a bf16, or two bytes.
#pragma once

#include "ops/cuda/gemm_rows.h"

namespace saccade::cuda {

constexpr int kDepth = 32;           // of a stage, along `in`
constexpr int kStride = kDepth + 8;  // of its rows in shared memory: no bank is met twice
constexpr int kStages = 4;

// A block's tile of y, and how its warps share it.
template <int kRows_, int kCols_, int kWarpRows_, int kWarpCols_>
struct Tile {
  static constexpr int kRows = kRows_;
  static constexpr int kCols = kCols_;
  static constexpr int kWarpRows = kWarpRows_;  // a warp's part
  static constexpr int kWarpCols = kWarpCols_;
  static constexpr int kThreads = 32 * (kRows / kWarpRows) * (kCols / kWarpCols);
  static constexpr int kSharedBytes = kStages * (kRows + kCols) * kStride * 2;
};

using Stage = StageOfRows<kDepth, kStride>;

// Math: what mma() adds up (Sum), what its result has to be multiplied by (Scales), and how.
template <typename Math, typename Tile, typename Out, bool kAligned, bool kGrouped>
__global__ void __launch_bounds__(Tile::kThreads)
    gemm_kernel(GemmKernelArgs args, GemmGroups groups, typename Math::Scales scales) {
  SACCADE_DYNAMIC_SHARED(Bf16, shared);
  constexpr int kStage = (Tile::kRows + Tile::kCols) * kStride;
  constexpr int kRowTiles = Tile::kWarpRows / 16;
  constexpr int kColTiles = Tile::kWarpCols / 8;
  static_assert(kColTiles % 2 == 0);
  const BlockRows<kGrouped> rows(args.y.rows, groups, Tile::kRows);
  if (rows.none()) return;
  const auto* const x_data = static_cast<const Bf16*>(args.x.data);
  const auto* const weight =
      static_cast<const Bf16*>(kGrouped ? groups.weights[rows.group].data : args.weight.data);
  const auto of_x = [&](std::int64_t row) { return rows.of_x(row); };
  const auto itself = [](std::int64_t row) { return row; };
  const std::int64_t first_col = std::int64_t{blockIdx.x} * Tile::kCols;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / (Tile::kCols / Tile::kWarpCols) * Tile::kWarpRows;
  const int warp_col = warp % (Tile::kCols / Tile::kWarpCols) * Tile::kWarpCols;
  const auto steps = static_cast<int>((args.x.cols + kDepth - 1) / kDepth);

  // Every step commits a group, empty or not, so that the count of those under way is fixed.
  const auto fetch = [&](int step) {
    if (step < steps) {
      Bf16* const stage = shared + step % kStages * kStage;
      const std::int64_t depth = std::int64_t{step} * kDepth;
      if (kAligned)
        Stage::fetch<Tile::kRows, Tile::kThreads>(stage, x_data, args.x.stride, args.x.cols,
                                                  rows.first, rows.end, depth, of_x);
      else
        Stage::copy<Tile::kRows, Tile::kThreads>(stage, x_data, args.x.stride, args.x.cols,
                                                 rows.first, rows.end, depth, of_x);
      Stage::fetch<Tile::kCols, Tile::kThreads>(stage + Tile::kRows * kStride, weight,
                                                args.weight.stride, args.weight.cols, first_col,
                                                args.weight.rows, depth, itself);
    }
    async_commit();
  };

  typename Math::Sum sums[kRowTiles][kColTiles][4] = {};
  for (int step = 0; step < kStages - 1; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    async_wait<kStages - 2>();
    __syncthreads();  // this stage is there for all, and all have left the one to be filled next
    fetch(step + kStages - 1);
    const Bf16* const x = shared + step % kStages * kStage + warp_row * kStride;
    const Bf16* const w = shared + step % kStages * kStage + (Tile::kRows + warp_col) * kStride;
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      std::uint32_t a[kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i)
        ldmatrix(a[i], x + (i * 16 + lane % 16) * kStride + k + lane / 16 * 8);
#pragma unroll
      for (int j = 0; j < kColTiles; j += 2) {
        std::uint32_t b[4];
        ldmatrix(b, w + (j * 8 + lane / 16 * 8 + lane % 8) * kStride + k + lane / 8 % 2 * 8);
        const std::uint32_t left[2] = {b[0], b[1]};
        const std::uint32_t right[2] = {b[2], b[3]};
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          mma(sums[i][j], a[i], left);
          mma(sums[i][j + 1], a[i], right);
        }
      }
    }
  }
  if constexpr (kGrouped) scales.take(groups.weights[rows.group]);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < kColTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const std::int64_t row = rows.first + warp_row + i * 16 + lane / 4 + e / 2 * 8;
        const std::int64_t col = first_col + warp_col + j * 8 + lane % 4 * 2 + e % 2;
        if (row < rows.end && col < args.y.cols)
          finish<Out>(args, row, col, scales.of(sums[i][j][e], rows.of_x(row), col));
      }
}

template <typename Math, typename Tile, typename Out, bool kAligned, bool kGrouped>
void launch_tiles(const GemmKernelArgs& args, const GemmGroups& groups,
                  const typename Math::Scales& scales, cudaStream_t stream) {
  const std::int64_t row_tiles =
      kGrouped ? groups.tile_count : (args.y.rows + Tile::kRows - 1) / Tile::kRows;
  const dim3 grid(static_cast<unsigned>((args.y.cols + Tile::kCols - 1) / Tile::kCols),
                  static_cast<unsigned>(row_tiles));
  SACCADE_LAUNCH((gemm_kernel<Math, Tile, Out, kAligned, kGrouped>), grid, dim3(Tile::kThreads),
                 Tile::kSharedBytes, stream, args, groups, scales);
}

using LargeTile = Tile<128, 128, 64, 32>;
using SmallTile = Tile<16, 64, 16, 16>;  // a few rows: the weight is read once, that is all
using GroupTileOfMany = Tile<kManyTileRows, 128, 32, 32>;
static_assert(SmallTile::kRows == kFewTileRows);

// A tile for so many rows.
template <typename Math, typename Out, bool kAligned>
void launch_rows(const GemmKernelArgs& args, const typename Math::Scales& scales,
                 cudaStream_t stream) {
  if (args.y.rows > 64)
    launch_tiles<Math, LargeTile, Out, kAligned, false>(args, {}, scales, stream);
  else
    launch_tiles<Math, SmallTile, Out, kAligned, false>(args, {}, scales, stream);
}

template <typename Math, typename Out, bool kAligned>
void launch_groups(const GemmKernelArgs& args, const GemmGroups& groups,
                   const typename Math::Scales& scales, cudaStream_t stream) {
  if (groups.tile_rows == kFewTileRows)
    launch_tiles<Math, SmallTile, Out, kAligned, true>(args, groups, scales, stream);
  else
    launch_tiles<Math, GroupTileOfMany, Out, kAligned, true>(args, groups, scales, stream);
}

}  // namespace saccade::cuda
