#include "image/exif.h"

#include <gtest/gtest.h>

#include <string>

namespace saccade {
namespace {

std::optional<std::int64_t> parse(const std::string& block) {
  return exif_orientation(std::as_bytes(std::span(block)));
}

std::string block(std::uint8_t type, std::uint8_t count, std::uint8_t value) {
  std::string bytes("II*\0\x08\0\0\0\x01\0\x12\x01", 12);
  bytes += {static_cast<char>(type), 0, static_cast<char>(count), 0, 0, 0};
  bytes += {static_cast<char>(value), 0, 0, 0, 0, 0, 0, 0};
  return bytes;
}

TEST(Exif, ReadsTheTag) {
  EXPECT_EQ(parse(block(3, 1, 6)), 6);
  EXPECT_EQ(parse(block(4, 1, 8)), 8);
  EXPECT_EQ(parse(std::string("Exif\0\0", 6) + block(3, 1, 5)), 5);
  EXPECT_EQ(parse(block(3, 2, 6)), std::nullopt);  // two values are no orientation
  EXPECT_EQ(parse(block(2, 1, 6)), std::nullopt);  // nor is text
}

TEST(Exif, DamagedBlocksHaveNoTag) {
  const std::string whole = block(3, 1, 6);
  for (std::size_t length = 0; length < 22; ++length) {
    EXPECT_EQ(parse(whole.substr(0, length)), std::nullopt) << length;
  }
  std::string far = whole;
  far.replace(4, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(parse(far), std::nullopt);
  EXPECT_EQ(parse("XX*" + whole), std::nullopt);
}

TEST(Exif, ReadsXmp) {
  EXPECT_EQ(xmp_orientation("<a tiff:Orientation=\"7\"/>"), 7);
  EXPECT_EQ(xmp_orientation("<tiff:Orientation>3</tiff:Orientation>"), 3);
  EXPECT_EQ(xmp_orientation("tiff:Orientation='7' tiff:Orientation=\"2\""), 2);
  EXPECT_EQ(xmp_orientation("tiff:Orientation=\""), std::nullopt);
}

TEST(Exif, ExifWinsOverXmp) {
  EXPECT_EQ(orientation_of(6, 3), Orientation::kRightTop);
  EXPECT_EQ(orientation_of(9, 3), Orientation::kTopLeft);
  EXPECT_EQ(orientation_of(std::nullopt, 3), Orientation::kBottomRight);
  EXPECT_EQ(orientation_of(std::nullopt, std::nullopt), Orientation::kTopLeft);
}

// 2x1: pixels A, B. What each orientation shows, in reading order.
TEST(Exif, TurnsPixels) {
  const Pixels stored{2, 1, {'A', 0, 0, 'B', 0, 0}};
  const auto shown = [&](int orientation) {
    const Pixels upright = *oriented(stored, static_cast<Orientation>(orientation));
    std::string text = std::to_string(upright.width) + "x" + std::to_string(upright.height) + " ";
    for (std::size_t i = 0; i < upright.rgb.size(); i += 3)
      text += static_cast<char>(upright.rgb[i]);
    return text;
  };
  EXPECT_EQ(shown(1), "2x1 AB");
  EXPECT_EQ(shown(2), "2x1 BA");
  EXPECT_EQ(shown(3), "2x1 BA");
  EXPECT_EQ(shown(4), "2x1 AB");
  EXPECT_EQ(shown(5), "1x2 AB");
  EXPECT_EQ(shown(6), "1x2 AB");
  EXPECT_EQ(shown(7), "1x2 BA");
  EXPECT_EQ(shown(8), "1x2 BA");
}

}  // namespace
}  // namespace saccade
