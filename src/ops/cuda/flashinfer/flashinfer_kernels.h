// FlashInfer's kernels that are compiled, one a translation unit: its headers take long.
#pragma once

#include "ops/cuda/flash_kernels.h"

namespace saccade::cuda {

// The tiles are those that FlashInfer has for each size itself.
inline constexpr FlashForm kPaged64 = {true, 64, 192, 96};
inline constexpr FlashForm kPaged128 = {true, 128, 128, 96};
inline constexpr FlashForm kPaged256 = {true, 256, 128, 32};
inline constexpr FlashForm kRows64 = {false, 64, 192, 128};
inline constexpr FlashForm kRows128 = {false, 128, 128, 192};

// 0, or what the runtime says, of which nothing was launched. `args` as FlashAttention::launch,
// with lists for as many blocks as the GPU has multiprocessors.
int launch_paged_64(const FlashArgs& args, cudaStream_t stream);
int launch_paged_128(const FlashArgs& args, cudaStream_t stream);
int launch_paged_256(const FlashArgs& args, cudaStream_t stream);
int launch_rows_64(const FlashArgs& args, cudaStream_t stream);
int launch_rows_128(const FlashArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
