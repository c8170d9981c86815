#include "model/towers/position_grid.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>

namespace saccade {
namespace {

TEST(PositionGrid, TheSameSizeIsTheSameNumbers) {
  std::vector<float> rows(4 * 4 * 3);
  std::iota(rows.begin(), rows.end(), 0.5f);
  EXPECT_EQ(resample_positions(rows, 4, 4, 3), rows);
}

// torch.nn.functional.interpolate(torch.tensor([[[[1., 2.], [3., 5.]]]]), size=(3, 3),
// mode="bicubic", align_corners=False) of torch 2.13.
TEST(PositionGrid, TapsAreTorchs) {
  const std::vector<float> out = resample_positions({1, 2, 3, 5}, 2, 3, 1);
  const std::vector<float> expected = {0.7471f, 1.2830f, 1.8189f, 1.8698f, 2.7500f,
                                       3.6302f, 2.9925f, 4.2170f, 5.4416f};
  ASSERT_EQ(out.size(), expected.size());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 6e-5f) << i;
}

TEST(PositionGrid, AConstantStaysConstant) {
  for (const float value : resample_positions(std::vector<float>(5 * 5 * 2, 1.5f), 5, 8, 2))
    EXPECT_NEAR(value, 1.5f, 1e-6f);
}

// torch.nn.functional.interpolate(torch.tensor([[[[1., 2., 4.], [3., 5., 9.], [0., -1., 7.]]]]),
// size=(2, 4), mode="bilinear", align_corners=True) of torch 2.13, and for size=(4, 1).
TEST(PositionGrid, BilinearTapsAreTorchs) {
  const std::vector<float> square = {1, 2, 4, 3, 5, 9, 0, -1, 7};
  const auto stretched = [&](std::int64_t height, std::int64_t width) {
    PositionTaps taps;
    for (std::int64_t row = 0; row < height; ++row)
      for (std::int64_t column = 0; column < width; ++column)
        add_bilinear_taps(row, height, column, width, 3, taps);
    EXPECT_EQ(taps.rows.size(), static_cast<std::size_t>(4 * height * width));
    std::vector<float> out(taps.rows.size() / 4, 0);
    for (std::size_t i = 0; i < taps.rows.size(); ++i)
      out[i / 4] += taps.weights[i] * square.at(static_cast<std::size_t>(taps.rows[i]));
    return out;
  };
  const auto expect_near = [](const std::vector<float>& out, const std::vector<float>& expected) {
    ASSERT_EQ(out.size(), expected.size());
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 6e-5f) << i;
  };
  expect_near(stretched(2, 4), {1, 1.6667f, 2.6667f, 4, 0, -0.6667f, 1.6667f, 7});
  expect_near(stretched(4, 1), {1, 2.3333f, 2, 0});
  expect_near(stretched(3, 3), square);
}

// tests/golden/smolvlm2/positions.tsv, from the reference's embeddings: each side, and the places
// along it that take another row than their own.
TEST(BucketedPositions, AreTheReferences) {
  std::ifstream file(SACCADE_SOURCE_DIR "/tests/golden/smolvlm2/positions.tsv");
  ASSERT_TRUE(file);
  std::string line;
  int sides = 0;
  std::size_t others = 0;
  for (; std::getline(file, line); ++sides) {
    std::istringstream fields(line);
    std::int64_t side = 0;
    fields >> side;
    std::vector<std::int32_t> along(static_cast<std::size_t>(side));
    std::iota(along.begin(), along.end(), 0);
    std::size_t at = 0;
    char colon = 0;
    std::int32_t row = 0;
    for (; fields >> at >> colon >> row; ++others) along.at(at) = row;
    std::vector<std::int32_t> expected;
    for (const std::int32_t y : along) {
      for (const std::int32_t x : along)
        expected.push_back(y * static_cast<std::int32_t>(side) + x);
    }
    EXPECT_EQ(bucketed_positions(side), expected) << side;
  }
  EXPECT_EQ(sides, 128);
  EXPECT_GT(others, 100u);
}

// tests/golden/minicpmv/positions.tsv: the square's side, patches, sum((i + 1) * position).
TEST(NearestPositions, AreTheReferences) {
  std::ifstream file(SACCADE_SOURCE_DIR "/tests/golden/minicpmv/positions.tsv");
  ASSERT_TRUE(file);
  int grids = 0;
  for (std::string line; std::getline(file, line); ++grids) {
    std::istringstream fields(line);
    std::int64_t side = 0;
    std::int64_t count = 0;
    std::int64_t expected = 0;
    fields >> side >> count >> expected;
    const std::vector<std::int32_t> along = nearest_positions(count, side);
    ASSERT_EQ(std::ssize(along), count);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += (i + 1) * along[static_cast<std::size_t>(i)];
    EXPECT_EQ(sum, expected) << side << " " << count;
  }
  EXPECT_EQ(grids, 12 * 128);
}

// Between the places of a square of the same size there is nothing to blend, and a square that is
// stretched alike both ways is resample_positions' own.
TEST(PositionGrid, BicubicTapsAreTheResampledSquare) {
  constexpr std::int64_t kSide = 5;
  std::vector<float> rows(kSide * kSide);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<float>(i * i % 7) - 0.25f * static_cast<float>(i);
  for (const std::int64_t to : {2, 4, 5, 9}) {
    const std::vector<float> expected = resample_positions(rows, kSide, to, 1);
    for (std::int64_t y = 0; y < to; ++y) {
      for (std::int64_t x = 0; x < to; ++x) {
        PositionTaps taps;
        add_bicubic_taps(y, to, x, to, kSide, taps);
        ASSERT_EQ(taps.rows.size(), 16u);
        float value = 0;
        for (std::size_t i = 0; i < 16; ++i)
          value += taps.weights[i] * rows[static_cast<std::size_t>(taps.rows[i])];
        EXPECT_NEAR(value, expected[static_cast<std::size_t>(y * to + x)], 1e-5) << y << ", " << x;
      }
    }
  }
}

}  // namespace
}  // namespace saccade
