// Products on tensor cores: bf16 operands, f32 sums. Every tile shape adds the products of an
// output in the same order, 16 at a time along `in`, so a row is the same bits in any batch.
#include "ops/cuda/activate.h"
#include "ops/cuda/grid.h"

namespace saccade::cuda {
namespace {

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

// Rows [first, first + kCount) of a matrix, columns [depth, depth + kDepth), zero where there are
// none.
template <int kCount, int kThreads>
SACCADE_DEVICE void fetch_rows(Bf16* to, const Rows& from, std::int64_t first, std::int64_t depth) {
  const auto* const data = static_cast<const Bf16*>(from.data);
  for (int i = static_cast<int>(threadIdx.x); i < kCount * (kDepth / 8); i += kThreads) {
    const int r = i / (kDepth / 8);
    const int c = i % (kDepth / 8) * 8;
    const std::int64_t row = first + r;
    const std::int64_t left = row < from.rows ? from.cols - (depth + c) : 0;
    const int bytes = static_cast<int>(left >= 8 ? 16 : left > 0 ? 2 * left : 0);
    const Bf16* const source = bytes > 0 ? data + row * from.stride + depth + c : data;
    async_copy(to + r * kStride + c, source, bytes);
  }
}

// The same of a matrix whose rows begin anywhere.
template <int kCount, int kThreads>
SACCADE_DEVICE void copy_rows(Bf16* to, const Rows& from, std::int64_t first, std::int64_t depth) {
  const auto* const data = static_cast<const Bf16*>(from.data);
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kDepth; i += kThreads) {
    const std::int64_t row = first + i / kDepth;
    const std::int64_t col = depth + i % kDepth;
    const bool inside = row < from.rows && col < from.cols;
    to[i / kDepth * kStride + i % kDepth] = inside ? data[row * from.stride + col] : Bf16{0};
  }
}

template <typename Out>
SACCADE_DEVICE void finish(const GemmKernelArgs& args, std::int64_t row, std::int64_t col,
                           float sum) {
  if (row >= args.y.rows || col >= args.y.cols) return;
  if (args.bias != nullptr) sum += args.bias[col];
  if (args.activation != Activation::kNone) sum = activate_by_call(args.activation, sum);
  if (args.residual.data != nullptr)
    sum += widen(static_cast<const Out*>(args.residual.data)[row * args.residual.stride + col]);
  narrow(sum, static_cast<Out*>(args.y.data)[row * args.y.stride + col]);
}

template <typename Tile, typename Out, bool kAligned>
__global__ void __launch_bounds__(Tile::kThreads) gemm_kernel(GemmKernelArgs args) {
  SACCADE_DYNAMIC_SHARED(Bf16, shared);
  constexpr int kStage = (Tile::kRows + Tile::kCols) * kStride;
  constexpr int kRowTiles = Tile::kWarpRows / 16;
  constexpr int kColTiles = Tile::kWarpCols / 8;
  static_assert(kColTiles % 2 == 0);
  const std::int64_t first_row = std::int64_t{blockIdx.y} * Tile::kRows;
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
        fetch_rows<Tile::kRows, Tile::kThreads>(stage, args.x, first_row, depth);
      else
        copy_rows<Tile::kRows, Tile::kThreads>(stage, args.x, first_row, depth);
      fetch_rows<Tile::kCols, Tile::kThreads>(stage + Tile::kRows * kStride, args.weight, first_col,
                                              depth);
    }
    async_commit();
  };

  float sums[kRowTiles][kColTiles][4] = {};
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
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < kColTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        finish<Out>(args, first_row + warp_row + i * 16 + lane / 4 + e / 2 * 8,
                    first_col + warp_col + j * 8 + lane % 4 * 2 + e % 2, sums[i][j][e]);
}

template <typename Tile, typename Out>
void launch(const GemmKernelArgs& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((args.y.cols + Tile::kCols - 1) / Tile::kCols),
                  static_cast<unsigned>((args.y.rows + Tile::kRows - 1) / Tile::kRows));
  const bool aligned_rows =
      reinterpret_cast<std::uintptr_t>(args.x.data) % 16 == 0 && args.x.stride % 8 == 0;
  if (aligned_rows)
    SACCADE_LAUNCH((gemm_kernel<Tile, Out, true>), grid, dim3(Tile::kThreads), Tile::kSharedBytes,
                   stream, args);
  else
    SACCADE_LAUNCH((gemm_kernel<Tile, Out, false>), grid, dim3(Tile::kThreads), Tile::kSharedBytes,
                   stream, args);
}

using LargeTile = Tile<128, 128, 64, 32>;
using SmallTile = Tile<16, 64, 16, 16>;  // a few rows: the weight is read once, that is all

}  // namespace

void launch_gemm(const GemmKernelArgs& args, cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  if (args.x.type != DType::kBf16 || args.weight.type != DType::kBf16) {
    launch_gemm_f32(args, stream);
    return;
  }
  if (args.y.type == DType::kBf16)
    args.y.rows > 64 ? launch<LargeTile, Bf16>(args, stream)
                     : launch<SmallTile, Bf16>(args, stream);
  else
    args.y.rows > 64 ? launch<LargeTile, float>(args, stream)
                     : launch<SmallTile, float>(args, stream);
}

}  // namespace saccade::cuda
