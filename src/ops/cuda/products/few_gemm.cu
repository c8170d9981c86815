#include "ops/cuda/products/few_gemm.h"
#include "ops/cuda/products/gemm_tiles.h"
#include "ops/cuda/rows/norm_sum.h"

namespace saccade::cuda {
namespace {

constexpr std::int64_t kMaxRows = 16;
// 16 bytes of x that a thread may have to normalise, one trip to the L2 cache after the other.
constexpr std::int64_t kMaxNormPacks = 16;
constexpr int kNormWarps = kNormBlock / 32;
constexpr int kColsUnit = 128;  // of x in shared memory: whole stages of every tile

// As FewTileOfSlices, FewTile and FewTileOfMany, without the rows of x.
template <typename Of>
struct FewStages {
  static constexpr int kCols = Of::kCols;
  static constexpr int kDepth = Of::kDepth;
  static constexpr int kStride = Of::kStride;
  static constexpr int kStages = Of::kStages;
  static constexpr int kSlices = Of::kSlices;
  static constexpr int kSliceThreads = Of::kSliceThreads;
  static constexpr int kThreads = Of::kThreads;
  static constexpr int kSliceStage = kCols * kStride;
  static constexpr int kStage = kSlices * kSliceStage;
  static constexpr int kBytes = kStages * kStage * 2;
  static_assert(Of::kWarpRows == 16 && Of::kWarpCols == 16 && kColsUnit % kDepth == 0);
};

constexpr std::int64_t columns_in_shared(std::int64_t in) {
  return (in + kColsUnit - 1) / kColsUnit * kColsUnit;
}
// From row to row: no bank is met twice.
constexpr std::int64_t stride_in_shared(std::int64_t in) { return columns_in_shared(in) + 8; }

// The rows of x, or of its norm, and zeros behind them. Wants a barrier before they are read.
SACCADE_DEVICE void put_rows(const FewGemmKernelArgs& args, Bf16* to, float* squares) {
  const auto in = static_cast<int>(args.gemm.x.cols);
  const auto rows = static_cast<int>(args.gemm.y.rows);
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  const auto row_of = [&](int row) {
    return static_cast<const Bf16*>(args.gemm.x.data) + row * args.gemm.x.stride;
  };
  const int sharing = norm_threads(in, kPack);
  const int warps = sharing / 32;
  if (args.norm != nullptr) {
    for (int job = thread / 32; job < rows * warps; job += threads / 32) {
      const float sum =
          warp_squares<kPack>(row_of(job / warps), in, job % warps, thread % 32, sharing);
      if (thread % 32 == 0) squares[job] = sum;
    }
    __syncthreads();
  }
  const auto stride = static_cast<int>(stride_in_shared(in));
  for (int row = 0; row < rows; ++row) {
    const Bf16* const from = row_of(row);
    float scale = 1;
    if (args.norm != nullptr) {
      float sum = warps == 1 ? squares[row] : 0;
      for (int warp = 0; warps > 1 && warp < warps; ++warp)
        sum = add_apart(sum, squares[row * warps + warp]);
      scale = norm_scale(sum, in, args.epsilon);
    }
    for (int col = thread * kPack; col < stride - 8; col += threads * kPack) {
      float values[kPack] = {};
      if (col < in) {
        load(from + col, values);
        if (args.norm != nullptr)
#pragma unroll
          for (int i = 0; i < kPack; ++i)
            values[i] = normalised(values[i], scale, args.offset + args.norm[col + i], 0);
      }
      store(values, to + row * stride + col);
    }
  }
}

template <typename Tile, bool kGated>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    few_gemm_kernel(FewGemmKernelArgs args, int slice) {
  SACCADE_DYNAMIC_SHARED(Bf16, shared);
  constexpr int kDepth = Tile::kDepth;
  constexpr int kStride = Tile::kStride;
  Bf16* const x_rows = shared + Tile::kStages * Tile::kStage;
  const auto in = static_cast<int>(args.gemm.x.cols);
  const auto rows = static_cast<int>(args.gemm.y.rows);
  const auto x_stride = static_cast<int>(stride_in_shared(in));
  auto* const squares = reinterpret_cast<float*>(x_rows + rows * x_stride);
  const int my_slice = static_cast<int>(threadIdx.x) / Tile::kSliceThreads;
  const int thread = static_cast<int>(threadIdx.x) % Tile::kSliceThreads;
  const int warp_col = thread / 32 * 16;
  const int lane = thread % 32;
  const int begin = Tile::kSlices > 1 ? my_slice * slice : 0;
  const int end = Tile::kSlices > 1 ? smaller(begin + slice, in) : in;
  const int steps = ((Tile::kSlices > 1 ? smaller(slice, in) : in) + kDepth - 1) / kDepth;
  const int my_steps = Tile::kSlices > 1 ? larger(0, end - begin + kDepth - 1) / kDepth : steps;
  const auto left_at = [&](int step) { return end - begin - step * kDepth; };

  // Of 16 rows of the weight in a stage the first 8 are the gate's, the others the same of up: a
  // lane has the sums of both.
  const std::int64_t outputs = args.gemm.y.cols;
  const std::int64_t first_col =
      std::int64_t{blockIdx.x} * (kGated ? Tile::kCols / 2 : Tile::kCols);
  const auto weight_row = [&](std::int64_t at) {
    if (!kGated) return smaller(first_col + at, outputs - 1);
    const std::int64_t col = smaller(first_col + at / 16 * 8 + at % 8, outputs - 1);
    return at % 16 < 8 ? col : outputs + col;
  };
  using Pieces = RowPieces<Tile::kCols, Tile::kSliceThreads, kDepth, kStride, true>;
  Pieces pieces(thread, static_cast<const Bf16*>(args.gemm.weight.data), args.gemm.weight.stride, 0,
                Tile::kCols, begin, weight_row);

  Bf16* const stages = shared + my_slice * Tile::kSliceStage;
  Bf16* const stages_end = stages + Tile::kStages * Tile::kStage;
  const auto after = [&](Bf16* stage) {
    return stage + Tile::kStage == stages_end ? stages : stage + Tile::kStage;
  };
  Bf16* filled = stages;
  for (int step = 0; step < Tile::kStages - 1; ++step, filled += Tile::kStage) {
    if (step < my_steps)
      left_at(step) >= kDepth ? pieces.fetch(filled) : pieces.fetch_last(filled, left_at(step));
    async_commit();
  }
  put_rows(args, x_rows, squares);

  float sums[2][4] = {};
  Bf16* stage = stages;
  for (int step = 0; step < steps; ++step) {
    async_wait<Tile::kStages - 2>();
    __syncthreads();  // this stage is there for all, and all have left the one to be filled next
    const int next = step + Tile::kStages - 1;
    const bool whole = next < my_steps && left_at(next) >= kDepth;
    if (next < my_steps && !whole) pieces.fetch_last(filled, left_at(next));
    if (Tile::kSlices > 1 && step >= my_steps) {
      async_commit();
      continue;
    }
    // Rows that are not there are operands of outputs that nobody writes.
    const Bf16* const x =
        x_rows + smaller(lane % 16, rows - 1) * x_stride + begin + step * kDepth + lane / 16 * 8;
    const Bf16* const w =
        stage + (warp_col + lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
    std::uint32_t a[2][4];
    std::uint32_t b[2][4];
    ldmatrix(a[0], x);
    ldmatrix(b[0], w);
    constexpr int kParts = kDepth / 16;
#pragma unroll
    for (int k = 0; k < kParts; ++k) {
      if (k + 1 < kParts) {
        ldmatrix(a[(k + 1) % 2], x + (k + 1) * 16);
        ldmatrix(b[(k + 1) % 2], w + (k + 1) * 16);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const std::uint32_t of_output[2] = {b[k % 2][2 * j], b[k % 2][2 * j + 1]};
        mma(sums[j], a[k % 2], of_output);
      }
#pragma unroll
      for (int n = k * Pieces::kRounds / kParts; n < (k + 1) * Pieces::kRounds / kParts; ++n)
        pieces.fetch(filled, n, whole);
    }
    async_commit();
    filled = after(filled);
    stage = after(stage);
  }
  if constexpr (Tile::kSlices > 1) {
    // What each warp has, to the one that has the first slice of the same outputs.
    auto* const others = reinterpret_cast<float*>(shared);
    async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 8; ++n)
      if (my_slice > 0)
        others[((my_slice - 1) * 8 + n) * Tile::kSliceThreads + thread] = sums[n / 4][n % 4];
    __syncthreads();
    if (my_slice > 0) return;
    for (int other = 1; other * slice < in; ++other)
#pragma unroll
      for (int n = 0; n < 8; ++n)
        sums[n / 4][n % 4] += others[((other - 1) * 8 + n) * Tile::kSliceThreads + thread];
  }

#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const std::int64_t row = lane / 4 + e / 2 * 8;
    if (row >= rows) continue;
    if constexpr (kGated) {
      const std::int64_t col = first_col + warp_col / 2 + lane % 4 * 2 + e % 2;
      if (col >= outputs) continue;
      float pair[2] = {sums[0][e], sums[1][e]};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (args.gemm.bias != nullptr) pair[i] += args.gemm.bias[i * outputs + col];
        // A product of its own would store its result.
        Bf16 stored;
        narrow(pair[i], stored);
        pair[i] = widen(stored);
      }
      narrow(activate_by_call(args.gemm.activation, pair[0]) * pair[1],
             static_cast<Bf16*>(args.gemm.y.data)[row * args.gemm.y.stride + col]);
    } else {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const std::int64_t col = first_col + warp_col + j * 8 + lane % 4 * 2 + e % 2;
        if (col < outputs) finish<Bf16>(args.gemm, row, col, sums[j][e]);
      }
    }
  }
}

