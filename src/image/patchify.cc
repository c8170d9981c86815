#include "image/patchify.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace saccade {
namespace {

// One patch of one channel, [side, side]: the first value is at pixels.rgb[corner].
void write_square(const Pixels& pixels, std::size_t corner, int side,
                  const std::array<float, 256>& values, float* to) {
  for (int y = 0; y < side; ++y, corner += 3 * static_cast<std::size_t>(pixels.width)) {
    const std::uint8_t* from = pixels.rgb.data() + corner;
    for (int x = 0; x < side; ++x, from += 3) *to++ = values[*from];
  }
}

}  // namespace

void write_patch(std::span<const Pixels> frames, int top, int left, const PatchLayout& layout,
                 const NormalizeTable& table, float* to) {
  const int side = layout.patch_size;
  const std::size_t square = static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  const auto depth = static_cast<std::size_t>(layout.temporal_patch_size);
  const auto row = static_cast<std::size_t>(frames.front().width);  // all are of one size
  const std::size_t corner =
      3 * (static_cast<std::size_t>(top) * row + static_cast<std::size_t>(left));
  for (int c = 0; c < 3; ++c) {
    for (std::size_t t = 0; t < depth; ++t, to += square) {
      if (t < frames.size()) {
        write_square(frames[t], corner + static_cast<std::size_t>(c), side, table.channel(c), to);
      } else {
        std::memcpy(to, to - square, square * sizeof(float));
      }
    }
  }
}

void patchify(std::span<const Pixels> frames, const PatchLayout& layout,
              const NormalizeTable& table, std::span<float> to) {
  CHECK(!frames.empty() && std::cmp_less_equal(frames.size(), layout.temporal_patch_size),
        "{} frames of {}", frames.size(), layout.temporal_patch_size);
  const Pixels& first = frames.front();
  const int merged = layout.patch_size * layout.merge_size;
  CHECK(merged > 0 && first.width % merged == 0 && first.height % merged == 0,
        "{}x{} pixels in squares of {}", first.width, first.height, merged);
  for (const Pixels& frame : frames)
    CHECK(frame.width == first.width && frame.height == first.height, "{}x{} beside {}x{} pixels",
          frame.width, frame.height, first.width, first.height);
  CHECK(std::cmp_equal(to.size(), layout.rows(first) * layout.row_length()),
        "{} floats for {} rows of {}", to.size(), layout.rows(first), layout.row_length());
  patchify_rows(frames, layout, table, 0, layout.rows(first), to);
}

PatchCorner patch_corner(const PatchLayout& layout, int width, std::int64_t row) {
  const int merge = layout.merge_size;
  const std::int64_t across = width / (std::int64_t{layout.patch_size} * merge);
  const std::int64_t block = row / (merge * merge);
  const auto within = static_cast<int>(row % (merge * merge));
  const int y = static_cast<int>(block / across) * merge + within / merge;
  const int x = static_cast<int>(block % across) * merge + within % merge;
  return {y * layout.patch_size, x * layout.patch_size};
}

void patchify_rows(std::span<const Pixels> frames, const PatchLayout& layout,
                   const NormalizeTable& table, std::int64_t begin, std::int64_t end,
                   std::span<float> to) {
  CHECK(std::cmp_greater_equal(to.size(), (end - begin) * layout.row_length()),
        "{} floats for {} rows of {}", to.size(), end - begin, layout.row_length());
  float* row = to.data();
  for (std::int64_t r = begin; r < end; ++r, row += layout.row_length()) {
    const PatchCorner corner = patch_corner(layout, frames.front().width, r);
    write_patch(frames, corner.top, corner.left, layout, table, row);
  }
}

}  // namespace saccade
