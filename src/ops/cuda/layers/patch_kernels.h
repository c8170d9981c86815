// Patches cut out of pixels: what ops/cut_patches.h says.
#pragma once

#include "ops/cuda/kernels.h"
#include "ops/patch_place.h"

namespace saccade::cuda {

// out row i is the patch of side x side pixels at places[i] of `pixels`, [frames, lines,
// line_bytes] in bytes of red, green and blue: [3, depth, side, side], each sample by values, [3,
// 256]. The last frame stands for those that are not there.
struct CutPatchesKernelArgs {
  const std::uint8_t* pixels = nullptr;
  std::int64_t frame_bytes = 0;
  std::int64_t line_bytes = 0;
  std::int32_t frames = 1;
  std::int32_t depth = 1;
  std::int32_t side = 0;
  const PatchPlace* places = nullptr;  // [out.rows]
  const float* values = nullptr;
  Rows out;
};
void launch_cut_patches(const CutPatchesKernelArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
