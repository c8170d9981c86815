#include "mma_roof.h"
#include "ops/cuda/kernel.h"

#ifdef __CUDACC__
// Declared in cuda_profiler_api.h, which not every toolkit's wheel has.
extern "C" cudaError_t CUDARTAPI cudaProfilerStart(void);
extern "C" cudaError_t CUDARTAPI cudaProfilerStop(void);
#endif

namespace saccade {
namespace {

constexpr int kTiles = 8;  // under way at once in a warp

__global__ void mma_roof_kernel(float* out, int rounds) {
  using namespace cuda;
  float sums[kTiles][4];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[tile][i] = 0;
  }
  // Two bf16 of magnitude 2^-7 to 2^-6 a word, of either sign: what switches is what costs power.
  std::uint32_t a[4];
  std::uint32_t b[2];
  unsigned state = threadIdx.x * 2654435761U + blockIdx.x * 40503U + 1U;
  const auto word = [&state] {
    state = state * 1664525U + 1013904223U;
    return (state & 0x807f807fU) | 0x3c003c00U;
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = word();
#pragma unroll
  for (int i = 0; i < 2; ++i) b[i] = word();
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) mma(sums[tile], a, b);
  }
  float sum = 0;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += sums[tile][i];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

}  // namespace

double mma_roof_flops(std::int64_t blocks, std::int64_t rounds) {
  constexpr double kOne = 2.0 * 16 * 8 * 16;
  return static_cast<double>(blocks * (kMmaRoofThreads / 32) * rounds * kTiles) * kOne;
}

void launch_mma_roof(float* out, std::int64_t blocks, std::int64_t rounds, cudaStream_t stream) {
  SACCADE_LAUNCH(mma_roof_kernel, dim3{static_cast<unsigned>(blocks)},
                 dim3{static_cast<unsigned>(kMmaRoofThreads)}, 0, stream, out,
                 static_cast<int>(rounds));
}

#ifdef __CUDACC__
void begin_profile() { cudaProfilerStart(); }
void end_profile() { cudaProfilerStop(); }
#else
void begin_profile() {}
void end_profile() {}
#endif

}  // namespace saccade
