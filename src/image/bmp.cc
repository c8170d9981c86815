// BMP: 1, 4, 8, 16, 24 and 32 bits, either way up, bit fields, and both run-length codings.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "image/formats.h"

namespace saccade {
namespace {

constexpr std::uint32_t kRaw = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3;

// One colour channel of a 16- or 32-bit pixel.
struct Field {
  std::uint32_t mask = 0;
  std::uint8_t of(std::uint32_t pixel) const {
    const std::uint32_t most = mask >> std::countr_zero(mask);
    return static_cast<std::uint8_t>(((pixel & mask) >> std::countr_zero(mask)) * 255 / most);
  }
  bool valid() const {  // 1 to 8 bits in a row
    const std::uint32_t bits = mask == 0 ? 0 : mask >> std::countr_zero(mask);
    return bits != 0 && bits <= 255 && (bits & (bits + 1)) == 0;
  }
};

struct Layout {
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool top_down = false;
  std::uint32_t bits = 0;
  std::uint32_t compression = kRaw;
  std::array<Field, 3> fields;  // red, green, blue of 16- and 32-bit pixels
  Field alpha;                  // mask 0: none
  std::array<std::array<std::uint8_t, 3>, 256> palette{};
  ImageBytes pixels;

  std::size_t row_bytes() const { return (static_cast<std::size_t>(width) * bits + 7) / 8; }
  std::size_t stride() const { return (static_cast<std::size_t>(width) * bits + 31) / 32 * 4; }
};

std::uint32_t little_endian(ImageBytes bytes, std::size_t at, std::size_t width) {
  std::uint32_t value = 0;
  for (std::size_t i = width; i-- > 0;)
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
  return value;
}

Result<void> read_fields(ImageBytes bytes, std::size_t info_bytes, Layout& layout) {
  if (layout.bits == 16) layout.fields = {{{0x7c00}, {0x3e0}, {0x1f}}};
  if (layout.bits == 32) layout.fields = {{{0xff0000}, {0xff00}, {0xff}}};
  if (layout.compression != kBitFields) return {};
  if (layout.bits != 16 && layout.bits != 32) {
    return fail(ErrorCode::kUndecodable, "BMP: bit fields with {} bits a pixel", layout.bits);
  }
  // Right after a 40-byte header, or inside a longer one: the same place.
  constexpr std::size_t kMasksAt = 14 + 40;
  if (bytes.size() < kMasksAt + 16) return fail(ErrorCode::kUndecodable, "BMP: truncated header");
  std::array<Field, 3> fields;
  for (std::size_t i = 0; i < 3; ++i) fields[i].mask = little_endian(bytes, kMasksAt + 4 * i, 4);
  const std::uint32_t alpha = info_bytes >= 56 ? little_endian(bytes, kMasksAt + 12, 4) : 0;
  if (layout.bits == 32) layout.alpha.mask = alpha;
  if (fields[0].mask == 0 && fields[1].mask == 0 && fields[2].mask == 0 && layout.bits == 32) {
    layout.alpha.mask = 0xff000000;  // Pillow reads "all zero" as BGRA
    return {};
  }
  const bool valid = fields[0].valid() && fields[1].valid() && fields[2].valid() &&
                     (layout.alpha.mask == 0 || layout.alpha.valid());
  if (!valid) {
    return fail(ErrorCode::kUndecodable, "BMP: bit fields {:#x}, {:#x}, {:#x}, {:#x}",
                fields[0].mask, fields[1].mask, fields[2].mask, alpha);
  }
  layout.fields = fields;
  return {};
}

// Reads the table after the header; returns where it ends.
Result<std::size_t> read_palette(ImageBytes bytes, std::size_t at, std::size_t entry_bytes,
                                 std::uint32_t count, Layout& layout) {
  if (count > 65536) return fail(ErrorCode::kUndecodable, "BMP: {} palette entries", count);
  if (bytes.size() < at + count * entry_bytes) {
    return fail(ErrorCode::kUndecodable, "BMP: truncated palette");
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 256); ++i) {
    for (std::size_t c = 0; c < 3; ++c)
      layout.palette[i][c] = std::to_integer<std::uint8_t>(bytes[at + i * entry_bytes + 2 - c]);
  }
  return at + count * entry_bytes;
}

Result<Layout> read_layout(ImageBytes bytes) {
  if (bytes.size() < 14 + 12) return fail(ErrorCode::kUndecodable, "BMP: truncated header");
  const std::size_t info_bytes = little_endian(bytes, 14, 4);
  constexpr std::array<std::size_t, 7> kHeaders = {12, 40, 52, 56, 64, 108, 124};
  if (std::find(kHeaders.begin(), kHeaders.end(), info_bytes) == kHeaders.end()) {
    return fail(ErrorCode::kUndecodable, "BMP: a header of {} bytes", info_bytes);
  }
  if (bytes.size() < 14 + info_bytes) {
    return fail(ErrorCode::kUndecodable, "BMP: truncated header");
  }

  Layout layout;
  std::uint32_t colours = 0;
  const bool core = info_bytes == 12;
  if (core) {
    layout.width = little_endian(bytes, 18, 2);
    layout.height = little_endian(bytes, 20, 2);
    layout.bits = little_endian(bytes, 24, 2);
  } else {
    const std::uint32_t height = little_endian(bytes, 22, 4);
    layout.width = little_endian(bytes, 18, 4);
    layout.top_down = height >> 24 == 0xff;
    layout.height = layout.top_down ? 0x1'0000'0000 - std::int64_t{height} : height;
    layout.bits = little_endian(bytes, 28, 2);
    layout.compression = little_endian(bytes, 30, 4);
    colours = little_endian(bytes, 46, 4);
  }
  constexpr std::array<std::uint32_t, 6> kDepths = {1, 4, 8, 16, 24, 32};
  if (std::find(kDepths.begin(), kDepths.end(), layout.bits) == kDepths.end()) {
    return fail(ErrorCode::kUndecodable, "BMP: {} bits a pixel", layout.bits);
  }
  const bool rle = (layout.compression == kRle8 && layout.bits == 8) ||
                   (layout.compression == kRle4 && layout.bits == 4);
  if (layout.compression != kRaw && layout.compression != kBitFields && !rle) {
    return fail(ErrorCode::kUndecodable, "BMP: compression {} with {} bits a pixel",
                layout.compression, layout.bits);
  }
  TRY_DO(read_fields(bytes, info_bytes, layout));

  std::size_t end =
      14 + info_bytes + (layout.compression == kBitFields && !core && info_bytes == 40 ? 12 : 0);
  std::size_t start = little_endian(bytes, 10, 4);
  if (layout.bits <= 8) {
    if (colours == 0) colours = 1u << layout.bits;
    TRY(end, read_palette(bytes, end, core ? 3 : 4, colours, layout));
    if (start == 14 + info_bytes) start = end;  // some writers forget their palette
  }
  if (start == 0) start = end;
  if (start > bytes.size()) return fail(ErrorCode::kUndecodable, "BMP: truncated");
  layout.pixels = bytes.subspan(start);
  return layout;
}

// Expands runs to one index a pixel, in file order; pixels that the runs skip are index 0.
Result<std::vector<std::uint8_t>> expand_runs(const Layout& layout, const Cancelled& cancelled) {
  const bool nibbles = layout.compression == kRle4;
  const auto width = static_cast<std::size_t>(layout.width);
  const auto height = static_cast<std::size_t>(layout.height);
  TRY(std::vector<std::uint8_t> out, filled(width * height, 0, cancelled));
  std::size_t x = 0, y = 0, at = 0;
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint8_t>(layout.pixels[i]); };
  const auto put = [&](std::uint8_t index) {
    if (x < width && y < height) out[y * width + x] = index;
    ++x;
  };
  constexpr std::size_t kCodes = 4096;  // between two questions: a million pixels at the most
  for (std::size_t code = 0; y < height && !(y + 1 == height && x >= width); ++code) {
    if (code % kCodes == 0) TRY_DO(check_cancelled(cancelled));
    if (layout.pixels.size() - at < 2) return fail(ErrorCode::kUndecodable, "BMP: truncated runs");
    const std::size_t count = byte(at);
    const std::uint8_t value = byte(at + 1);
    at += 2;
    if (count > 0) {  // a run
      for (std::size_t i = 0; i < count; ++i)
        put(!nibbles ? value : (i % 2 == 0 ? value >> 4 : value & 15));
    } else if (value == 0) {  // end of line
      x = 0;
      ++y;
    } else if (value == 1) {  // end of bitmap
      break;
    } else if (value == 2) {  // move
      if (layout.pixels.size() - at < 2)
        return fail(ErrorCode::kUndecodable, "BMP: truncated runs");
      x += byte(at);
      y += byte(at + 1);
      at += 2;
    } else {  // literal pixels, padded to 16 bits
      const std::size_t bytes = nibbles ? (value + 1u) / 2 : value;
      if (layout.pixels.size() - at < bytes)
        return fail(ErrorCode::kUndecodable, "BMP: truncated runs");
      for (std::size_t i = 0; i < value; ++i) {
        const std::uint8_t packed = byte(at + (nibbles ? i / 2 : i));
        put(!nibbles ? packed : (i % 2 == 0 ? packed >> 4 : packed & 15));
      }
      at = std::min(at + bytes + bytes % 2, layout.pixels.size());
    }
  }
  return out;
}

