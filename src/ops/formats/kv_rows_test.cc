// Rounding of keys and values to bytes, against a search through all that a code can be.
#include "ops/formats/kv_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "ops/formats/int8_limits.h"

namespace saccade {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

double number_of(DType cache, std::uint8_t code) {
  return cache == DType::kI8 ? static_cast<double>(static_cast<std::int8_t>(code))
                             : static_cast<double>(to_float(E4m3{code}));
}

double largest_of(DType cache) { return cache == DType::kI8 ? 127 : 448; }

// What e4m3 codes mean, from the format's words: a sign, four bits of exponent whose bias is 7,
// three of mantissa; exponent 0 is without the leading one.
double e4m3_by_hand(int code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code < 128 ? size : -size;
}

TEST(E4m3, EveryCodeIsWhatItsBitsSayAndComesBack) {
  for (int code = 0; code < 256; ++code) {
    const E4m3 from{static_cast<std::uint8_t>(code)};
    if ((code & 127) == 127) {
      EXPECT_TRUE(std::isnan(to_float(from)));
      EXPECT_EQ(to_e4m3(to_float(from)).bits & 127, 127);
      continue;
    }
    EXPECT_EQ(to_float(from), e4m3_by_hand(code)) << code;
    EXPECT_EQ(to_e4m3(to_float(from)).bits, code);
  }
  EXPECT_EQ(to_float(E4m3{0x7e}), 448.0F);
}

TEST(E4m3, HalvesGoToEvenAndTheRestToTheNearest) {
  for (int code = 0; code < 126; ++code) {
    const double low = e4m3_by_hand(code);
    const double high = e4m3_by_hand(code + 1);
    const auto half = static_cast<float>((low + high) / 2);
    EXPECT_EQ(to_e4m3(half).bits, code % 2 == 0 ? code : code + 1) << half;
    EXPECT_EQ(to_e4m3(std::nextafterf(half, 0)).bits, code) << half;
    EXPECT_EQ(to_e4m3(std::nextafterf(half, kInfinity)).bits, code + 1) << half;
    EXPECT_EQ(to_e4m3(-half).bits, to_e4m3(half).bits | 128);
  }
}

TEST(E4m3, WhatIsTooLargeIsTheLargest) {
  for (const float large : {448.0F, 449.0F, 480.0F, 1e30F, kInfinity}) {
    EXPECT_EQ(to_e4m3(large).bits, 0x7e);
    EXPECT_EQ(to_e4m3(-large).bits, 0xfe);
  }
}

class KvRows : public ::testing::TestWithParam<DType> {};

TEST_P(KvRows, CodesAreTheNearestOfAll) {
  Rng rng(5);
  for (const std::size_t length : {1U, 7U, 64U, 128U}) {
    for (int i = 0; i < 20; ++i) {
      std::vector<float> row(length);
      const float size = std::ldexp(1.0F, static_cast<int>(rng.below(40)) - 20);
      float most = 0;
      for (float& value : row) {
        value = size * static_cast<float>(rng.uniform() + rng.uniform() + rng.uniform() - 1.5);
        most = std::max(most, std::abs(value));
      }
      std::vector<std::uint8_t> codes(length);
      const float scale = round_kv_row(row, GetParam(), codes);
      EXPECT_EQ(scale, most / static_cast<float>(largest_of(GetParam())));
      for (std::size_t at = 0; at < length; ++at) {
        const double error = std::abs(number_of(GetParam(), codes[at]) * scale - row[at]);
        double least = kInfinity;
        for (int code = 0; code < 256; ++code) {
          const double number = number_of(GetParam(), static_cast<std::uint8_t>(code));
          if (!std::isnan(number)) least = std::min(least, std::abs(number * scale - row[at]));
        }
        // The quotients are rounded: where two codes are as near, either may be taken.
        EXPECT_LE(error, least + std::abs(row[at]) * 0x1.0p-21) << row[at];
      }
    }
  }
}

TEST_P(KvRows, RowsOfNothingAndOfWhatIsNoNumber) {
  std::vector<std::uint8_t> codes(4, 1);
  for (const float tiny : {0.0F, kInt8Least / 2, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(round_kv_row(std::vector<float>{tiny, -tiny, 0, tiny}, GetParam(), codes), 0.0F);
    EXPECT_EQ(codes, std::vector<std::uint8_t>(4, 0));
  }
  for (const float odd : {kInfinity, -kInfinity, kNaN}) {
    EXPECT_TRUE(std::isnan(round_kv_row(std::vector<float>{1, 2, odd, 3}, GetParam(), codes)));
    EXPECT_EQ(codes, std::vector<std::uint8_t>(4, 0));
  }
  const float huge = std::numeric_limits<float>::max();
  for (const float most : {kInt8Least, 1.0F, huge}) {
    const float scale =
        round_kv_row(std::vector<float>{most, -most, most / 2, 0}, GetParam(), codes);
    EXPECT_TRUE(std::isfinite(scale));
    EXPECT_EQ(number_of(GetParam(), codes[0]), largest_of(GetParam()));
    EXPECT_EQ(number_of(GetParam(), codes[1]), -largest_of(GetParam()));
    EXPECT_EQ(number_of(GetParam(), codes[3]), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KvRows, ::testing::Values(DType::kI8, DType::kE4m3),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(KvBlocks, HaveAScaleForEveryRow) {
  EXPECT_EQ(kv_block_elements(DType::kBf16, 16, 2, 64), 2 * 16 * 2 * 64);
  EXPECT_EQ(kv_block_elements(DType::kI8, 16, 2, 64), 2 * 16 * 2 * 68);
  EXPECT_EQ(kv_block_elements(DType::kE4m3, 4, 1, 8), 2 * 4 * 12);
}

}  // namespace
}  // namespace saccade
