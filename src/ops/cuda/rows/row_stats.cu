// The largest logit of each row, where it is, and log(sum(exp)).
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

constexpr int kBlock = 1024;

struct Best {
  float max;
  std::int32_t at;
};

// The larger; of equals the lower index.
SACCADE_DEVICE Best better(Best a, Best b) {
  return b.max > a.max || (b.max == a.max && b.at < a.at) ? b : a;
}

SACCADE_DEVICE Best warp_best(Best best) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    Best other;
    other.max = __shfl_xor_sync(kFullWarp, best.max, mask);
    other.at = __shfl_xor_sync(kFullWarp, best.at, mask);
    best = better(best, other);
  }
  return best;
}

template <typename T>
__global__ void __launch_bounds__(kBlock) row_stats_kernel(RowStatsKernelArgs args) {
  SACCADE_SHARED(Best, bests, kBlock / 32);
  SACCADE_SHARED(float, sums, kBlock / 32);
  const std::int64_t row = blockIdx.x;
  const T* const logits = static_cast<const T*>(args.logits.data) + row * args.logits.stride;
  const auto cols = static_cast<std::int32_t>(args.logits.cols);
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  Best best{-std::numeric_limits<float>::infinity(), std::numeric_limits<std::int32_t>::max()};
  for (std::int32_t col = thread; col < cols; col += kBlock)
    best = better(best, {widen(logits[col]), col});
  best = warp_best(best);
  if (thread % 32 == 0) bests[thread / 32] = best;
  __syncthreads();
  best = warp_best(bests[thread % 32]);
  float sum = 0;
  for (std::int32_t col = thread; col < cols; col += kBlock)
    sum += expf(widen(logits[col]) - best.max);
  sum = warp_sum(sum);
  if (thread % 32 == 0) sums[thread / 32] = sum;
  __syncthreads();
  if (thread >= 32) return;
  sum = warp_sum(sums[thread]);
  if (thread != 0) return;
  RowStatsEntry& out = *reinterpret_cast<RowStatsEntry*>(reinterpret_cast<std::byte*>(args.out) +
                                                         row * args.out_stride);
  const bool none = best.max == -std::numeric_limits<float>::infinity();
  out.argmax = none ? 0 : best.at;
  out.max = best.max;
  out.log_sum_exp = none ? best.max : best.max + logf(sum);
}

}  // namespace

void launch_row_stats(const RowStatsKernelArgs& args, cudaStream_t stream) {
  if (args.logits.rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.logits.rows));
  if (args.logits.type == DType::kBf16)
    SACCADE_LAUNCH((row_stats_kernel<Bf16>), grid, dim3(kBlock), 0, stream, args);
  else
    SACCADE_LAUNCH((row_stats_kernel<float>), grid, dim3(kBlock), 0, stream, args);
}

}  // namespace saccade::cuda
