// Decoded images, and the bounded way to them. As the reference: PIL open, exif_transpose,
// convert("RGB") (alpha composited on white); decode.cc says it in PIL's own calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/threads/cancelled.h"

namespace saccade {

// 8-bit RGB, row-major, no padding.
struct Pixels {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

enum class ImageFormat { kJpeg, kPng, kWebp, kGif, kBmp };

struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  int width = 0;  // after EXIF orientation
  int height = 0;
};

struct ImageLimits {
  std::int64_t max_pixels = 178'956'970;  // PIL's decompression-bomb bound
  int max_side = 65'535;
};

// Dimensions from the header alone; no pixel is decoded. kUndecodable for anything that is not one
// of the formats, kTooLarge with both numbers when over `limits`.
Result<ImageHeader> probe_image(std::span<const std::byte> bytes, const ImageLimits& limits = {});

// First frame. Checks as probe_image before decoding. Truncated data is kUndecodable. kCancelled
// once `cancelled` says so, asked for each row; of a WebP, which libwebp decodes in pieces of its
// bytes, for each piece: up to an eighth of a lossless one, and all of one of very few bytes.
Result<Pixels> decode_image(std::span<const std::byte> bytes, const ImageLimits& limits = {},
                            const Cancelled& cancelled = {});

enum class ResampleFilter { kNearest, kLanczos, kBilinear, kBicubic, kBox, kHamming };  // as PIL's

// Image.resize of PIL from 13 on, bit for bit (8-bit fixed point, 22 bits). Sides are at least 1.
// What it gives is of no use once `cancelled`, asked every few rows, has said so. Any thread.
Pixels resize(const Pixels& from, int width, int height, ResampleFilter filter,
              const Cancelled& cancelled = {});

Pixels crop(const Pixels& from, int left, int top, int width, int height);  // inside the image
Pixels black_pixels(int width, int height);
void paste(const Pixels& from, int left, int top, Pixels& to);  // inside `to`
// `from`, in whole square tiles as wide as `stacked`, tile by tile below what is there.
void append_tiles(const Pixels& from, Pixels& stacked);

// Baseline JPEG, 4:2:0, the bytes of PIL's save(quality=...). kInvalid for sides that the format
// cannot hold.
Result<std::vector<std::byte>> encode_jpeg(const Pixels& pixels, int quality);
Result<std::vector<std::byte>> encode_png(const Pixels& pixels);

}  // namespace saccade
