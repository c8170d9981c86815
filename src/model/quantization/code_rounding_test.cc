// Rounding to codes at load: what a code is, that the clip is searched for, and what the words
// mean.
#include "model/quantization/code_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace saccade {
namespace {

double squared_error(std::span<const float> row, std::span<const std::int8_t> codes, float scale) {
  double sum = 0;
  for (std::size_t i = 0; i < row.size(); ++i)
    sum += std::pow(static_cast<double>(row[i]) - static_cast<double>(codes[i]) * scale, 2);
  return sum;
}

std::vector<float> normal(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>(0.1 * (rng.uniform() + rng.uniform() + rng.uniform() - 1.5));
  return values;
}

TEST(CodeRounding, CodesAreTheNearestOfTheirScale) {
  const std::vector<float> row = normal(128, 1);
  std::vector<std::int8_t> codes(row.size());
  for (const int bits : {4, 8}) {
    const float scale = round_group(row, {.bits = bits, .group = 128}, codes);
    ASSERT_GT(scale, 0);
    EXPECT_EQ(to_float(to_bf16(scale)), scale);
    const double low = -std::ldexp(1, bits - 1);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double nearest = std::clamp<double>(std::nearbyint(row[i] / scale), low, -low - 1);
      EXPECT_NEAR(codes[i], nearest, std::abs(row[i] / scale - nearest) > 0.499 ? 1 : 0) << i;
    }
  }
}

// Never worse than the scale that the largest magnitude gives, and better with an outlier.
TEST(CodeRounding, TheClipIsSearchedFor) {
  std::vector<float> row = normal(128, 2);
  std::vector<std::int8_t> codes(row.size());
  const auto plain_error = [&] {
    float most = 0;
    for (const float value : row) most = std::max(most, std::abs(value));
    const float scale = to_float(to_bf16(most / 7.5F));
    std::vector<std::int8_t> plain;
    for (const float value : row)
      plain.push_back(
          static_cast<std::int8_t>(std::clamp(std::nearbyint(value / scale), -8.F, 7.F)));
    return squared_error(row, plain, scale);
  };
  const float scale = round_group(row, {}, codes);
  EXPECT_LE(squared_error(row, codes, scale), plain_error() * 1.0001);
  row[17] *= 3;
  const float cut = round_group(row, {}, codes);
  EXPECT_LE(squared_error(row, codes, cut), plain_error() * 1.0001);
}

TEST(CodeRounding, WhatIsNoNumberOrNothing) {
  std::vector<std::int8_t> codes(32, 5);
  std::vector<float> row(32, 0);
  EXPECT_EQ(round_group(row, {.group = 32}, codes), 0);
  EXPECT_EQ(codes, std::vector<std::int8_t>(32, 0));
  row[3] = 1e-31F;
  EXPECT_EQ(round_group(row, {.group = 32}, codes), 0);
  row[3] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(round_group(row, {.group = 32}, codes)));
}

// What the words of a matrix say is what its groups were rounded to, on any number of threads.
TEST(CodeRounding, WordsAreTheCodes) {
  constexpr std::int64_t kOut = 37;
  constexpr std::int64_t kIn = 160;
  std::vector<float> numbers = normal(kOut * kIn, 3);
  const View view(numbers.data(), DType::kF32, kOut, kIn);
  for (const int bits : {4, 8}) {
    const CodeRounding rounding = {.bits = bits, .group = 64};
    ThreadPool one(1);
    ThreadPool three(3);
    const RoundedMatrix rounded(view, rounding, one);
    const RoundedMatrix again(view, rounding, three);
    EXPECT_TRUE(std::ranges::equal(rounded.words(), again.words()));
    EXPECT_TRUE(std::ranges::equal(rounded.scales(), again.scales()));
    std::vector<float> got(numbers.size());
    StoredMatrixReader(rounded.matrix()).read(0, kOut, 0, kIn, got.data(), kIn);
    for (std::int64_t row = 0; row < kOut; ++row) {
      for (std::int64_t begin = 0; begin < kIn; begin += 64) {
        const auto at = static_cast<std::size_t>(row * kIn + begin);
        const auto count = static_cast<std::size_t>(std::min<std::int64_t>(64, kIn - begin));
        std::vector<std::int8_t> codes(count);
        const float scale = round_group(std::span(numbers).subspan(at, count), rounding, codes);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(got[at + i], static_cast<float>(codes[i]) * scale);
      }
    }
  }
  EXPECT_EQ(group_of_inputs(8960), 128);
  EXPECT_EQ(group_of_inputs(96), 32);
  EXPECT_EQ(group_of_inputs(100), 0);
}

}  // namespace
}  // namespace saccade
