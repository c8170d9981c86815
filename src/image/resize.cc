// resize(): two passes over 8-bit pixels, each skipped where its side does not change.
#include <cstring>
#include <utility>

#include "base/check.h"
#include "image/formats.h"
#include "image/resize_kernels.h"

namespace saccade {
namespace {

const ResizeKernels& best_kernels() {
  const ResizeKernels* avx2 = avx2_resize_kernels();
  return avx2 != nullptr ? *avx2 : portable_resize_kernels();
}

Pixels resize_width(const Pixels& from, int width, ResampleFilter filter) {
  Pixels to = black_pixels(width, from.height);
  const ResampleTable table = make_resample_table(from.width, width, filter);
  best_kernels().horizontal(from.rgb.data(), from.width, from.height, table, to.rgb.data());
  return to;
}

Pixels resize_height(const Pixels& from, int height, ResampleFilter filter) {
  Pixels to = black_pixels(from.width, height);
  const ResampleTable table = make_resample_table(from.height, height, filter);
  best_kernels().vertical(from.rgb.data(), static_cast<std::size_t>(from.width) * 3, table,
                          to.rgb.data());
  return to;
}

bool vertical_first(const Pixels& from, int width, int height, PassOrder order) {
  return order == PassOrder::kPillow13 && height < from.height &&
         std::int64_t{from.height} - height > 2 * (std::int64_t{from.width} - width);
}

}  // namespace

Pixels resize(const Pixels& from, int width, int height, ResampleFilter filter, PassOrder order) {
  CHECK(width > 0 && height > 0 && from.width > 0 && from.height > 0, "{}x{} to {}x{}", from.width,
        from.height, width, height);
  if (width == from.width && height == from.height) return from;
  if (width == from.width) return resize_height(from, height, filter);
  if (height == from.height) return resize_width(from, width, filter);
  return vertical_first(from, width, height, order)
             ? resize_width(resize_height(from, height, filter), width, filter)
             : resize_height(resize_width(from, width, filter), height, filter);
}

}  // namespace saccade
