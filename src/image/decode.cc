// decode_image: bytes to upright RGB, equal to this in Pillow:
//   image = ImageOps.exif_transpose(Image.open(bytes))
//   if image.mode in ("RGBA", "LA", "PA") or image.mode == "P" and "transparency" in image.info:
//       canvas = Image.new("RGBA", image.size, "WHITE")
//       canvas.alpha_composite(image.convert("RGBA"))
//       image = canvas
//   image = image.convert("RGB")
// So a colour key on a gray or RGB PNG is ignored, as convert("RGB") ignores it, and 16-bit gray
// saturates at 255.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "image/formats.h"

namespace saccade {
namespace {

Result<Pixels> read_frame(ImageFormat format, ImageBytes bytes, const Cancelled& cancelled) {
  switch (format) {
    case ImageFormat::kJpeg:
      return read_jpeg(bytes, cancelled);
    case ImageFormat::kPng:
      return read_png(bytes, cancelled);
    case ImageFormat::kWebp:
      return read_webp(bytes, cancelled);
    case ImageFormat::kGif:
      return read_gif(bytes, cancelled);
    case ImageFormat::kBmp:
      return read_bmp(bytes, cancelled);
  }
  return fail(ErrorCode::kInternal, "image format {}", static_cast<int>(format));
}

}  // namespace

Pixels black_pixels(int width, int height) {
  Pixels pixels;
  pixels.width = width;
  pixels.height = height;
  pixels.rgb.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  return pixels;
}

Result<std::vector<std::uint8_t>> filled(std::size_t count, std::uint8_t value,
                                         const Cancelled& cancelled) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(count);
  while (bytes.size() < count) {
    TRY_DO(check_cancelled(cancelled));
    bytes.resize(bytes.size() + std::min(kPiece, count - bytes.size()), value);
  }
  return bytes;
}

Result<Pixels> filled_pixels(int width, int height, std::uint8_t value,
                             const Cancelled& cancelled) {
  Pixels pixels{width, height, {}};
  TRY(pixels.rgb, filled(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3,
                         value, cancelled));
  return pixels;
}

Result<Pixels> decode_image(std::span<const std::byte> bytes, const ImageLimits& limits,
                            const Cancelled& cancelled) {
  TRY(const ImageFormat format, detect_format(bytes));
  TRY(const StoredHeader header, read_header(format, bytes));
  TRY_DO(check_limits(header, limits));
  TRY(Pixels pixels, read_frame(format, bytes, cancelled));
  CHECK(pixels.width == header.width && pixels.height == header.height, "header {}x{}, frame {}x{}",
        header.width, header.height, pixels.width, pixels.height);
  return oriented(std::move(pixels), header.orientation, cancelled);
}

Pixels crop(const Pixels& from, int left, int top, int width, int height) {
  CHECK(left >= 0 && top >= 0 && width >= 0 && height >= 0 && left <= from.width - width &&
            top <= from.height - height,
        "{}x{} at ({}, {}) of {}x{}", width, height, left, top, from.width, from.height);
  Pixels part = black_pixels(width, height);
  const std::size_t row_bytes = static_cast<std::size_t>(width) * 3;
  for (int y = 0; y < height; ++y) {
    const std::size_t at = (static_cast<std::size_t>(top + y) * from.width + left) * 3;
    std::copy_n(from.rgb.data() + at, row_bytes, part.rgb.data() + y * row_bytes);
  }
  return part;
}

void paste(const Pixels& from, int left, int top, Pixels& to) {
  CHECK(left >= 0 && top >= 0 && left <= to.width - from.width && top <= to.height - from.height,
        "{}x{} at ({}, {}) of {}x{}", from.width, from.height, left, top, to.width, to.height);
  const std::size_t row_bytes = static_cast<std::size_t>(from.width) * 3;
  for (int y = 0; y < from.height; ++y) {
    const std::size_t at = (static_cast<std::size_t>(top + y) * to.width + left) * 3;
    std::copy_n(from.rgb.data() + y * row_bytes, row_bytes, to.rgb.data() + at);
  }
}

void append_tiles(const Pixels& from, Pixels& stacked) {
  const int side = stacked.width;
  for (int y = 0; y < from.height; y += side) {
    for (int x = 0; x < from.width; x += side) {
      const Pixels tile = crop(from, x, y, side, side);
      stacked.rgb.insert(stacked.rgb.end(), tile.rgb.begin(), tile.rgb.end());
      stacked.height += side;
    }
  }
}

}  // namespace saccade
