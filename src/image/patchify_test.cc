// Patches and sizes equal those of transformers' Qwen2VLImageProcessorPil.
#include "image/patchify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "image/smart_resize.h"
#include "tests/support/golden_pictures.h"

namespace saccade {
namespace {

using test::digest_of;
using test::golden_pixels;
using test::read_table;

TEST(SmartResize, EqualsTransformers) {
  const auto rows = read_table("smart_resize.tsv");
  ASSERT_GT(rows.size(), 300u);
  for (const auto& row : rows) {
    const auto number = [&](std::size_t i) { return std::stoll(row[i]); };
    const Result<ImageSize> size =
        smart_resize(number(0), number(1), number(2), number(3), number(4));
    if (row[5] == "error") {
      EXPECT_FALSE(size.has_value()) << row[0] << "x" << row[1];
    } else {
      ASSERT_TRUE(size.has_value()) << size.error().message;
      EXPECT_EQ(std::to_string(size->height), row[5]) << row[0] << "x" << row[1];
      EXPECT_EQ(std::to_string(size->width), row[6]) << row[0] << "x" << row[1];
    }
  }
}

TEST(SmartResize, RefusesWhatHasNoSize) {
  EXPECT_EQ(smart_resize(1, 201, 28, 3136, 1 << 20).error().code, ErrorCode::kInvalid);
  EXPECT_NE(smart_resize(1, 201, 28, 3136, 1 << 20).error().message.find("201.0, limit 200"),
            std::string::npos);
  EXPECT_FALSE(smart_resize(0, 5, 28, 3136, 1 << 20).has_value());
  EXPECT_FALSE(smart_resize(5, 5, 0, 3136, 1 << 20).has_value());
  EXPECT_FALSE(smart_resize(5, 5, 28, 0, 1 << 20).has_value());
  EXPECT_FALSE(smart_resize(5, 5, 28, INT64_MAX, INT64_MAX).has_value());
  EXPECT_FALSE(smart_resize(INT64_MAX, INT64_MAX, 28, 1, INT64_MAX).has_value());
}

TEST(Patchify, EqualsTransformers) {
  for (const auto& row : read_table("patchify.tsv")) {
    const auto number = [&](std::size_t i) { return std::stoi(row[i]); };
    const PatchLayout layout{number(1), number(2), number(3)};
    const Pixels from = golden_pixels(row[0]);
    const Result<ImageSize> size = smart_resize(
        from.height, from.width, layout.patch_size * layout.merge_size, number(4), number(5));
    ASSERT_TRUE(size.has_value()) << size.error().message;
    const Pixels pixels = resize(from, size->width, size->height, ResampleFilter::kBicubic);
    EXPECT_EQ(pixels.height / layout.patch_size, number(6)) << row[0];
    EXPECT_EQ(pixels.width / layout.patch_size, number(7)) << row[0];
    std::vector<float> rows(static_cast<std::size_t>(layout.rows(pixels) * layout.row_length()));
    patchify({&pixels, 1}, layout, NormalizeTable(), rows);
    EXPECT_EQ(digest_of(rows), row[8]) << row[0];
  }
}

TEST(Patchify, NeighboursThatMergeAreAdjacentRows) {
  // 4x4 patches of one pixel, each pixel its raster number.
  Pixels pixels{4, 4, {}};
  for (std::uint8_t i = 0; i < 16; ++i) pixels.rgb.insert(pixels.rgb.end(), {i, i, i});
  std::vector<float> rows(16 * 3);
  patchify({&pixels, 1}, {1, 2, 1}, NormalizeTable({1.0, {0, 0, 0}, {1, 1, 1}}), rows);
  std::vector<float> first_channel;
  for (std::size_t r = 0; r < 16; ++r) first_channel.push_back(rows[3 * r]);
  EXPECT_EQ(first_channel,
            (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}));
}

TEST(Patchify, AnyRowsAreThoseOfTheWhole) {
  Pixels pixels{24, 12, {}};
  for (int i = 0; i < 24 * 12 * 3; ++i)
    pixels.rgb.push_back(static_cast<std::uint8_t>(i * 89 % 256));
  const PatchLayout layout{.patch_size = 2, .merge_size = 3, .temporal_patch_size = 2};
  const NormalizeTable table;
  const std::int64_t length = layout.row_length();
  std::vector<float> whole(static_cast<std::size_t>(layout.rows(pixels) * length));
  patchify({&pixels, 1}, layout, table, whole);
  for (std::int64_t begin = 0; begin <= layout.rows(pixels); begin += 5) {
    const std::int64_t end = std::min(begin + 13, layout.rows(pixels));
    std::vector<float> part(static_cast<std::size_t>((end - begin) * length));
    patchify_rows({&pixels, 1}, layout, table, begin, end, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin * length)) << begin;
  }
}

TEST(Patchify, FramesStandBehindEachOther) {
  const PatchLayout layout{.patch_size = 1, .merge_size = 1, .temporal_patch_size = 3};
  const NormalizeTable table(NormalizeSettings{});
  const std::vector<Pixels> frames = {{1, 1, {10, 20, 30}}, {1, 1, {40, 50, 60}}};
  std::vector<float> row(9);
  patchify(frames, layout, table, row);
  for (std::size_t c = 0; c < 3; ++c) {
    const auto& values = table.channel(static_cast<int>(c));
    EXPECT_EQ(row[3 * c], values[frames[0].rgb[c]]);
    EXPECT_EQ(row[3 * c + 1], values[frames[1].rgb[c]]);
    EXPECT_EQ(row[3 * c + 2], values[frames[1].rgb[c]]);  // the last again
  }
}

}  // namespace
}  // namespace saccade
