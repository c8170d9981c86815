// Products in f32 arithmetic, for runs in f32 and for weights that are kept in it: exact operands,
// one fused multiply-add at a time along `in`.
#include <type_traits>

#include "ops/cuda/codes/code_values.h"
#include "ops/cuda/products/gemm_rows.h"

namespace saccade::cuda {
namespace {

constexpr int kDepth = 16;
constexpr int kCols = 64;

// For a weight that is none of numbers.
struct Codes {};

// A block's tile is kRows x 64; a thread's, 4 x 4.
template <typename X, typename Weight, typename Out, int kRows, bool kGrouped>
__global__ void __launch_bounds__(kRows * 4)
    gemm_f32_kernel(GemmKernelArgs args, GemmGroups groups, CodedRows coded) {
  constexpr int kThreads = kRows * 4;
  SACCADE_SHARED(float, x, kRows*(kDepth + 1));
  SACCADE_SHARED(float, w, kCols*(kDepth + 1));
  const BlockTile tile;
  const BlockRows<kGrouped> rows(tile.row, args.y.rows, groups, kRows);
  if (rows.none()) return;
  const auto* const x_data = static_cast<const X*>(args.x.data);
  constexpr bool kCodes = std::is_same_v<Weight, Codes>;
  const void* weight = kCodes ? coded.codes : args.weight.data;
  const float* scales = coded.scales;
  const std::uint8_t* zeros = coded.zeros;
  if constexpr (kGrouped) {
    weight = groups.weights[rows.group].data;
    scales = groups.weights[rows.group].scales;
    zeros = groups.weights[rows.group].zeros;
  }
  const std::int64_t outputs = kCodes ? coded.rows : args.weight.rows;
  const auto weight_at = [&](std::int64_t row, std::int64_t col) {
    if constexpr (kCodes)
      return coded_number(coded, static_cast<const std::byte*>(weight), scales, zeros, row, col);
    else
      return widen(static_cast<const Weight*>(weight)[row * args.weight.stride + col]);
  };
  const std::int64_t first_col = tile.col * kCols;
  const auto thread = static_cast<int>(threadIdx.x);
  const int part_row = thread / 16 * 4;
  const int part_col = thread % 16;  // and 16, 32, 48 further on
  float sums[4][4] = {};
  for (std::int64_t depth = 0; depth < args.x.cols; depth += kDepth) {
    __syncthreads();
    for (int i = thread; i < (kRows + kCols) * kDepth; i += kThreads) {
      const bool of_x = i < kRows * kDepth;
      const int at = of_x ? i : i - kRows * kDepth;
      const std::int64_t row = (of_x ? rows.first : first_col) + at / kDepth;
      const std::int64_t col = depth + at % kDepth;
      float value = 0;
      if (row < (of_x ? rows.end : outputs) && col < args.x.cols) {
        value = of_x ? widen(x_data[rows.of_x(row) * args.x.stride + col]) : weight_at(row, col);
      }
      (of_x ? x : w)[at / kDepth * (kDepth + 1) + at % kDepth] = value;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float b[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) b[j] = w[(part_col + 16 * j) * (kDepth + 1) + k];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float a = x[(part_row + i) * (kDepth + 1) + k];
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] += a * b[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t row = rows.first + part_row + i;
      const std::int64_t col = first_col + part_col + 16 * j;
      if (row < rows.end && col < args.y.cols) finish<Out>(args, row, col, sums[i][j]);
    }
}

template <typename X, typename Weight, typename Out, int kRows, bool kGrouped>
void launch(const GemmKernelArgs& args, const GemmGroups& groups, const CodedRows& coded,
            cudaStream_t stream) {
  const std::int64_t row_tiles = kGrouped ? groups.tile_count : (args.y.rows + kRows - 1) / kRows;
  const dim3 grid(static_cast<unsigned>((args.y.cols + kCols - 1) / kCols),
                  static_cast<unsigned>(row_tiles));
  SACCADE_LAUNCH((gemm_f32_kernel<X, Weight, Out, kRows, kGrouped>), grid, dim3(kRows * 4), 0,
                 stream, args, groups, coded);
}

// Calls `launch` with values of the types of x, the weight and y.
template <typename Launch>
void with_types(const GemmKernelArgs& args, const Launch& launch) {
  const bool bf16_x = args.x.type == DType::kBf16;
  if (bf16_x && args.y.type == DType::kBf16)
    launch(Bf16{}, float{}, Bf16{});
  else if (bf16_x)
    launch(Bf16{}, float{}, float{});
  else if (args.weight.type == DType::kBf16)
    launch(float{}, Bf16{}, float{});
  else
    launch(float{}, float{}, float{});
}

}  // namespace

void launch_gemm_f32(const GemmKernelArgs& args, cudaStream_t stream) {
  with_types(args, [&](auto x, auto weight, auto y) {
    using X = decltype(x);
    using Weight = decltype(weight);
    using Y = decltype(y);
    args.y.rows > 32 ? launch<X, Weight, Y, 64, false>(args, {}, {}, stream)
                     : launch<X, Weight, Y, 8, false>(args, {}, {}, stream);
  });
}

void launch_grouped_gemm_f32(const GemmKernelArgs& args, const GemmGroups& groups,
                             cudaStream_t stream) {
  with_types(args, [&](auto x, auto weight, auto y) {
    using X = decltype(x);
    using Weight = decltype(weight);
    using Y = decltype(y);
    groups.tile_rows == kFewTileRows
        ? launch<X, Weight, Y, kFewTileRows, true>(args, groups, {}, stream)
        : launch<X, Weight, Y, kManyTileRows, true>(args, groups, {}, stream);
  });
}

void launch_gemm_codes_f32(const GemmKernelArgs& args, const CodedRows& weight,
                           cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  args.y.rows > 32 ? launch<float, Codes, float, 64, false>(args, {}, weight, stream)
                   : launch<float, Codes, float, 8, false>(args, {}, weight, stream);
}

void launch_grouped_gemm_codes_f32(const GemmKernelArgs& args, const CodedRows& weight,
                                   const GemmGroups& groups, cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  groups.tile_rows == kFewTileRows
      ? launch<float, Codes, float, kFewTileRows, true>(args, groups, weight, stream)
      : launch<float, Codes, float, kManyTileRows, true>(args, groups, weight, stream);
}

}  // namespace saccade::cuda
