// The tensor cores' product, whatever they multiply: tiles of y over stages of x and the weight
// that cp.async fetches. Every tile shape adds the products of an output in the same order, 32
// bytes of each operand at a time along `in`, so a row is the same bits in any batch.
//
// A sum is a chain: one mma() waits for the one before it, some 33 cycles on Hopper. Of few rows by
// weights of few outputs that is longer than their bytes take, so those (slice_of()) are summed in
// up to four slices of `in`, which are then added in their order. Tiles of few rows give each slice
// a warp; those of more rows take one slice after the other and keep a total beside the sum. Which
// weights these are, and where slices begin, follows from the weight's shape alone.
//
// Elements of both operands are words of 16 bits here: a bf16, or two bytes.
#pragma once

#include "ops/cuda/products/gemm_rows.h"

namespace saccade::cuda {

constexpr int kMaxSlices = 4;
constexpr int kSliceUnit = 128;  // whole stages of every tile

// Words of `in` in a slice; all of them where there is one slice.
constexpr bool is_sliced(std::int64_t out) { return out < 3072; }
constexpr std::int64_t slice_of(std::int64_t out, std::int64_t in) {
  constexpr std::int64_t kUnits = std::int64_t{kMaxSlices} * kSliceUnit;
  return is_sliced(out) ? (in + kUnits - 1) / kUnits * kSliceUnit : in;
}

// A block's tile of y, and how its warps share it; kSlices: of `in`, at once.
template <int kRows_, int kCols_, int kWarpRows_, int kWarpCols_, int kDepth_, int kStages_,
          int kSlices_ = 1>
struct Tile {
  static constexpr int kRows = kRows_;
  static constexpr int kCols = kCols_;
  static constexpr int kWarpRows = kWarpRows_;  // a warp's part
  static constexpr int kWarpCols = kWarpCols_;
  static constexpr int kDepth = kDepth_;  // of a stage, along `in`
  static constexpr int kStages = kStages_;
  static constexpr int kSlices = kSlices_;
  static_assert(kSliceUnit % kDepth == 0);
  static constexpr int kSliceWarps = (kRows / kWarpRows) * (kCols / kWarpCols);
  static constexpr int kSliceThreads = 32 * kSliceWarps;
  static constexpr int kThreads = kSlices * kSliceThreads;
  static constexpr int kStride = kDepth + 8;  // of rows in shared memory: no bank is met twice
  static constexpr int kSliceStage = (kRows + kCols) * kStride;
  static constexpr int kStage = kSlices * kSliceStage;
  static constexpr int kSharedBytes = kStages * kStage * 2;
  // Compute capability 8.6, 8.9 and 12.0 have no more.
  static_assert(kSharedBytes <= 101376);
  // Operands are read while the products before them are made where few of those hide it.
  static constexpr bool kAhead = kWarpRows * kWarpCols <= 32 * 32;
};

// Math: what mma() adds up (Sum), what its result has to be multiplied by (Scales), and how.
// `slice`: words of a slice of `in`; of kSliced alone. Told of one block a multiprocessor, ptxas
// takes registers enough: else it reads operands only when they are due, or spills.
template <typename Math, typename Tile, typename Out, bool kAligned, bool kGrouped, bool kSliced>
__global__ void __launch_bounds__(Tile::kThreads, kAligned && !Tile::kAhead ? 0 : 1)
    gemm_kernel(GemmKernelArgs args, GemmGroups groups, typename Math::Scales scales, int slice) {
  SACCADE_DYNAMIC_SHARED(Bf16, shared);
  constexpr int kDepth = Tile::kDepth;
  constexpr int kStride = Tile::kStride;
  constexpr int kRowTiles = Tile::kWarpRows / 16;
  constexpr int kColTiles = Tile::kWarpCols / 8;
  static_assert(kColTiles % 2 == 0 && (kSliced || Tile::kSlices == 1));
  // Slices one after the other.
  constexpr bool kTotals = kSliced && Tile::kSlices == 1;
  const BlockTile tile;
  const BlockRows<kGrouped> rows(tile.row, args.y.rows, groups, Tile::kRows);
  if (rows.none()) return;
  const auto* const x_data = static_cast<const Bf16*>(args.x.data);
  const auto* const weight =
      static_cast<const Bf16*>(kGrouped ? groups.weights[rows.group].data : args.weight.data);
  const auto of_x = [&](std::int64_t row) { return rows.of_x(row); };
  const auto itself = [](std::int64_t row) { return row; };
  const std::int64_t first_col = tile.col * Tile::kCols;
  const int my_slice = static_cast<int>(threadIdx.x) / Tile::kSliceThreads;
  const int thread = static_cast<int>(threadIdx.x) % Tile::kSliceThreads;
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int warp_row = warp / (Tile::kCols / Tile::kWarpCols) * Tile::kWarpRows;
  const int warp_col = warp % (Tile::kCols / Tile::kWarpCols) * Tile::kWarpCols;
  const auto in = static_cast<int>(args.x.cols);
  const int begin = Tile::kSlices > 1 ? my_slice * slice : 0;
  const int end = Tile::kSlices > 1 ? smaller(begin + slice, in) : in;
  // Of the first slice, than which none is longer; and of mine.
  const int steps = ((Tile::kSlices > 1 ? smaller(slice, in) : in) + kDepth - 1) / kDepth;
  const int my_steps = Tile::kSlices > 1 ? larger(0, end - begin + kDepth - 1) / kDepth : steps;

  RowPieces<Tile::kRows, Tile::kSliceThreads, kDepth, kStride, false> of_rows(
      thread, x_data, args.x.stride, rows.first, rows.end, begin, of_x);
  RowPieces<Tile::kCols, Tile::kSliceThreads, kDepth, kStride, true> of_cols(
      thread, weight, args.weight.stride, first_col, args.weight.rows, begin, itself);
  const auto left_at = [&](int step) { return end - begin - step * kDepth; };
  const auto fetch_last = [&](int step, Bf16* stage) {
    if (kAligned) of_rows.fetch_last(stage, left_at(step));
    of_cols.fetch_last(stage + Tile::kRows * kStride, left_at(step));
  };
  const auto copy_rows = [&](int step, Bf16* stage) {
    copy_pieces<Tile::kRows, Tile::kSliceThreads, kDepth, kStride>(
        thread, stage, x_data, args.x.stride, rows.first, rows.end, begin + step * kDepth, end,
        of_x);
  };

  typename Math::Sum sums[kRowTiles][kColTiles][4] = {};
  typename Math::Sum totals[kTotals ? kRowTiles : 1][kTotals ? kColTiles : 1][4];
  bool any_total = false;
  const auto end_slice = [&] {
    if constexpr (kTotals) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
        for (int j = 0; j < kColTiles; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            totals[i][j][e] = any_total ? totals[i][j][e] + sums[i][j][e] : sums[i][j][e];
            sums[i][j][e] = 0;
          }
      any_total = true;
    }
  };
  int left_in_slice = slice / kDepth;

