#include "image/patchify.h"

#include <cstring>

#include "base/check.h"

namespace saccade {
namespace {

// One patch as [3, temporal, patch, patch].
void write_patch(const Pixels& pixels, int top, int left, const PatchLayout& layout,
                 const NormalizeTable& table, float* to) {
  const int side = layout.patch_size;
  const std::size_t square = static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  for (int c = 0; c < 3; ++c) {
    const std::array<float, 256>& values = table.channel(c);
    const float* first = to;
    for (int y = 0; y < side; ++y) {
      const std::uint8_t* from =
          pixels.rgb.data() +
          (static_cast<std::size_t>(top + y) * static_cast<std::size_t>(pixels.width) +
           static_cast<std::size_t>(left)) *
              3 +
          c;
      for (int x = 0; x < side; ++x, from += 3) *to++ = values[*from];
    }
    for (int t = 1; t < layout.temporal_patch_size; ++t, to += square)
      std::memcpy(to, first, square * sizeof(float));
  }
}

}  // namespace

void patchify(const Pixels& pixels, const PatchLayout& layout, const NormalizeTable& table,
              std::span<float> to) {
  const int merged = layout.patch_size * layout.merge_size;
  CHECK(merged > 0 && pixels.width % merged == 0 && pixels.height % merged == 0,
        "{}x{} pixels in squares of {}", pixels.width, pixels.height, merged);
  CHECK(std::cmp_equal(to.size(), layout.rows(pixels) * layout.row_length()),
        "{} floats for {} rows of {}", to.size(), layout.rows(pixels), layout.row_length());
  float* row = to.data();
  for (int block_top = 0; block_top < pixels.height; block_top += merged) {
    for (int block_left = 0; block_left < pixels.width; block_left += merged) {
      for (int y = 0; y < merged; y += layout.patch_size) {
        for (int x = 0; x < merged; x += layout.patch_size, row += layout.row_length())
          write_patch(pixels, block_top + y, block_left + x, layout, table, row);
      }
    }
  }
}

}  // namespace saccade
