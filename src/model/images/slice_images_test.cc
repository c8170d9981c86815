// Images in slices: how large the whole and the slices become, and that no image is larger than
// what room is set aside for.
#include "model/images/slice_images.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"

namespace saccade {
namespace {

std::int64_t squares(const ImageSize& size, const SliceSettings& settings) {
  return std::int64_t{size.width / settings.square()} * (size.height / settings.square());
}

// As transformers' MiniCPMV4_6ImageProcessor cuts them.
TEST(SliceImages, AreCutAsTheReferences) {
  struct Case {
    int width;
    int height;
    SliceExtents expected;
  };
  const std::array cases = {Case{448, 448, {{448, 448}, 0, 0, {0, 0}}},
                            Case{449, 448, {{448, 448}, 2, 1, {616, 336}}},
                            Case{1920, 1080, {{336, 616}, 4, 2, {448, 448}}},
                            Case{1080, 1920, {{616, 336}, 2, 4, {448, 448}}},
                            Case{640, 480, {{392, 504}, 2, 1, {560, 392}}},
                            Case{4000, 900, {{224, 952}, 8, 1, {616, 336}}},
                            Case{33, 20, {{336, 560}, 0, 0, {0, 0}}},
                            Case{1, 200, {{6328, 56}, 0, 0, {0, 0}}},
                            Case{3000, 3000, {{448, 448}, 3, 3, {448, 448}}},
                            Case{776, 259, {{280, 784}, 3, 1, {448, 448}}}};
  for (const Case& each : cases) {
    SCOPED_TRACE(fmt::format("{}x{}", each.width, each.height));
    const auto cut = slice_extents(each.width, each.height, {});
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_EQ(*cut, each.expected);
  }
  EXPECT_FALSE(slice_extents(201, 1, {}));
  EXPECT_FALSE(slice_extents(1, 201, {}));
  EXPECT_FALSE(slice_extents(0, 1, {}));
}

TEST(SliceImages, NoneIsLargerThanTheRoomForIt) {
  Rng rng(7);
  for (const SliceSettings& settings :
       {SliceSettings{}, SliceSettings{.scale = 56, .patch = 7, .max_slices = 9},
        SliceSettings{.scale = 20, .patch = 14, .max_slices = 4},
        SliceSettings{.scale = 900, .patch = 3, .max_slices = 25}}) {
    const std::int64_t most = max_squares_of_slice(settings);
    std::int64_t largest = 0;
    for (int i = 0; i < 20'000; ++i) {
      const auto longer = static_cast<int>(1 + rng.below(i % 2 == 0 ? 6000 : 300));
      const int least = (longer + 199) / 200;
      const auto shorter =
          least + static_cast<int>(rng.below(static_cast<std::uint64_t>(i % 3 == 0 ? 4 : longer)));
      const bool on_side = rng.below(2) == 1;
      const auto cut =
          slice_extents(on_side ? shorter : longer, on_side ? longer : shorter, settings);
      if (!cut) continue;
      largest = std::max(largest, squares(cut->whole, settings));
      ASSERT_LE(squares(cut->whole, settings), most) << longer << " " << shorter;
      if (cut->across == 0) continue;
      ASSERT_LE(cut->across * cut->down, settings.max_slices);
      ASSERT_LE(squares(cut->slice, settings), most) << longer << " " << shorter;
    }
    EXPECT_GT(2 * largest, most);  // the room is not a multiple of what is needed
  }
}

// A square's patches stand quarter by quarter: of a strip whose pixels say which patch they are of.
TEST(SliceImages, RowsGoByQuarters) {
  constexpr int kPatch = 3;
  constexpr int kSide = kSquarePatches * kPatch;
  Pixels strip{kSide, 2 * kSide, {}};
  for (int y = 0; y < strip.height; ++y)
    for (int x = 0; x < strip.width; ++x)
      strip.rgb.insert(strip.rgb.end(), 3,
                       static_cast<std::uint8_t>(y / kPatch * kSquarePatches + x / kPatch));
  const NormalizeTable normalize({.rescale = 1, .mean = {0, 0, 0}, .std = {1, 1, 1}});
  const SquareRows rows(kPatch, normalize);
  std::vector<float> cut(static_cast<std::size_t>(30 * rows.row_length()));
  rows.cut({&strip, 1}, 2, 32, cut);
  const std::array<int, 16> order = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  for (std::size_t row = 2; row < 32; ++row)
    EXPECT_EQ(cut[(row - 2) * static_cast<std::size_t>(rows.row_length())],
              static_cast<float>(row / 16 * 16 + static_cast<std::size_t>(order[row % 16])));
}

}  // namespace
}  // namespace saccade
