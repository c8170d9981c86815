// Products of E4M3 by E4M3: both operands come to shared memory as bytes, become pairs of bf16 in
// registers, which loses nothing, and are multiplied by mma.sync of bf16 with f32 sums. Tensor
// cores multiply E4M3 at twice the rate, but not before compute capability 8.9, and Hopper's keep
// but some 14 bits of such a sum (arXiv:2412.19437, 3.3.2).
//
// Every tile shape adds in the same order: 16 products of an output at a time along `in` (of each
// 32 bytes the odd ones, then the even ones), then its groups. A row is the same bits in any batch.
#include "ops/cuda/code_pairs.h"
#include "ops/cuda/e4m3_kernels.h"
#include "ops/cuda/gemm_rows.h"

namespace saccade::cuda {
namespace {

constexpr int kDepth = 32;           // words of two codes in a stage
constexpr int kStride = kDepth + 8;  // of its rows in shared memory: no bank is met twice
constexpr int kStages = 4;
constexpr int kStepInputs = 32;  // of an ldmatrix

using Stage = StageOfRows<kDepth, kStride>;

template <int kRows_, int kCols_, int kWarpRows_, int kWarpCols_>
struct Tile {
  static constexpr int kRows = kRows_;
  static constexpr int kCols = kCols_;
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kWarpCols = kWarpCols_;
  static constexpr int kThreads = 32 * (kRows / kWarpRows) * (kCols / kWarpCols);
  static constexpr int kSharedBytes = kStages * (kRows + kCols) * kStride * 2;
};

// Bytes 1 and 3 of each word, and 0 and 2, as the operands of two mma(): the same inputs of x and
// of the weight, whichever these are.
template <int kWords>
SACCADE_DEVICE void widen_words(const std::uint32_t (&words)[kWords],
                                std::uint32_t (&pairs)[2][kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    pairs[0][i] = e4m3_pair(words[i]);
    pairs[1][i] = e4m3_pair(words[i] << 8);
  }
}

template <typename Tile, typename Out, bool kGrouped>
__global__ void __launch_bounds__(Tile::kThreads)
    gemm_e4m3_kernel(GemmE4m3KernelArgs args, GemmKernelArgs ends, GemmGroups groups) {
  SACCADE_DYNAMIC_SHARED(Bf16, shared);
  constexpr int kStage = (Tile::kRows + Tile::kCols) * kStride;
  constexpr int kRowTiles = Tile::kWarpRows / 16;
  constexpr int kColTiles = Tile::kWarpCols / 8;
  static_assert(kColTiles % 2 == 0);
  const CodedRows& weight = args.weight;
  const BlockTile tile;
  const BlockRows<kGrouped> rows(tile.row, args.y.rows, groups, Tile::kRows);
  if (rows.none()) return;
  const auto* const x_words = reinterpret_cast<const Bf16*>(args.x.codes);
  const auto* codes = reinterpret_cast<const Bf16*>(weight.codes);
  const float* scales = weight.scales;
  if constexpr (kGrouped) {
    codes = static_cast<const Bf16*>(groups.weights[rows.group].data);
    scales = groups.weights[rows.group].scales;
  }
  const auto of_x = [&](std::int64_t row) { return rows.of_x(row); };
  const auto itself = [](std::int64_t row) { return row; };
  const std::int64_t first_col = tile.col * Tile::kCols;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / (Tile::kCols / Tile::kWarpCols) * Tile::kWarpRows;
  const int warp_col = warp % (Tile::kCols / Tile::kWarpCols) * Tile::kWarpCols;
  const std::int64_t words = (weight.cols + 1) / 2;
  const auto steps = static_cast<int>((words + kDepth - 1) / kDepth);

  const auto fetch = [&](int step) {
    if (step < steps) {
      Bf16* const stage = shared + step % kStages * kStage;
      const std::int64_t depth = std::int64_t{step} * kDepth;
      Stage::fetch<Tile::kRows, Tile::kThreads>(stage, x_words, args.x.stride / 2, words,
                                                rows.first, rows.end, depth, of_x);
      Stage::fetch<Tile::kCols, Tile::kThreads>(stage + Tile::kRows * kStride, codes,
                                                weight.stride / 2, words, first_col, weight.rows,
                                                depth, itself);
    }
    async_commit();
  };

  // Of the group at hand: the scales of this lane's sums.
  float of_row[kRowTiles][2];
  float of_col[kColTiles][2];
  const auto take_group = [&](std::int64_t which) {
    const std::int64_t group = smaller(which, weight.groups - 1);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const std::int64_t row = rows.first + warp_row + i * 16 + lane / 4 + e * 8;
        of_row[i][e] =
            args.x.scales[group * args.x.group_step + rows.of_x(smaller(row, rows.end - 1))];
      }
#pragma unroll
    for (int j = 0; j < kColTiles; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const std::int64_t col = first_col + warp_col + j * 8 + lane % 4 * 2 + e;
        of_col[j][e] = scales[weight.places.of(smaller(col, weight.rows - 1), group)];
      }
  };
  float totals[kRowTiles][kColTiles][4] = {};
  float sums[kRowTiles][kColTiles][4] = {};
  const auto end_group = [&] {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kColTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          totals[i][j][e] += sums[i][j][e] * (of_row[i][e / 2] * of_col[j][e % 2]);
          sums[i][j][e] = 0;
        }
  };

