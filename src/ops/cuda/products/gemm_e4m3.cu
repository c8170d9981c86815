// Products of E4M3 by E4M3: both operands come to shared memory as bytes, become pairs of bf16 in
// registers, which loses nothing, and are multiplied by mma.sync of bf16 with f32 sums. Tensor
// cores multiply E4M3 at twice the rate, but not before compute capability 8.9, and Hopper's keep
// but some 14 bits of such a sum (arXiv:2412.19437, 3.3.2).
//
// Every tile shape adds in the same order: 16 products of an output at a time along `in` (of each
// 32 bytes the odd ones, then the even ones), then its groups. A row is the same bits in any batch.
#include "ops/cuda/codes/code_pairs.h"
#include "ops/cuda/products/e4m3_kernels.h"
#include "ops/cuda/products/gemm_rows.h"

namespace saccade::cuda {
namespace {

constexpr int kStepInputs = 32;  // of an ldmatrix
constexpr int kStepWords = kStepInputs / 2;

// A block's tile of y, and how its warps share it; kDepth: words of two codes in a stage.
template <int kRows_, int kCols_, int kWarpRows_, int kWarpCols_, int kDepth_, int kStages_>
struct Tile {
  static constexpr int kRows = kRows_;
  static constexpr int kCols = kCols_;
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kWarpCols = kWarpCols_;
  static constexpr int kDepth = kDepth_;
  static constexpr int kStages = kStages_;
  static constexpr int kThreads = 32 * (kRows / kWarpRows) * (kCols / kWarpCols);
  static constexpr int kStride = kDepth + 8;  // of rows in shared memory: no bank is met twice
  static constexpr int kStage = (kRows + kCols) * kStride;
  static constexpr int kSharedBytes = kStages * kStage * 2;
  static_assert(kSharedBytes <= 101376);
  // Operands are read while the products before them are made where few of those hide it.
  static constexpr bool kAhead = kWarpRows * kWarpCols <= 32 * 16;
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
__global__ void __launch_bounds__(Tile::kThreads, 1)
    gemm_e4m3_kernel(GemmE4m3KernelArgs args, GemmKernelArgs ends, GemmGroups groups) {
  SACCADE_DYNAMIC_SHARED(Bf16, shared);
  constexpr int kDepth = Tile::kDepth;
  constexpr int kStride = Tile::kStride;
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
  const auto words = static_cast<int>((weight.cols + 1) / 2);
  const int steps = (words + kDepth - 1) / kDepth;

  const auto thread = static_cast<int>(threadIdx.x);
  RowPieces<Tile::kRows, Tile::kThreads, kDepth, kStride, false> of_rows(
      thread, x_words, args.x.stride / 2, rows.first, rows.end, 0, of_x);
  RowPieces<Tile::kCols, Tile::kThreads, kDepth, kStride, true> of_cols(
      thread, codes, weight.stride / 2, first_col, weight.rows, 0, itself);
  const auto fetch_last = [&](int left, Bf16* stage) {
    of_rows.fetch_last(stage, left);
    of_cols.fetch_last(stage + Tile::kRows * kStride, left);
  };

  // The scales of this lane's sums: of the group at hand, and of the next, which are on their way
  // meanwhile.
  struct OfGroup {
    float row[kRowTiles][2];
    float col[kColTiles][2];
  };
  OfGroup now;
  OfGroup next_group;
  // Where those of the first group are.
  std::int64_t row_at[kRowTiles][2];
  std::int64_t col_at[kColTiles][2];
#pragma unroll
  for (int e = 0; e < 2; ++e) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const std::int64_t row = rows.first + warp_row + i * 16 + lane / 4 + e * 8;
      row_at[i][e] = rows.of_x(smaller(row, rows.end - 1));
    }
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
      const std::int64_t col = first_col + warp_col + j * 8 + lane % 4 * 2 + e;
      col_at[j][e] = weight.places.of(smaller(col, weight.rows - 1), 0);
    }
  }
  const auto take_group = [&](OfGroup& of, std::int64_t which) {
    const std::int64_t group = smaller(which, weight.groups - 1);
    const float* const of_rows_then = args.x.scales + group * args.x.group_step;
    const float* const of_cols_then = scales + group * weight.places.group_step;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) of.row[i][e] = of_rows_then[row_at[i][e]];
#pragma unroll
      for (int j = 0; j < kColTiles; ++j) of.col[j][e] = of_cols_then[col_at[j][e]];
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
          totals[i][j][e] += sums[i][j][e] * (now.row[i][e / 2] * now.col[j][e % 2]);
          sums[i][j][e] = 0;
        }
  };

  take_group(now, 0);
  if (weight.groups > 1) take_group(next_group, 1);
  std::int64_t group = 0;
  const int group_steps =
      weight.groups > 1 ? weight.group_steps / 2 : std::numeric_limits<int>::max();
  int left = group_steps;
  Bf16* const stages_end = shared + Tile::kStages * Tile::kStage;
  const auto after = [&](Bf16* stage) {
    return stage + Tile::kStage == stages_end ? shared : stage + Tile::kStage;
  };
  Bf16* filled = shared;
  for (int step = 0; step < Tile::kStages - 1; ++step, filled += Tile::kStage) {
    const int left_words = words - step * kDepth;
    if (left_words >= kDepth) {
      of_rows.fetch(filled);
      of_cols.fetch(filled + Tile::kRows * kStride);
    } else if (left_words > 0) {
      fetch_last(left_words, filled);
    }
    async_commit();
  }
  Bf16* stage = shared;
  for (int step = 0; step < steps; ++step) {
    async_wait<Tile::kStages - 2>();
    __syncthreads();  // this stage is there for all, and all have left the one to be filled next
    const int next = words - (step + Tile::kStages - 1) * kDepth;  // words left for it
    if (next > 0 && next < kDepth) fetch_last(next, filled);
    const Bf16* const x = stage + (warp_row + lane % 16) * kStride + lane / 16 * 8;
    const Bf16* const w =
        stage + (Tile::kRows + warp_col + lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
    // Behind the last input no group ends.
    const int here = (smaller(kDepth, words - step * kDepth) + kStepWords - 1) / kStepWords;
    constexpr int kParts = kDepth / kStepWords;
    constexpr int kBuffers = Tile::kAhead ? 2 : 1;
    std::uint32_t of_x_rows[kBuffers][kRowTiles][4];
    std::uint32_t of_outputs[kBuffers][kColTiles / 2][4];
    const auto load = [&](int k) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i)
        ldmatrix(of_x_rows[k % kBuffers][i], x + i * 16 * kStride + k * kStepWords);
#pragma unroll
      for (int j = 0; j < kColTiles / 2; ++j)
        ldmatrix(of_outputs[k % kBuffers][j], w + j * 16 * kStride + k * kStepWords);
    };
    if (Tile::kAhead) load(0);