  Bf16* const stages = shared + my_slice * Tile::kSliceStage;
  Bf16* const stages_end = stages + Tile::kStages * Tile::kStage;
  const auto after = [&](Bf16* stage) {
    return stage + Tile::kStage == stages_end ? stages : stage + Tile::kStage;
  };
  Bf16* filled = stages;
  // Every step commits a group, empty or not, so that the count of those under way is fixed.
  for (int step = 0; step < Tile::kStages - 1; ++step, filled += Tile::kStage) {
    if (step < my_steps) {
      if (!kAligned) copy_rows(step, filled);
      if (left_at(step) >= kDepth) {
        if (kAligned) of_rows.fetch(filled);
        of_cols.fetch(filled + Tile::kRows * kStride);
      } else {
        fetch_last(step, filled);
      }
    }
    async_commit();
  }
  Bf16* stage = stages;
  for (int step = 0; step < steps; ++step) {
    async_wait<Tile::kStages - 2>();
    __syncthreads();  // this stage is there for all, and all have left the one to be filled next
    const int next = step + Tile::kStages - 1;
    const bool whole = next < my_steps && left_at(next) >= kDepth;
    if (next < my_steps) {
      if (!kAligned) copy_rows(next, filled);
      if (!whole) fetch_last(next, filled);
    }
    if (Tile::kSlices > 1 && step >= my_steps) {
      async_commit();
      continue;
    }
    const Bf16* const x = stage + (warp_row + lane % 16) * kStride + lane / 16 * 8;
    const Bf16* const w =
        stage + (Tile::kRows + warp_col + lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
    constexpr int kBuffers = Tile::kAhead ? 2 : 1;
    std::uint32_t a[kBuffers][kRowTiles][4];
    std::uint32_t b[kBuffers][kColTiles / 2][4];
    const auto load = [&](int k) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i)
        ldmatrix(a[k % kBuffers][i], x + i * 16 * kStride + k * 16);
#pragma unroll
      for (int j = 0; j < kColTiles / 2; ++j)
        ldmatrix(b[k % kBuffers][j], w + j * 16 * kStride + k * 16);
    };
    if (Tile::kAhead) load(0);
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) {
      if (!Tile::kAhead)
        load(k);
      else if (k + 1 < kDepth / 16)
        load(k + 1);
#pragma unroll
      for (int j = 0; j < kColTiles; ++j) {
        const auto& pair = b[k % kBuffers][j / 2];
        const std::uint32_t of_output[2] = {pair[j % 2 * 2], pair[j % 2 * 2 + 1]};
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) mma(sums[i][j], a[k % kBuffers][i], of_output);
      }
      fetch_part<kDepth / 16>(k, of_rows, of_cols, filled, filled + Tile::kRows * kStride, kAligned,
                              whole);
    }
    async_commit();
    filled = after(filled);
    stage = after(stage);
    if (kTotals && --left_in_slice == 0) {
      end_slice();
      left_in_slice = slice / kDepth;
    }
  }
  if (kTotals && left_in_slice != slice / kDepth) end_slice();
  if constexpr (kTotals) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kColTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = totals[i][j][e];
  }
  if constexpr (Tile::kSlices > 1) {
    // What each warp has, to the one that has the first slice of the same outputs.
    constexpr int kEach = kRowTiles * kColTiles * 4;
    auto* const others = reinterpret_cast<typename Math::Sum*>(shared);
    async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kEach; ++n)
      if (my_slice > 0)
        others[((my_slice - 1) * kEach + n) * Tile::kSliceThreads + thread] =
            sums[n / 4 / kColTiles][n / 4 % kColTiles][n % 4];
    __syncthreads();
    if (my_slice > 0) return;
    for (int other = 1; other * slice < in; ++other)