void convert_row(const Layout& layout, ImageBytes row, std::uint8_t* rgb) {
  const auto width = static_cast<std::size_t>(layout.width);
  for (std::size_t x = 0; x < width; ++x, rgb += 3) {
    switch (layout.bits) {
      case 24:
        for (std::size_t c = 0; c < 3; ++c)
          rgb[c] = std::to_integer<std::uint8_t>(row[3 * x + 2 - c]);
        break;
      case 16:
      case 32: {
        const std::size_t bytes = layout.bits / 8;
        const std::uint32_t pixel = little_endian(row, x * bytes, bytes);
        const std::uint8_t alpha = layout.alpha.mask == 0 ? 255 : layout.alpha.of(pixel);
        for (std::size_t c = 0; c < 3; ++c) rgb[c] = over_white(layout.fields[c].of(pixel), alpha);
        break;
      }
      default: {  // 1, 4, 8: the first pixel in the high bits
        const std::size_t per_byte = 8 / layout.bits;
        const std::size_t shift = 8 - layout.bits * (x % per_byte + 1);
        const std::uint32_t packed = std::to_integer<std::uint32_t>(row[x / per_byte]);
        std::memcpy(rgb, layout.palette[packed >> shift & ((1u << layout.bits) - 1)].data(), 3);
      }
    }
  }
}

}  // namespace

