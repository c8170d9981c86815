// Products in f32 arithmetic, for runs in f32 and for weights that are kept in it: exact operands,
// one fused multiply-add at a time along `in`.
#include "ops/cuda/activate.h"
#include "ops/cuda/grid.h"

namespace saccade::cuda {
namespace {

constexpr int kDepth = 16;
constexpr int kCols = 64;

// A block's tile is kRows x 64; a thread's, 4 x 4.
template <typename X, typename Weight, typename Out, int kRows>
__global__ void __launch_bounds__(kRows * 4) gemm_f32_kernel(GemmKernelArgs args) {
  constexpr int kThreads = kRows * 4;
  SACCADE_SHARED(float, x, kRows*(kDepth + 1));
  SACCADE_SHARED(float, w, kCols*(kDepth + 1));
  const std::int64_t first_row = std::int64_t{blockIdx.y} * kRows;
  const std::int64_t first_col = std::int64_t{blockIdx.x} * kCols;
  const auto thread = static_cast<int>(threadIdx.x);
  const int part_row = thread / 16 * 4;
  const int part_col = thread % 16;  // and 16, 32, 48 further on
  float sums[4][4] = {};
  for (std::int64_t depth = 0; depth < args.x.cols; depth += kDepth) {
    __syncthreads();
    for (int i = thread; i < (kRows + kCols) * kDepth; i += kThreads) {
      const bool of_x = i < kRows * kDepth;
      const int at = of_x ? i : i - kRows * kDepth;
      const Rows& from = of_x ? args.x : args.weight;
      const std::int64_t row = (of_x ? first_row : first_col) + at / kDepth;
      const std::int64_t col = depth + at % kDepth;
      float value = 0;
      if (row < from.rows && col < from.cols) {
        value = of_x ? widen(static_cast<const X*>(from.data)[row * from.stride + col])
                     : widen(static_cast<const Weight*>(from.data)[row * from.stride + col]);
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
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t row = first_row + part_row + i;
      const std::int64_t col = first_col + part_col + 16 * j;
      if (row >= args.y.rows || col >= args.y.cols) continue;
      float sum = sums[i][j];
      if (args.bias != nullptr) sum += args.bias[col];
      if (args.activation != Activation::kNone) sum = activate_by_call(args.activation, sum);
      if (args.residual.data != nullptr)
        sum += widen(static_cast<const Out*>(args.residual.data)[row * args.residual.stride + col]);
      narrow(sum, static_cast<Out*>(args.y.data)[row * args.y.stride + col]);
    }
  }
}

template <typename X, typename Weight, typename Out, int kRows>
void launch(const GemmKernelArgs& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((args.y.cols + kCols - 1) / kCols),
                  static_cast<unsigned>((args.y.rows + kRows - 1) / kRows));
  SACCADE_LAUNCH((gemm_f32_kernel<X, Weight, Out, kRows>), grid, dim3(kRows * 4), 0, stream, args);
}

template <typename X, typename Weight, typename Out>
void launch_as(const GemmKernelArgs& args, cudaStream_t stream) {
  if (args.y.rows > 32)
    launch<X, Weight, Out, 64>(args, stream);
  else
    launch<X, Weight, Out, 8>(args, stream);
}

}  // namespace

void launch_gemm_f32(const GemmKernelArgs& args, cudaStream_t stream) {
  const bool bf16_x = args.x.type == DType::kBf16;
  const bool bf16_y = args.y.type == DType::kBf16;
  if (bf16_x && bf16_y)
    launch_as<Bf16, float, Bf16>(args, stream);
  else if (bf16_x)
    launch_as<Bf16, float, float>(args, stream);
  else if (args.weight.type == DType::kBf16)
    launch_as<float, Bf16, float>(args, stream);
  else
    launch_as<float, float, float>(args, stream);
}

}  // namespace saccade::cuda
