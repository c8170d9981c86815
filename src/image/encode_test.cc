#include <gtest/gtest.h>

#include "image/bmp_encode.h"
#include "tests/support/golden_pictures.h"

namespace saccade {
namespace {

using test::digest_of;
using test::golden_pixels;
using test::read_table;

TEST(Encode, JpegBytesEqualPillows) {
  const auto rows = read_table("encode.tsv");
  ASSERT_GT(rows.size(), 30u);
  for (const auto& row : rows) {
    const Result<std::vector<std::byte>> jpeg =
        encode_jpeg(golden_pixels(row[0]), std::stoi(row[1]));
    ASSERT_TRUE(jpeg.has_value()) << jpeg.error().message;
    EXPECT_EQ(digest_of(*jpeg), row[2]) << row[0] << " at quality " << row[1];
  }
}

TEST(Encode, PngIsLossless) {
  const Pixels pixels = golden_pixels("sources/photo.png");
  const Result<std::vector<std::byte>> png = encode_png(pixels);
  ASSERT_TRUE(png.has_value()) << png.error().message;
  const Result<Pixels> back = decode_image(*png);
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->rgb, pixels.rgb);
}

TEST(Encode, BmpIsLosslessAtEveryWidth) {
  const Pixels photo = golden_pixels("sources/photo.png");
  for (const int width : {1, 2, 3, 4, 5, 30}) {
    const Pixels pixels = crop(photo, 1, 2, width, 7);
    const std::string bmp = encode_bmp(pixels);
    EXPECT_EQ(bmp.size(), bmp_bytes(width, 7));
    const Result<Pixels> back = decode_image(std::as_bytes(std::span(bmp)));
    ASSERT_TRUE(back.has_value()) << back.error().message;
    EXPECT_EQ(back->width, width);
    EXPECT_EQ(back->height, 7);
    EXPECT_EQ(back->rgb, pixels.rgb);
  }
}

TEST(Encode, RefusesWhatTheFormatCannotHold) {
  EXPECT_EQ(encode_jpeg(Pixels{}, 75).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(encode_png(Pixels{}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(encode_jpeg(Pixels{70'000, 1, std::vector<std::uint8_t>(210'000)}, 75).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(encode_jpeg(Pixels{1, 1, {0, 0, 0}}, 101).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace saccade
