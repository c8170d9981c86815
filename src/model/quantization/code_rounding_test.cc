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

// code_rounding.h, word for word.
float by_definition(std::span<const float> values, const CodeRounding& rounding,
                    std::span<std::int8_t> codes) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  const auto levels = static_cast<float>(1 << (rounding.bits - 1));
  const auto code = [&](float value, float inverse) {
    return std::nearbyint(std::clamp(value * inverse, -levels, levels - 1));
  };
  float best = 0;
  float least = std::numeric_limits<float>::infinity();
  int worse = 0;
  for (int i = 0; i < 24 && worse < 3; ++i) {
    float scale = most / (levels - 0.5F) * (1.06F - 0.02F * static_cast<float>(i));
    if (rounding.scale_type == DType::kBf16) scale = to_float(to_bf16(scale));
    if (rounding.scale_type == DType::kF16) scale = to_float(to_f16(scale));
    if (!(scale > 0)) break;
    float parts[16] = {};
    for (std::size_t k = 0; k < values.size(); ++k) {
      const float error = values[k] - code(values[k], 1 / scale) * scale;
      parts[k % 16] += error * error;
    }
    for (std::size_t half = 8; half > 0; half /= 2)
      for (std::size_t k = 0; k < half; ++k) parts[k] += parts[k + half];
    worse = parts[0] < least ? 0 : worse + 1;
    if (parts[0] < least) {
      least = parts[0];
      best = scale;
    }
  }
  for (std::size_t k = 0; k < values.size(); ++k)
    codes[k] = static_cast<std::int8_t>(best == 0 ? 0 : code(values[k], 1 / best));
  return best;
}

// By every instruction set that this processor has, also of groups that fill no vector.
TEST(CodeRounding, EveryWayGivesTheBitsOfTheDefinition) {
  std::uint64_t seed = 100;
  for (const std::size_t count : {1, 15, 16, 17, 32, 100, 128, 1537}) {
    for (const int bits : {4, 8}) {
      for (const DType type : {DType::kBf16, DType::kF16, DType::kF32}) {
        std::vector<float> row = normal(count, ++seed);
        if (seed % 3 == 0) row[count / 2] = 2.5F;  // the clip lies far below it
        const CodeRounding rounding = {.bits = bits, .group = 0, .scale_type = type};
        std::vector<std::int8_t> want(count);
        const float scale = by_definition(row, rounding, want);
        for (int way = 0; way < rounding_ways(); ++way) {
          std::vector<std::int8_t> codes(count, 77);
          ASSERT_EQ(round_group(row, rounding, codes, way), scale) << way << " of " << count;
          ASSERT_EQ(codes, want) << way << " of " << count;
        }
        row.back() = std::numeric_limits<float>::quiet_NaN();
        for (int way = 0; way < rounding_ways(); ++way)
          ASSERT_TRUE(std::isnan(round_group(row, rounding, want, way)));
      }
    }
  }
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