// Calls `with` with the tile that launch_gemm() has for such a weight.
template <typename With>
auto with_tile(const FewGemmKernelArgs& args, const With& with) {
  const std::int64_t out = args.gemm.weight.rows;
  if (is_sliced(out)) return with(FewStages<FewTileOfSlices>{});
  if (has_many_outputs(out, FewTileOfMany::kCols)) return with(FewStages<FewTileOfMany>{});
  return with(FewStages<FewTile>{});
}

template <typename Tile>
std::int64_t shared_bytes(const FewGemmKernelArgs& args) {
  return Tile::kBytes + args.gemm.y.rows * (stride_in_shared(args.gemm.x.cols) * 2 +
                                            kNormWarps * std::int64_t{sizeof(float)});
}

bool begins_aligned(const Rows& rows) {
  return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && rows.stride % kPack == 0;
}

}  // namespace

bool takes_few_gemm(const FewGemmKernelArgs& args) {
  const GemmKernelArgs& gemm = args.gemm;
  if (gemm.x.type != DType::kBf16 || gemm.weight.type != DType::kBf16 ||
      gemm.y.type != DType::kBf16 || gemm.y.rows < 1 || gemm.y.rows > kMaxRows ||
      !aligned(gemm.x, kPack) || !begins_aligned(gemm.weight))
    return false;
  if (args.gated && gemm.residual.data != nullptr) return false;
  return with_tile(args, [&](auto tile) {
    const std::int64_t packs = gemm.y.rows * (gemm.x.cols / kPack);
    // What every GPU has (gemm_tiles.h).
    return shared_bytes<decltype(tile)>(args) <= 101376 &&
           (args.norm == nullptr || packs <= kMaxNormPacks * tile.kThreads);
  });
}

void launch_few_gemm(const FewGemmKernelArgs& args, cudaStream_t stream) {
  const auto slice = static_cast<int>(slice_of(args.gemm.weight.rows, args.gemm.x.cols));
  with_tile(args, [&](auto tile) {
    using Tile = decltype(tile);
    const int cols = args.gated ? Tile::kCols / 2 : Tile::kCols;
    const dim3 grid(static_cast<unsigned>((args.gemm.y.cols + cols - 1) / cols));
    const auto bytes = static_cast<std::size_t>(shared_bytes<Tile>(args));
    if (args.gated)
      SACCADE_LAUNCH((few_gemm_kernel<Tile, true>), grid, dim3(Tile::kThreads), bytes, stream, args,
                     slice);
    else
      SACCADE_LAUNCH((few_gemm_kernel<Tile, false>), grid, dim3(Tile::kThreads), bytes, stream,
                     args, slice);
  });
}

}  // namespace saccade::cuda
