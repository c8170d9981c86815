// Orientation: where a file says how its pixels lie, and turning them upright.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "image/pixels.h"

namespace saccade {

// EXIF tag 0x0112. The names say where the stored row 0 and column 0 are shown.
enum class Orientation : std::uint8_t {
  kTopLeft = 1,
  kTopRight = 2,
  kBottomRight = 3,
  kBottomLeft = 4,
  kLeftTop = 5,
  kRightTop = 6,
  kRightBottom = 7,
  kLeftBottom = 8,
};

// True when width and height change places.
constexpr bool swaps_sides(Orientation orientation) { return orientation >= Orientation::kLeftTop; }

// The tag's value in the first directory of a TIFF block (with or without "Exif\0\0" in front), if
// the tag is there; any value. Damaged blocks have no tag.
std::optional<std::int64_t> exif_orientation(std::span<const std::byte> block);

// tiff:Orientation of an XMP packet.
std::optional<std::int64_t> xmp_orientation(std::string_view packet);

// EXIF wins where both are there; values outside 1..8 mean upright.
Orientation orientation_of(std::optional<std::int64_t> exif, std::optional<std::int64_t> xmp);

// What is stored so, upright. kCancelled once `cancelled` says so, asked every 32 rows.
Result<Pixels> turned(const Pixels& pixels, Orientation orientation, const Cancelled& cancelled);
// PIL.ImageOps.exif_transpose: the same, and upright ones as they are.
Result<Pixels> oriented(Pixels pixels, Orientation orientation, const Cancelled& cancelled = {});

}  // namespace saccade