Result<StoredHeader> read_bmp_header(ImageBytes bytes) {
  TRY(const Layout layout, read_layout(bytes));
  return StoredHeader{layout.width, layout.height, Orientation::kTopLeft};
}

Result<Pixels> read_bmp(ImageBytes bytes, const Cancelled& cancelled) {
  TRY(Layout layout, read_layout(bytes));
  std::vector<std::uint8_t> indices;
  std::size_t stride = layout.stride();
  if (layout.compression == kRle8 || layout.compression == kRle4) {
    TRY(indices, expand_runs(layout, cancelled));
    layout.pixels = std::as_bytes(std::span(indices));
    layout.bits = 8;
    stride = static_cast<std::size_t>(layout.width);
  }
  // The last row may lack its padding.
  const std::size_t needed =
      stride * static_cast<std::size_t>(layout.height - 1) + layout.row_bytes();
  if (layout.pixels.size() < needed) {
    return fail(ErrorCode::kUndecodable, "BMP: truncated: {} of {} pixel bytes",
                layout.pixels.size(), needed);
  }
  const int height = static_cast<int>(layout.height);
  TRY(Pixels pixels, filled_pixels(static_cast<int>(layout.width), height, 0, cancelled));
  for (int y = 0; y < height; ++y) {
    TRY_DO(check_cancelled(cancelled));
    const int to = layout.top_down ? y : height - 1 - y;
    convert_row(layout, layout.pixels.subspan(static_cast<std::size_t>(y) * stride),
                pixels.rgb.data() + static_cast<std::size_t>(to) * pixels.width * 3);
  }
  return pixels;
}

}  // namespace saccade