#pragma unroll
      for (int n = 0; n < kEach; ++n)
        sums[n / 4 / kColTiles][n / 4 % kColTiles][n % 4] +=
            others[((other - 1) * kEach + n) * Tile::kSliceThreads + thread];
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

template <typename Math, typename Tile, typename Out, bool kAligned, bool kGrouped, bool kSliced>
void launch_tiles(const GemmKernelArgs& args, const GemmGroups& groups,
                  const typename Math::Scales& scales, cudaStream_t stream) {
  const std::int64_t row_tiles =
      kGrouped ? groups.tile_count : (args.y.rows + Tile::kRows - 1) / Tile::kRows;
  const dim3 grid(static_cast<unsigned>((args.y.cols + Tile::kCols - 1) / Tile::kCols),
                  static_cast<unsigned>(row_tiles));
  const auto slice = static_cast<int>(slice_of(args.weight.rows, args.x.cols));
  SACCADE_LAUNCH((gemm_kernel<Math, Tile, Out, kAligned, kGrouped, kSliced>), grid,
                 dim3(Tile::kThreads), Tile::kSharedBytes, stream, args, groups, scales, slice);
}

// Of few rows the weight's bytes are all that matters: enough blocks for every multiprocessor, and
// 32 KB and more of the weight on its way to each. Tiles of many outputs leave room for a third
// block there: 17,920 outputs, 2B's widest but one, are one wave. Wide tiles read x less often, 64
// outputs an equal share of it at 64 rows.
using FewTileOfSlices = Tile<16, 16, 16, 16, 64, 5, kMaxSlices>;
using FewTile = Tile<16, 32, 16, 16, 128, 6>;
using FewTileOfMany = Tile<16, 64, 16, 16, 128, 3>;
using MidTile = Tile<64, 32, 32, 16, 64, 7>;
using MidTileOfMany = Tile<64, 64, 32, 32, 64, 4>;
using LargeTile = Tile<128, 128, 64, 32, 32, 4>;
using LargeTileOfSlices = Tile<128, 64, 32, 32, 32, 4>;  // with room for totals in registers
using GroupTileOfMany = Tile<kManyTileRows, 128, 32, 32, 32, 4>;
static_assert(FewTile::kRows == kFewTileRows);
// Two waves and more of the wider tile: 132 multiprocessors.
constexpr bool has_many_outputs(std::int64_t out, int tile_cols) { return out >= 264 * tile_cols; }

// A tile for so many rows.
template <typename Math, typename Out, bool kAligned>
void launch_rows(const GemmKernelArgs& args, const typename Math::Scales& scales,
                 cudaStream_t stream) {
  const auto by = [&]<typename Tile, bool kSliced>() {
    launch_tiles<Math, Tile, Out, kAligned, false, kSliced>(args, {}, scales, stream);
  };
  const std::int64_t out = args.weight.rows;
  const bool sliced = is_sliced(out);
  if (args.y.rows > 64)
    sliced ? by.template operator()<LargeTileOfSlices, true>()
           : by.template operator()<LargeTile, false>();
  else if (args.y.rows > 16)
    sliced                                        ? by.template operator()<MidTile, true>()
    : has_many_outputs(out, MidTileOfMany::kCols) ? by.template operator()<MidTileOfMany, false>()
                                                  : by.template operator()<MidTile, false>();
  else
    sliced                                        ? by.template operator()<FewTileOfSlices, true>()
    : has_many_outputs(out, FewTileOfMany::kCols) ? by.template operator()<FewTileOfMany, false>()
                                                  : by.template operator()<FewTile, false>();
}

template <typename Math, typename Out, bool kAligned>
void launch_groups(const GemmKernelArgs& args, const GemmGroups& groups,
                   const typename Math::Scales& scales, cudaStream_t stream) {
  const auto by = [&]<typename Tile, bool kSliced>() {
    launch_tiles<Math, Tile, Out, kAligned, true, kSliced>(args, groups, scales, stream);
  };
  const bool sliced = is_sliced(args.weight.rows);
  if (groups.tile_rows == kFewTileRows)
    sliced ? by.template operator()<FewTileOfSlices, true>()
           : by.template operator()<FewTile, false>();
  else
    sliced ? by.template operator()<GroupTileOfMany, true>()
           : by.template operator()<GroupTileOfMany, false>();
}

}  // namespace saccade::cuda
