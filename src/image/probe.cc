// From bytes to a checked header: which format, how large, which way up.
#include <string_view>

#include "image/formats.h"

namespace saccade {
namespace {

std::string_view text_of(ImageBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<ImageFormat> detect_format(ImageBytes bytes) {
  using namespace std::string_view_literals;
  const std::string_view text = text_of(bytes);
  if (text.starts_with("\xff\xd8\xff"sv)) return ImageFormat::kJpeg;
  if (text.starts_with("\x89PNG\r\n\x1a\n"sv)) return ImageFormat::kPng;
  if (text.starts_with("RIFF"sv) && text.substr(0, 12).ends_with("WEBP"sv))
    return ImageFormat::kWebp;
  if (text.starts_with("GIF87a"sv) || text.starts_with("GIF89a"sv)) return ImageFormat::kGif;
  if (text.starts_with("BM"sv)) return ImageFormat::kBmp;
  if (text.empty()) return fail(ErrorCode::kUndecodable, "the image is empty");
  return fail(ErrorCode::kUndecodable,
              "the image's {} bytes are not JPEG, PNG, WebP, GIF or BMP data", bytes.size());
}

Result<StoredHeader> read_header(ImageFormat format, ImageBytes bytes) {
  switch (format) {
    case ImageFormat::kJpeg:
      return read_jpeg_header(bytes);
    case ImageFormat::kPng:
      return read_png_header(bytes);
    case ImageFormat::kWebp:
      return read_webp_header(bytes);
    case ImageFormat::kGif:
      return read_gif_header(bytes);
    case ImageFormat::kBmp:
      return read_bmp_header(bytes);
  }
  return fail(ErrorCode::kInternal, "image format {}", static_cast<int>(format));
}

Result<void> check_limits(const StoredHeader& header, const ImageLimits& limits) {
  if (header.width <= 0 || header.height <= 0) {
    return fail(ErrorCode::kUndecodable, "image is {}x{} pixels", header.width, header.height);
  }
  if (header.width > limits.max_side || header.height > limits.max_side) {
    return fail(ErrorCode::kTooLarge, "image is {}x{} pixels, limit {} a side", header.width,
                header.height, limits.max_side);
  }
  if (header.width * header.height > limits.max_pixels) {
    return fail(ErrorCode::kTooLarge, "image is {}x{} = {} pixels, limit {}", header.width,
                header.height, header.width * header.height, limits.max_pixels);
  }
  return {};
}

Result<ImageHeader> probe_image(std::span<const std::byte> bytes, const ImageLimits& limits) {
  TRY(const ImageFormat format, detect_format(bytes));
  TRY(const StoredHeader stored, read_header(format, bytes));
  TRY_DO(check_limits(stored, limits));
  ImageHeader header{format, static_cast<int>(stored.width), static_cast<int>(stored.height)};
  if (swaps_sides(stored.orientation)) std::swap(header.width, header.height);
  return header;
}

}  // namespace saccade
