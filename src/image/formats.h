// Inside image/: one pair of functions a format. Headers cost no pixel work; frames come out as RGB
// in stored order, before EXIF orientation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/threads/cancelled.h"
#include "image/exif.h"
#include "image/pixels.h"

namespace saccade {

using ImageBytes = std::span<const std::byte>;

struct StoredHeader {
  std::int64_t width = 0;  // as stored; not yet held against any limit
  std::int64_t height = 0;
  Orientation orientation = Orientation::kTopLeft;
};

// kUndecodable with the format's name and the reason.
Result<StoredHeader> read_jpeg_header(ImageBytes bytes);
Result<StoredHeader> read_png_header(ImageBytes bytes);
Result<StoredHeader> read_webp_header(ImageBytes bytes);
Result<StoredHeader> read_gif_header(ImageBytes bytes);
Result<StoredHeader> read_bmp_header(ImageBytes bytes);

// The caller has checked the header's sides against its limits, so both fit an int. kCancelled once
// `cancelled` says so.
Result<Pixels> read_jpeg(ImageBytes bytes, const Cancelled& cancelled);
Result<Pixels> read_png(ImageBytes bytes, const Cancelled& cancelled);
Result<Pixels> read_webp(ImageBytes bytes, const Cancelled& cancelled);
Result<Pixels> read_gif(ImageBytes bytes, const Cancelled& cancelled);
Result<Pixels> read_bmp(ImageBytes bytes, const Cancelled& cancelled);

Result<ImageFormat> detect_format(ImageBytes bytes);
Result<StoredHeader> read_header(ImageFormat format, ImageBytes bytes);
Result<void> check_limits(const StoredHeader& header, const ImageLimits& limits);

// As many bytes of one value. Touching the memory of a large picture for the first time takes a
// good part of its decoding, so that is done in pieces.
Result<std::vector<std::uint8_t>> filled(std::size_t count, std::uint8_t value,
                                         const Cancelled& cancelled);
// A picture of one gray.
Result<Pixels> filled_pixels(int width, int height, std::uint8_t value, const Cancelled& cancelled);

// What PIL's alpha_composite leaves of one channel over opaque white.
inline std::uint8_t over_white(std::uint8_t value, std::uint8_t alpha) {
  const std::uint32_t exact = value * alpha + 255u * (255u - alpha);  // 255 times the answer
  const std::uint32_t wide = (exact << 7) + (0x80u << 7);
  return static_cast<std::uint8_t>((((wide >> 8) + wide) >> 8) >> 7);
}

// One RGBA pixel composited on white into one RGB pixel.
inline void put_over_white(const std::uint8_t* rgba, std::uint8_t* rgb) {
  for (int c = 0; c < 3; ++c) rgb[c] = over_white(rgba[c], rgba[3]);
}

}  // namespace saccade
