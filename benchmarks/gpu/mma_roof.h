// Products of 16 x 8 x 16 bf16 tiles out of registers and nothing else: what mma.sync can do at
// best. A kernel over wgmma may pass it.
#pragma once

#include <cstdint>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace saccade {

constexpr std::int64_t kMmaRoofThreads = 256;  // of a block
// Operations of one launch.
double mma_roof_flops(std::int64_t blocks, std::int64_t rounds);
// out: [blocks * kMmaRoofThreads], on the device: sums, so that nothing is left out.
void launch_mma_roof(float* out, std::int64_t blocks, std::int64_t rounds, cudaStream_t stream);

// What a profiler that was told to wait for a mark records: cudaProfilerStart and Stop.
void begin_profile();
void end_profile();

}  // namespace saccade
