// resize(): nearest samples, or two passes over 8-bit pixels, each skipped where its side does not
// change. The passes run in bands, so that the rows between them stay in the cache.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "image/formats.h"
#include "image/resize_kernels.h"

namespace saccade {
namespace {

constexpr int kBandRows = 16;

const ResizeKernels& best_kernels() {
  if (const ResizeKernels* avx512 = avx512_resize_kernels()) return *avx512;
  if (const ResizeKernels* avx2 = avx2_resize_kernels()) return *avx2;
  return portable_resize_kernels();
}

// A table with its weights packed for the kernels at hand.
struct Pass {
  const ResizeKernels& kernels;
  ResampleTable table;
  std::vector<std::int32_t> packed;
  Pass(const ResizeKernels& with, int from_size, int to_size, ResampleFilter filter)
      : kernels(with),
        table(make_resample_table(from_size, to_size, filter)),
        packed(with.pack(table)) {}
  int first(int output) const { return table.first[static_cast<std::size_t>(output)]; }
  int end(int output) const {
    return first(output) + table.count[static_cast<std::size_t>(output)];
  }
};

std::uint8_t* row_of(Pixels& pixels, int y) {
  return pixels.rgb.data() +
         static_cast<std::size_t>(y) * static_cast<std::size_t>(pixels.width) * 3;
}
const std::uint8_t* row_of(const Pixels& pixels, int y) {
  return row_of(const_cast<Pixels&>(pixels), y);
}

// Rows [begin, end) of `from` resized in width. The kernels read past a row, so the image's last
// row is read from a copy.
void resize_band(const Pixels& from, int begin, int end, const Pass& across, std::uint8_t* to) {
  const auto horizontal = across.kernels.horizontal;
  const std::size_t row_bytes = static_cast<std::size_t>(from.width) * 3;
  const std::size_t to_bytes = static_cast<std::size_t>(across.table.outputs()) * 3;
  const auto tail_rows = static_cast<int>(kRowSlack / row_bytes) + 1;
  const int safe_end = std::max(begin, std::min(end, from.height - tail_rows));
  horizontal(row_of(from, begin), from.width, safe_end - begin, across.table, across.packed, to);
  if (safe_end == end) return;
  const std::size_t count = static_cast<std::size_t>(end - safe_end);
  std::vector<std::uint8_t> copy(count * row_bytes + kRowSlack);
  std::memcpy(copy.data(), row_of(from, safe_end), count * row_bytes);
  horizontal(copy.data(), from.width, end - safe_end, across.table, across.packed,
             to + static_cast<std::size_t>(safe_end - begin) * to_bytes);
}

// False: cancelled.
bool resize_rows(const Pixels& from, int begin, int end, const Pass& across, std::uint8_t* to,
                 const Cancelled& cancelled) {
  const std::size_t to_bytes = static_cast<std::size_t>(across.table.outputs()) * 3;
  for (int top = begin; top < end; top += kBandRows) {
    if (is_cancelled(cancelled)) return false;
    resize_band(from, top, std::min(top + kBandRows, end), across,
                to + static_cast<std::size_t>(top - begin) * to_bytes);
  }
  return true;
}

Pixels resize_width(const ResizeKernels& kernels, const Pixels& from, int width,
                    ResampleFilter filter, const Cancelled& cancelled) {
  const Pass across(kernels, from.width, width, filter);
  Pixels to = black_pixels(width, from.height);
  resize_rows(from, 0, from.height, across, to.rgb.data(), cancelled);
  return to;
}

Pixels resize_height(const ResizeKernels& kernels, const Pixels& from, int height,
                     ResampleFilter filter, const Cancelled& cancelled) {
  const Pass down(kernels, from.height, height, filter);
  Pixels to = black_pixels(from.width, height);
  for (int y = 0; y < height && !is_cancelled(cancelled); ++y) {
    kernels.vertical(row_of(from, down.first(y)), static_cast<std::size_t>(from.width) * 3,
                     down.table, down.packed, y, row_of(to, y));
  }
  return to;
}

Pixels resize_width_first(const ResizeKernels& kernels, const Pixels& from, int width, int height,
                          ResampleFilter filter, const Cancelled& cancelled) {
  const Pass across(kernels, from.width, width, filter);
  const Pass down(kernels, from.height, height, filter);
  Pixels to = black_pixels(width, height);
  const std::size_t row_bytes = static_cast<std::size_t>(width) * 3;
  std::vector<std::uint8_t> window;  // rows [held, held_end) of `from`, resized in width
  int held = down.first(0), held_end = held;
  for (int top = 0; top < height; top += kBandRows) {
    const int bottom = std::min(top + kBandRows, height);
    // Keep what the last band shares with this one, and append what is new.
    const int needed = down.first(top), needed_end = std::max(down.end(bottom - 1), held_end);
    const int kept = std::max(held_end - needed, 0);
    const std::size_t rows = static_cast<std::size_t>(needed_end - needed);
    const std::size_t kept_bytes = static_cast<std::size_t>(kept) * row_bytes;
    if (kept > 0) {
      std::memmove(window.data(),
                   window.data() + static_cast<std::size_t>(needed - held) * row_bytes, kept_bytes);
    }
    if (window.size() < rows * row_bytes) window.resize(rows * row_bytes);
    if (!resize_rows(from, needed + kept, needed_end, across, window.data() + kept_bytes,
                     cancelled))
      break;
    held = needed;
    held_end = needed_end;
    for (int y = top; y < bottom; ++y) {
      kernels.vertical(window.data() + static_cast<std::size_t>(down.first(y) - held) * row_bytes,
                       row_bytes, down.table, down.packed, y, row_of(to, y));
    }
  }
  return to;
}

Pixels resize_height_first(const ResizeKernels& kernels, const Pixels& from, int width, int height,
                           ResampleFilter filter, const Cancelled& cancelled) {
  const Pass across(kernels, from.width, width, filter);
  const Pass down(kernels, from.height, height, filter);
  Pixels to = black_pixels(width, height);
  const std::size_t row_bytes = static_cast<std::size_t>(from.width) * 3;
  std::vector<std::uint8_t> band(kBandRows * row_bytes + kRowSlack);
  for (int top = 0; top < height; top += kBandRows) {
    const int rows = std::min(kBandRows, height - top);
    for (int y = 0; y < rows; ++y) {
      if (is_cancelled(cancelled)) return to;
      kernels.vertical(row_of(from, down.first(top + y)), row_bytes, down.table, down.packed,
                       top + y, band.data() + static_cast<std::size_t>(y) * row_bytes);
    }
    kernels.horizontal(band.data(), from.width, rows, across.table, across.packed, row_of(to, top));
  }
  return to;
}

// Which source sample each output takes. Pillow adds up its steps, and rounding errors with them.
std::vector<int> nearest_samples(int from_size, int to_size) {
  const double step = static_cast<double>(from_size) / to_size;
  std::vector<int> samples(static_cast<std::size_t>(to_size));
  double at = step * 0.5;
  for (int& sample : samples) {
    sample = std::min(static_cast<int>(at), from_size - 1);
    at += step;
  }
  return samples;
}

Pixels resize_nearest(const Pixels& from, int width, int height, const Cancelled& cancelled) {
  Pixels to = black_pixels(width, height);
  const std::vector<int> columns = nearest_samples(from.width, width);
  const std::vector<int> rows = nearest_samples(from.height, height);
  std::uint8_t* out = to.rgb.data();
  for (const int y : rows) {
    if (is_cancelled(cancelled)) break;
    const std::uint8_t* row = row_of(from, y);
    for (const int x : columns) out = std::copy_n(row + std::ptrdiff_t{3} * x, 3, out);
  }
  return to;
}

// The image between the two passes is rounded to 8 bits, so their order shows in the result.
bool height_first(const Pixels& from, int width, int height) {
  return height < from.height &&
         std::int64_t{from.height} - height > 2 * (std::int64_t{from.width} - width);
}

}  // namespace

Pixels resize_with(const ResizeKernels& kernels, const Pixels& from, int width, int height,
                   ResampleFilter filter, const Cancelled& cancelled) {
  CHECK(width > 0 && height > 0 && from.width > 0 && from.height > 0, "{}x{} to {}x{}", from.width,
        from.height, width, height);
  if (width == from.width && height == from.height) return from;
  if (filter == ResampleFilter::kNearest) return resize_nearest(from, width, height, cancelled);
  if (width == from.width) return resize_height(kernels, from, height, filter, cancelled);
  if (height == from.height) return resize_width(kernels, from, width, filter, cancelled);
  return height_first(from, width, height)
             ? resize_height_first(kernels, from, width, height, filter, cancelled)
             : resize_width_first(kernels, from, width, height, filter, cancelled);
}

Pixels resize(const Pixels& from, int width, int height, ResampleFilter filter,
              const Cancelled& cancelled) {
  return resize_with(best_kernels(), from, width, height, filter, cancelled);
}

}  // namespace saccade
