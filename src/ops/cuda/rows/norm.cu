// RMSNorm and LayerNorm, with the residual sum before it, of rows or of the heads in them.
#include "ops/cuda/rows/norm_sum.h"

namespace saccade::cuda {
namespace {

// The sum over the block, in an order that depends on the block's size alone.
SACCADE_DEVICE float block_sum(float x, float* partial) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  x = warp_sum(x);
  if (warps == 1) return x;
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < warps; ++i) sum = add_apart(sum, partial[i]);
  __syncthreads();
  return sum;
}

// One block a piece; the piece lies in shared memory as f32, each thread reading what it wrote.
template <typename T, int N>
__global__ void __launch_bounds__(kNormBlock) norm_kernel(NormKernelArgs args) {
  SACCADE_SHARED(float, partial, kNormBlock / 32);
  SACCADE_DYNAMIC_SHARED(float, kept);
  const std::int64_t row = blockIdx.x / args.groups;
  const std::int64_t piece = blockIdx.x % args.groups;
  const std::int64_t first = piece * args.x.cols;
  const float* const weights = args.weight + piece * args.weight_step;
  const float* const biases = args.bias != nullptr ? args.bias + piece * args.weight_step : nullptr;
  T* const x = static_cast<T*>(args.x.data) + row * args.x.stride + first;
  T* const out = static_cast<T*>(args.out.data) + row * args.out.stride + first;
  const auto cols = static_cast<int>(args.x.cols);
  const int begin = static_cast<int>(threadIdx.x) * N;
  const int step = static_cast<int>(blockDim.x) * N;

  float sum = 0;
  for (int col = begin; col < cols; col += step) {
    float values[N];
    load(x + col, values);
    if (args.add.data != nullptr) {
      const T* const add =
          static_cast<const T*>(args.add.data) + row * args.add.stride + first + col;
      float more[N];
      load(add, more);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        T rounded;
        narrow(values[i] + more[i], rounded);
        values[i] = widen(rounded);
      }
      store(values, x + col);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      kept[col + i] = values[i];
      sum = args.subtract_mean ? add_apart(sum, values[i]) : square_added(sum, values[i]);
    }
  }
  sum = block_sum(sum, partial);
  float mean = 0;
  if (args.subtract_mean) {
    mean = sum / static_cast<float>(cols);
    sum = 0;
    for (int col = begin; col < cols; col += step)
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sum = square_added(sum, kept[col + i] - mean);
      }
    sum = block_sum(sum, partial);
  }
  const float scale = norm_scale(sum, cols, args.epsilon);
  for (int col = begin; col < cols; col += step) {
    float values[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float weight = args.offset + weights[col + i];
      const float bias = biases != nullptr ? biases[col + i] : 0.0f;
      values[i] = normalised(kept[col + i] - mean, scale, weight, bias);
    }
    store(values, out + col);
  }
}

template <typename T, int N>
void launch(const NormKernelArgs& args, cudaStream_t stream) {
  const std::int64_t pieces = args.x.rows * args.groups;
  const auto block = static_cast<unsigned>(norm_threads(args.x.cols, N));
  SACCADE_LAUNCH((norm_kernel<T, N>), dim3(static_cast<unsigned>(pieces)), dim3(block),
                 static_cast<std::size_t>(args.x.cols) * sizeof(float), stream, args);
}

template <typename T>
void launch_as(const NormKernelArgs& args, cudaStream_t stream) {
  constexpr int kPack = 8;
  if (aligned(args.x, kPack) && aligned(args.add, kPack) && aligned(args.out, kPack))
    launch<T, kPack>(args, stream);
  else
    launch<T, 1>(args, stream);
}

}  // namespace

void launch_norm(const NormKernelArgs& args, cudaStream_t stream) {
  if (args.x.rows == 0 || args.x.cols == 0) return;
  if (args.x.type == DType::kBf16)
    launch_as<Bf16>(args, stream);
  else
    launch_as<float>(args, stream);
}

}  // namespace saccade::cuda