#pragma unroll
    for (int k = 0; k < kParts; ++k) {
      if (k >= here) break;
      if (!Tile::kAhead)
        load(k);
      else if (k + 1 < kParts)
        load(k + 1);
      std::uint32_t a[kRowTiles][2][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) widen_words(of_x_rows[k % kBuffers][i], a[i]);
#pragma unroll
      for (int j = 0; j < kColTiles; j += 2) {
        std::uint32_t b[2][4];
        widen_words(of_outputs[k % kBuffers][j / 2], b);
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
      fetch_part<kParts>(k, of_rows, of_cols, filled, filled + Tile::kRows * kStride, true,
                         next >= kDepth);
      if (--left == 0) {
        end_group();
        now = next_group;
        take_group(next_group, ++group + 1);
        left = group_steps;
      }
    }
    async_commit();
    filled = after(filled);
    stage = after(stage);
  }
  if (left != group_steps) end_group();
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
  // As gemm_tiles.h has them.
  using Few = Tile<kFewTileRows, 32, 16, 16, 128, 6>;
  using FewOfMany = Tile<kFewTileRows, 64, 16, 16, 128, 3>;
  using Mid = Tile<64, 32, 32, 16, 64, 7>;
  using Many = Tile<kManyTileRows, 128, 32, 32, 32, 4>;
  const auto by = [&]<typename Tile>() { launch_tiles<Tile, Out, kGrouped>(args, groups, stream); };
  if constexpr (kGrouped) {
    groups.tile_rows == kFewTileRows ? by.template operator()<Few>()
                                     : by.template operator()<Many>();
  } else if (args.y.rows <= 16) {
    args.y.cols < 264 * 64 ? by.template operator()<Few>() : by.template operator()<FewOfMany>();
  } else {
    args.y.rows <= 64 && args.y.cols < 132 * 128 ? by.template operator()<Mid>()
                                                 : by.template operator()<Many>();
  }
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
