// FlashInfer's kernels that are compiled, one a translation unit: its headers take long.
#pragma once

#include "ops/cuda/libraries/flash_kernels.h"

namespace saccade::cuda {

// The tiles are those that FlashInfer has for each size itself.
inline constexpr FlashForm kPaged64 = {true, 64, 192, 96};
inline constexpr FlashForm kPaged128 = {true, 128, 128, 96};
inline constexpr FlashForm kPaged256 = {true, 256, 128, 32};
inline constexpr FlashForm kRows64 = {false, 64, 192, 128};
inline constexpr FlashForm kRows128 = {false, 128, 128, 192};
// For narrower heads alone.
inline constexpr FlashForm kRowsTo96 = {false, 96, 192, 96};
inline constexpr FlashForm kRowsTo128 = {false, 128, 128, 128};

// The form of a kernel of `tiles` for heads that do not fill them.
constexpr FlashForm narrow(FlashForm tiles, std::int32_t head_dim) {
  tiles.head_dim = head_dim;
  return tiles;
}

// 0, or what the runtime says, of which nothing was launched. `args` as FlashAttention::launch,
// with lists for as many blocks as the GPU has multiprocessors.
int launch_paged_64(const FlashArgs& args, cudaStream_t stream);
int launch_paged_128(const FlashArgs& args, cudaStream_t stream);
int launch_paged_256(const FlashArgs& args, cudaStream_t stream);
int launch_rows_64(const FlashArgs& args, cudaStream_t stream);
int launch_rows_128(const FlashArgs& args, cudaStream_t stream);
// Of heads of any multiple of 8 up to 96, or 128.
int launch_rows_to_96(const FlashArgs& args, cudaStream_t stream);
int launch_rows_to_128(const FlashArgs& args, cudaStream_t stream);
int launch_paged_to_128(const FlashArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