  take_group(0);
  std::int64_t group = 0;
  const int group_steps =
      weight.groups > 1 ? weight.group_steps / 2 : std::numeric_limits<int>::max();
  int left = group_steps;
  for (int step = 0; step < kStages - 1; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    async_wait<kStages - 2>();
    __syncthreads();  // this stage is there for all, and all have left the one to be filled next
    fetch(step + kStages - 1);
    const Bf16* const x = shared + step % kStages * kStage + warp_row * kStride;
    const Bf16* const w = shared + step % kStages * kStage + (Tile::kRows + warp_col) * kStride;
#pragma unroll
    for (int k = 0; k < kDepth; k += kStepInputs / 2) {
      std::uint32_t a[kRowTiles][2][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        std::uint32_t of_x_rows[4];
        ldmatrix(of_x_rows, x + (i * 16 + lane % 16) * kStride + k + lane / 16 * 8);
        widen_words(of_x_rows, a[i]);
      }
#pragma unroll
      for (int j = 0; j < kColTiles; j += 2) {
        std::uint32_t of_outputs[4];
        ldmatrix(of_outputs,
                 w + (j * 8 + lane / 16 * 8 + lane % 8) * kStride + k + lane / 8 % 2 * 8);
        std::uint32_t b[2][4];
        widen_words(of_outputs, b);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t left_pairs[2] = {b[half][0], b[half][1]};
          const std::uint32_t right_pairs[2] = {b[half][2], b[half][3]};
#pragma unroll
          for (int i = 0; i < kRowTiles; ++i) {
            mma(sums[i][j], a[i][half], left_pairs);
            mma(sums[i][j + 1], a[i][half], right_pairs);
          }
        }
      }
      if (--left == 0) {
        end_group();
        take_group(++group);
        left = group_steps;
      }
    }
  }
  end_group();
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < kColTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const std::int64_t row = rows.first + warp_row + i * 16 + lane / 4 + e / 2 * 8;
        const std::int64_t col = first_col + warp_col + j * 8 + lane % 4 * 2 + e % 2;
        if (row < rows.end && col < args.y.cols) finish<Out>(ends, row, col, totals[i][j][e]);
      }
}

template <typename Tile, typename Out, bool kGrouped>
void launch_tiles(const GemmE4m3KernelArgs& args, const GemmGroups& groups, cudaStream_t stream) {
  const std::int64_t row_tiles =
      kGrouped ? groups.tile_count : (args.y.rows + Tile::kRows - 1) / Tile::kRows;
  const dim3 grid(static_cast<unsigned>((args.y.cols + Tile::kCols - 1) / Tile::kCols),
                  static_cast<unsigned>(row_tiles));
  GemmKernelArgs ends;
  ends.bias = args.bias;
  ends.activation = args.activation;
  ends.residual = args.residual;
  ends.y = args.y;
  SACCADE_LAUNCH((gemm_e4m3_kernel<Tile, Out, kGrouped>), grid, dim3(Tile::kThreads),
                 Tile::kSharedBytes, stream, args, ends, groups);
}

template <typename Out, bool kGrouped>
void launch_as(const GemmE4m3KernelArgs& args, const GemmGroups& groups, cudaStream_t stream) {
  using Few = Tile<kFewTileRows, 64, 16, 16>;
  using Many = Tile<kManyTileRows, 128, 32, 32>;
  const bool few = kGrouped ? groups.tile_rows == kFewTileRows : args.y.rows <= 32;
  few ? launch_tiles<Few, Out, kGrouped>(args, groups, stream)
      : launch_tiles<Many, Out, kGrouped>(args, groups, stream);
}

template <bool kGrouped>
void launch(const GemmE4m3KernelArgs& args, const GemmGroups& groups, cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  if (args.y.type == DType::kBf16)
    launch_as<Bf16, kGrouped>(args, groups, stream);
  else
    launch_as<float, kGrouped>(args, groups, stream);
}

}  // namespace

void launch_gemm_e4m3(const GemmE4m3KernelArgs& args, cudaStream_t stream) {
  launch<false>(args, {}, stream);
}

void launch_grouped_gemm_e4m3(const GemmE4m3KernelArgs& args, const GemmGroups& groups,
                              cudaStream_t stream) {
  launch<true>(args, groups, stream);
}

}  // namespace saccade::cuda
