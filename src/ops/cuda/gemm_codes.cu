// Products of bf16 rows with weights that are kept as codes: tensor cores multiply what a code
// stands for but its scale, which is a bf16 without rounding; f32 sums of one group's inputs get
// the group's scale. So a weight is never rounded, and of its memory only the codes are read.
//
// Every tile shape adds in the same order: 16 products of an output at a time along `in`, then its
// groups. A row is the same bits in any batch.
#include "ops/cuda/code_forms.h"
#include "ops/cuda/code_kernels.h"
#include "ops/cuda/gemm_rows.h"

namespace saccade::cuda {
namespace {

constexpr int kDepth = kCodeChunk;   // inputs of a stage
constexpr int kStride = kDepth + 8;  // of x's rows in shared memory: no bank is met twice
constexpr int kStages = 4;
constexpr int kSteps = kDepth / 16;

using Stage = StageOfRows<kDepth, kStride>;

template <typename Form, int kRows_, int kCols_, int kWarpRows_, int kWarpCols_>
struct Tile {
  static constexpr int kRows = kRows_;
  static constexpr int kCols = kCols_;
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kWarpCols = kWarpCols_;
  static constexpr int kThreads = 32 * (kRows / kWarpRows) * (kCols / kWarpCols);
  static constexpr int kXBytes = kRows * kStride * 2;
  static constexpr int kStageBytes = kXBytes + kCols * Form::kChunkBytes;
};

// Chunk `step` of outputs [first, first + kCount); zero where there are none.
template <int kCount, int kThreads, int kChunkBytes>
SACCADE_DEVICE void fetch_codes(std::byte* to, const std::byte* codes, const CodedRows& weight,
                                std::int64_t first, int step) {
  constexpr int kPieces = kChunkBytes / 16;
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kPieces; i += kThreads) {
    const std::int64_t out = first + i / kPieces;
    const bool inside = out < weight.rows;
    const std::int64_t at =
        out * weight.stride + std::int64_t{step} * kChunkBytes + i % kPieces * 16;
    async_copy(to + i * 16, inside ? codes + at : codes, inside ? 16 : 0);
  }
}

template <typename Form, typename Tile, typename Out, bool kGrouped>
__global__ void __launch_bounds__(Tile::kThreads)
    gemm_codes_kernel(GemmKernelArgs args, CodedRows weight, GemmGroups groups, bool aligned) {
  SACCADE_DYNAMIC_SHARED(std::byte, shared);
  constexpr int kRowTiles = Tile::kWarpRows / 16;
  constexpr int kColTiles = Tile::kWarpCols / 8;
  const BlockTile tile;
  const BlockRows<kGrouped> rows(tile.row, args.y.rows, groups, Tile::kRows);
  if (rows.none()) return;
  const auto* const x_data = static_cast<const Bf16*>(args.x.data);
  const std::byte* codes = weight.codes;
  const float* scales = weight.scales;
  const std::uint8_t* zeros = weight.zeros;
  if constexpr (kGrouped) {
    codes = static_cast<const std::byte*>(groups.weights[rows.group].data);
    scales = groups.weights[rows.group].scales;
    zeros = groups.weights[rows.group].zeros;
  }
  const auto of_x = [&](std::int64_t row) { return rows.of_x(row); };
  const std::int64_t first_col = tile.col * Tile::kCols;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / (Tile::kCols / Tile::kWarpCols) * Tile::kWarpRows;
  const int warp_col = warp % (Tile::kCols / Tile::kWarpCols) * Tile::kWarpCols;
  const auto steps = static_cast<int>((args.x.cols + kDepth - 1) / kDepth);

  const auto fetch = [&](int step) {
    if (step < steps) {
      std::byte* const stage = shared + step % kStages * Tile::kStageBytes;
      const std::int64_t depth = std::int64_t{step} * kDepth;
      auto* const x = reinterpret_cast<Bf16*>(stage);
      if (aligned)
        Stage::fetch<Tile::kRows, Tile::kThreads>(x, x_data, args.x.stride, args.x.cols, rows.first,
                                                  rows.end, depth, of_x);
      else
        Stage::copy<Tile::kRows, Tile::kThreads>(x, x_data, args.x.stride, args.x.cols, rows.first,
                                                 rows.end, depth, of_x);
      fetch_codes<Tile::kCols, Tile::kThreads, Form::kChunkBytes>(stage + Tile::kXBytes, codes,
                                                                  weight, first_col, step);
    }
    async_commit();
  };

  // Of the group at hand: the outputs of this lane's sums, and of its codes.
  float scale[kColTiles][2];
  std::uint32_t zero[kColTiles] = {};
  const auto take_group = [&](std::int64_t group) {
    const std::int64_t at = smaller(group, weight.groups - 1) * weight.rows;
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
      const std::int64_t col = first_col + warp_col + j * 8;
#pragma unroll
      for (int e = 0; e < 2; ++e)
        scale[j][e] = scales[at + smaller(col + lane % 4 * 2 + e, weight.rows - 1)];
      if constexpr (Form::kZeros)
        zero[j] = Form::pair_of_zero(zeros[at + smaller(col + lane / 4, weight.rows - 1)]);
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
          totals[i][j][e] += sums[i][j][e] * scale[j][e % 2];
          sums[i][j][e] = 0;
        }
  };

