// The layout of an image that is cut into one grid of patches.
#pragma once

#include <fmt/format.h>

#include "image/patchify.h"
#include "image/smart_resize.h"
#include "model/images/image_layout.h"

namespace saccade {

// Of width x height pixels, resized to `size`, of which each side is a multiple of what one
// embedding is made of: merge_size patches.
inline ImageLayout patch_grid(int width, int height, ImageSize size, const PatchLayout& patches) {
  ImageLayout layout;
  layout.width = width;
  layout.height = height;
  layout.resized_width = size.width;
  layout.resized_height = size.height;
  layout.grid_h = size.height / patches.patch_size;
  layout.grid_w = size.width / patches.patch_size;
  layout.tokens = layout.grid_h * layout.grid_w / (patches.merge_size * patches.merge_size);
  layout.key = fmt::format("{}x{}", size.width, size.height);
  return layout;
}

}  // namespace saccade
