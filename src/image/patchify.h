// Qwen2-VL's patch rows: the image cut into squares, in the order in which the merger joins them.
#pragma once

#include <cstdint>
#include <span>

#include "image/normalize.h"
#include "image/pixels.h"

namespace saccade {

struct PatchLayout {
  int patch_size = 14;          // pixels a side
  int merge_size = 2;           // patches a side that become one token
  int temporal_patch_size = 2;  // a still image is repeated this often

  std::int64_t row_length() const {
    return std::int64_t{3} * temporal_patch_size * patch_size * patch_size;
  }
  std::int64_t rows(const Pixels& pixels) const {
    return std::int64_t{pixels.height / patch_size} * (pixels.width / patch_size);
  }
};

// Row order: (height / merge, width / merge, merge, merge) patches; within a row (3, temporal,
// patch, patch). Sides are multiples of patch_size * merge_size. `to` is [rows, row_length]. Frames
// are of one size, at most temporal_patch_size of them: the last fills the rest.
void patchify(std::span<const Pixels> frames, const PatchLayout& layout,
              const NormalizeTable& table, std::span<float> to);
// Rows [begin, end) of them.
void patchify_rows(std::span<const Pixels> frames, const PatchLayout& layout,
                   const NormalizeTable& table, std::int64_t begin, std::int64_t end,
                   std::span<float> to);

struct PatchCorner {  // upper left, in pixels
  int top = 0;
  int left = 0;
};
// Of row r of an image so wide.
PatchCorner patch_corner(const PatchLayout& layout, int width, std::int64_t row);

// One patch as [3, temporal, patch, patch], from its upper left corner.
void write_patch(std::span<const Pixels> frames, int top, int left, const PatchLayout& layout,
                 const NormalizeTable& table, float* to);

}  // namespace saccade
