#include "image/exif.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "image/formats.h"

namespace saccade {
namespace {

// Numbers of a TIFF block in its own byte order; absent outside the block.
class TiffBlock {
 public:
  TiffBlock(std::span<const std::byte> bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<std::uint32_t> read(std::size_t offset, std::size_t width) const {
    if (offset > bytes_.size() || bytes_.size() - offset < width) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t at = big_endian_ ? offset + i : offset + width - 1 - i;
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_[at]);
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_;
};

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3, kLong = 4, kSignedByte = 6, kSignedShort = 8, kSignedLong = 9;

std::size_t width_of(std::uint32_t type) {
  switch (type) {
    case kSignedByte:
      return 1;
    case kShort:
    case kSignedShort:
      return 2;
    case kLong:
    case kSignedLong:
      return 4;
    default:
      return 0;
  }
}

// Where the pixel shown at (x, y) is stored.
std::pair<int, int> stored_at(Orientation orientation, int x, int y, int width, int height) {
  switch (orientation) {
    case Orientation::kTopLeft:
      break;
    case Orientation::kTopRight:
      return {width - 1 - x, y};
    case Orientation::kBottomRight:
      return {width - 1 - x, height - 1 - y};
    case Orientation::kBottomLeft:
      return {x, height - 1 - y};
    case Orientation::kLeftTop:
      return {y, x};
    case Orientation::kRightTop:
      return {y, height - 1 - x};
    case Orientation::kRightBottom:
      return {width - 1 - y, height - 1 - x};
    case Orientation::kLeftBottom:
      return {width - 1 - y, x};
  }
  return {x, y};
}

}  // namespace

std::optional<std::int64_t> exif_orientation(std::span<const std::byte> block) {
  constexpr char kPrefix[] = {'E', 'x', 'i', 'f', 0, 0};
  while (block.size() >= sizeof(kPrefix) &&
         std::memcmp(block.data(), kPrefix, sizeof(kPrefix)) == 0) {
    block = block.subspan(sizeof(kPrefix));
  }
  if (block.size() < 8) return std::nullopt;
  const bool little = std::memcmp(block.data(), "II*\0", 4) == 0;
  const bool big = std::memcmp(block.data(), "MM\0*", 4) == 0;
  if (!little && !big) return std::nullopt;

  const TiffBlock tiff(block, big);
  const std::size_t directory = *tiff.read(4, 4);
  const std::optional<std::uint32_t> count = tiff.read(directory, 2);
  std::optional<std::int64_t> found;
  for (std::size_t i = 0; count && i < *count; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (!tiff.read(entry + 8, 4)) break;
    const std::uint32_t type = *tiff.read(entry + 2, 2);
    if (*tiff.read(entry, 2) != kOrientationTag || *tiff.read(entry + 4, 4) != 1) continue;
    if (width_of(type) != 0) found = *tiff.read(entry + 8, width_of(type));
  }
  return found;
}

std::optional<std::int64_t> xmp_orientation(std::string_view packet) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::size_t at = packet.find(kName); at != std::string_view::npos;
       at = packet.find(kName, at + 1)) {
    std::string_view rest = packet.substr(at + kName.size());
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with(">")) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return rest[0] - '0';
  }
  return std::nullopt;
}

Orientation orientation_of(std::optional<std::int64_t> exif, std::optional<std::int64_t> xmp) {
  const std::int64_t value = exif ? *exif : xmp.value_or(1);
  return value >= 1 && value <= 8 ? static_cast<Orientation>(value) : Orientation::kTopLeft;
}

Result<Pixels> oriented(Pixels pixels, Orientation orientation, const Cancelled& cancelled) {
  if (orientation == Orientation::kTopLeft) return pixels;
  return turned(pixels, orientation, cancelled);
}

Result<Pixels> turned(const Pixels& pixels, Orientation orientation, const Cancelled& cancelled) {
  Pixels upright;
  upright.width = swaps_sides(orientation) ? pixels.height : pixels.width;
  upright.height = swaps_sides(orientation) ? pixels.width : pixels.height;
  TRY(upright.rgb, filled(pixels.rgb.size(), 0, cancelled));
  // Tiles keep both sides of a transpose in the cache.
  constexpr int kTile = 32;
  for (int top = 0; top < upright.height; top += kTile) {
    TRY_DO(check_cancelled(cancelled));
    for (int left = 0; left < upright.width; left += kTile) {
      for (int y = top; y < std::min(top + kTile, upright.height); ++y) {
        for (int x = left; x < std::min(left + kTile, upright.width); ++x) {
          const auto [from_x, from_y] = stored_at(orientation, x, y, pixels.width, pixels.height);
          const std::uint8_t* from =
              pixels.rgb.data() + (static_cast<std::size_t>(from_y) * pixels.width + from_x) * 3;
          std::uint8_t* to =
              upright.rgb.data() + (static_cast<std::size_t>(y) * upright.width + x) * 3;
          to[0] = from[0];
          to[1] = from[1];
          to[2] = from[2];
        }
      }
    }
  }
  return upright;
}

}  // namespace saccade