  take_group(0);
  std::int64_t group = 0;
  int left = weight.group_steps;
  for (int step = 0; step < kStages - 1; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    async_wait<kStages - 2>();
    __syncthreads();  // this stage is there for all, and all have left the one to be filled next
    fetch(step + kStages - 1);
    const std::byte* const stage = shared + step % kStages * Tile::kStageBytes;
    const Bf16* const x = reinterpret_cast<const Bf16*>(stage) + warp_row * kStride;
    const auto* const mine =
        reinterpret_cast<const std::uint32_t*>(stage + Tile::kXBytes +
                                               (warp_col + lane / 4) * Form::kChunkBytes) +
        lane % 4 * Form::kWords;
    std::uint32_t words[kColTiles][Form::kWords];
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
      const auto pack = *reinterpret_cast<const Pack<Form::kWords, std::uint32_t>*>(
          mine + j * 8 * (Form::kChunkBytes / 4));
#pragma unroll
      for (int i = 0; i < Form::kWords; ++i) words[j][i] = pack.values[i];
    }
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      std::uint32_t a[kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i)
        ldmatrix(a[i], x + (i * 16 + lane % 16) * kStride + k * 16 + lane / 16 * 8);
#pragma unroll
      for (int j = 0; j < kColTiles; ++j) {
        std::uint32_t b[2];
        Form::widen(words[j], k, zero[j], b);
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) mma(sums[i][j], a[i], b);
      }
      if (--left == 0) {
        end_group();
        take_group(++group);
        left = weight.group_steps;
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
        if (row < rows.end && col < args.y.cols) finish<Out>(args, row, col, totals[i][j][e]);
      }
}

template <typename Form, typename Tile, typename Out, bool kGrouped>
void launch_tiles(const GemmKernelArgs& args, const CodedRows& weight, const GemmGroups& groups,
                  cudaStream_t stream) {
  const std::int64_t row_tiles =
      kGrouped ? groups.tile_count : (args.y.rows + Tile::kRows - 1) / Tile::kRows;
  const dim3 grid(static_cast<unsigned>((args.y.cols + Tile::kCols - 1) / Tile::kCols),
                  static_cast<unsigned>(row_tiles));
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(args.x.data) % 16 == 0 && args.x.stride % 8 == 0;
  SACCADE_LAUNCH((gemm_codes_kernel<Form, Tile, Out, kGrouped>), grid, dim3(Tile::kThreads),
                 kStages * Tile::kStageBytes, stream, args, weight, groups, aligned);
}

template <typename Form, typename Out, bool kGrouped>
void launch_form(const GemmKernelArgs& args, const CodedRows& weight, const GemmGroups& groups,
                 cudaStream_t stream) {
  using Few = Tile<Form, kFewTileRows, 64, 16, 16>;
  using Many = Tile<Form, kManyTileRows, 128, 32, 32>;
  const bool few = kGrouped ? groups.tile_rows == kFewTileRows : args.y.rows <= 32;
  few ? launch_tiles<Form, Few, Out, kGrouped>(args, weight, groups, stream)
      : launch_tiles<Form, Many, Out, kGrouped>(args, weight, groups, stream);
}

template <bool kGrouped>
void launch(const GemmKernelArgs& args, const CodedRows& weight, const GemmGroups& groups,
            cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  const bool wide = args.y.type == DType::kF32;
  if (weight.form == CodeForm::kE4m3)
    wide ? launch_form<E4m3Form, float, kGrouped>(args, weight, groups, stream)
         : launch_form<E4m3Form, Bf16, kGrouped>(args, weight, groups, stream);
  else
    wide ? launch_form<NibbleForm, float, kGrouped>(args, weight, groups, stream)
         : launch_form<NibbleForm, Bf16, kGrouped>(args, weight, groups, stream);
}

}  // namespace

void launch_gemm_codes(const GemmKernelArgs& args, const CodedRows& weight, cudaStream_t stream) {
  if (args.x.type == DType::kF32)
    launch_gemm_codes_f32(args, weight, stream);
  else
    launch<false>(args, weight, {}, stream);
}

void launch_grouped_gemm_codes(const GemmKernelArgs& args, const CodedRows& weight,
                               const GemmGroups& groups, cudaStream_t stream) {
  if (args.x.type == DType::kF32)
    launch_grouped_gemm_codes_f32(args, weight, groups, stream);
  else
    launch<true>(args, weight, groups, stream);
}

}  // namespace saccade::cuda
