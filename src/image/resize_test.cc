// Resizing equals Pillow's, pass orders and kernels included.
#include <gtest/gtest.h>

#include <iterator>
#include <map>

#include "base/rng.h"
#include "image/resize_kernels.h"
#include "tests/support/golden_pictures.h"

namespace saccade {
namespace {

using test::digest_of;
using test::golden_pixels;
using test::read_table;

constexpr ResampleFilter kFilters[] = {ResampleFilter::kBilinear, ResampleFilter::kBicubic,
                                       ResampleFilter::kLanczos, ResampleFilter::kBox,
                                       ResampleFilter::kHamming};

TEST(Resize, EqualsPillow) {
  const std::map<std::string, ResampleFilter> filters = {
      {"bilinear", ResampleFilter::kBilinear}, {"bicubic", ResampleFilter::kBicubic},
      {"lanczos", ResampleFilter::kLanczos},   {"box", ResampleFilter::kBox},
      {"hamming", ResampleFilter::kHamming},   {"nearest", ResampleFilter::kNearest}};
  const auto rows = read_table("resize.tsv");
  ASSERT_GE(rows.size(), 180u);
  int order_matters = 0;
  for (const auto& row : rows) {
    SCOPED_TRACE(row[0] + " " + row[1] + " to " + row[2] + "x" + row[3]);
    const Pixels from = golden_pixels(row[0]);
    const int width = std::stoi(row[2]);
    const int height = std::stoi(row[3]);
    const ResampleFilter filter = filters.at(row[1]);
    EXPECT_EQ(digest_of(resize(from, width, height, filter).rgb), row[4]);
    order_matters += row[4] != row[5] ? 1 : 0;  // the other order's
  }
  EXPECT_GT(order_matters, 10);
}

std::vector<std::uint8_t> random_bytes(Rng& rng, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) {
    const std::uint64_t draw = rng();  // extremes often, where rounding and clipping show
    byte = static_cast<std::uint8_t>(draw % 3 == 0 ? (draw >> 8 & 1) * 255 : draw >> 16);
  }
  return bytes;
}

TEST(Resize, FastKernelsEqualTheReference) {
  int tested = 0;
  for (const ResizeKernels* fast : {avx2_resize_kernels(), avx512_resize_kernels()}) {
    if (fast == nullptr) continue;
    ++tested;
    Rng rng(11);
    for (int round = 0; round < 300; ++round) {
      const auto draw = [&](int most) { return 1 + static_cast<int>(rng.below(most)); };
      Pixels from{draw(round % 10 == 0 ? 900 : 60), draw(round % 10 == 5 ? 900 : 60), {}};
      from.rgb = random_bytes(rng, static_cast<std::size_t>(from.width) * from.height * 3);
      const int width = draw(90);
      const int height = draw(90);
      const ResampleFilter filter = kFilters[rng.below(std::size(kFilters))];
      ASSERT_EQ(resize_with(*fast, from, width, height, filter).rgb,
                resize_with(portable_resize_kernels(), from, width, height, filter).rgb)
          << from.width << "x" << from.height << " to " << width << "x" << height;
    }
  }
  if (tested == 0) GTEST_SKIP() << "this CPU has neither AVX2 nor AVX-512 VNNI";
}

TEST(Resize, WeightsSumToOneAndStayInside) {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    const int from = 1 + static_cast<int>(rng.below(2'000));
    const int to = 1 + static_cast<int>(rng.below(500));
    const ResampleTable table =
        make_resample_table(from, to, kFilters[rng.below(std::size(kFilters))]);
    for (int i = 0; i < table.outputs(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      ASSERT_GE(table.first[at], 0);
      ASSERT_GE(table.count[at], 1);
      ASSERT_LE(table.count[at], table.taps);
      ASSERT_LE(table.first[at] + table.count[at], from);
      std::int64_t total = 0;
      for (int k = 0; k < table.taps; ++k) total += table.weights_of(i)[k];
      EXPECT_NEAR(static_cast<double>(total), 1 << kWeightBits, table.count[at]);
    }
  }
}

TEST(Resize, FlatImagesStayFlat) {
  for (const int value : {0, 1, 127, 254, 255}) {
    const Pixels flat{37, 23,
                      std::vector<std::uint8_t>(37 * 23 * 3, static_cast<std::uint8_t>(value))};
    for (const ResampleFilter filter : kFilters) {
      const Pixels to = resize(flat, 50, 11, filter);
      EXPECT_EQ(to.rgb, std::vector<std::uint8_t>(50 * 11 * 3, static_cast<std::uint8_t>(value)));
    }
  }
}

}  // namespace
}  // namespace saccade
