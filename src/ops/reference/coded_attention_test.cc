// Paged attention over keys and values in bytes, beside what attention_test.cc holds of every type:
// what lies in the pool, and how far rounding may move a result.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/sequences.h"

namespace saccade {
namespace {

using paged::expect_same_rows;
using paged::kTolerance;
using paged::Pool;
using paged::run_chunks;
using paged::Sequence;
using paged::Settings;
using paged::Shape;
using paged::step;

using CodedAttention = EveryCpu;

// What is stored in bytes is the definition's, whatever the instruction set and the chunks.
TEST_P(CodedAttention, BytesInThePoolAreTheReferences) {
  for (const DType dtype : {DType::kI8, DType::kE4m3}) {
    if (!(*device()).caches(dtype)) GTEST_SKIP() << "no keys and values in bytes";
    const auto stored = [&](Device& device, std::int64_t chunk) {
      Pool pool(9, 16, 2, 72, dtype);
      Rng rng(8);
      Sequence sequence(pool, 100, 4, rng);
      Settings settings;
      settings.heads = 4;
      while (sequence.done < sequence.length())
        step(device, pool, {&sequence}, {std::min(chunk, sequence.length() - sequence.done)},
             settings);
      return pool.bytes;
    };
    const auto want = stored(*reference_, 100);
    for (const std::int64_t chunk : {1, 17, 100}) EXPECT_EQ(stored(*device(3), chunk), want);
  }
}

// How far attention over bytes is from attention over the numbers that they were made of. A key's
// element is off by half a step at most: for kI8 the row's scale, for kE4m3 a sixteenth of the
// element, or half of 2^-9 of the scale where it is smaller. So is a score, by |q| times that
// summed over the dims, times `scale`, and no score by more than the largest such D: weights are
// off by factors within e^(2 D), which moves a mean of values below V by (e^(2 D) - 1) V at most;
// and the values themselves are off by half a step of theirs.
TEST_P(CodedAttention, BytesAreWithinTheirStepsOfNumbers) {
  const auto cpu = device();
  for (const DType dtype : {DType::kI8, DType::kE4m3}) {
    SCOPED_TRACE(name_of(dtype));
    if (!(*cpu).caches(dtype)) GTEST_SKIP() << "no keys and values in bytes";
    const Shape numbers = {scaled(200, 60), 2, 3, 64, 16, DType::kF32};
    Shape bytes = numbers;
    bytes.dtype = dtype;
    const auto want = run_chunks(*reference_, numbers, numbers.length);
    const auto got = run_chunks(*cpu, bytes, 37);
    Pool pool(numbers.length / 16 + 3, 16, 2, 64, DType::kF32);
    Rng rng(static_cast<std::uint64_t>(numbers.length + numbers.head_dim));
    const Sequence sequence(pool, numbers.length, 6, rng);
    const auto off = [&](double element, double largest) {  // by the rounding
      return dtype == DType::kI8 ? largest / 127 / 2
                                 : std::max(std::abs(element) / 16, largest / 448 * 0x1.0p-10);
    };
    double max_score = 0;
    double max_value = 0;
    double value_off = 0;
    for (std::int64_t token = 0; token < numbers.length; ++token) {
      for (std::int64_t head = 0; head < 2; ++head) {
        double largest_k = 0;
        double largest_v = 0;
        for (std::int64_t d = head * 64; d < head * 64 + 64; ++d) {
          largest_k = std::max(largest_k, std::abs(double{sequence.k.at(token, d)}));
          largest_v = std::max(largest_v, std::abs(double{sequence.v.at(token, d)}));
        }
        max_value = std::max(max_value, largest_v);
        value_off = std::max(value_off, off(largest_v, largest_v));
        for (std::int64_t query = 0; query < 3; ++query) {
          for (std::int64_t row = token; row < numbers.length; ++row) {
            double moved = 0;
            for (std::int64_t d = 0; d < 64; ++d)
              moved += std::abs(double{sequence.q.at(row, (head * 3 + query) * 64 + d)}) *
                       off(sequence.k.at(token, head * 64 + d), largest_k);
            max_score = std::max(max_score, moved / 8);
          }
        }
      }
    }
    const double bound = std::expm1(2 * max_score) * max_value + value_off + kTolerance;
    EXPECT_LT(bound, max_value * 3);  // says something
    double most = 0;
    for (std::size_t row = 0; row < got.size(); ++row)
      for (std::size_t col = 0; col < got[row].size(); ++col)
        most = std::max(most, std::abs(double{got[row][col]} - double{want[row][col]}));
    EXPECT_LT(most, bound);
    EXPECT_GT(most, 100 * kTolerance / 400);  // something was rounded
    RecordProperty(std::string(name_of(dtype)), fmt::format("{} of {}", most, bound));
  }
}

// Rows with infinities have scales that are no numbers, which stay in the scratch of the thread:
// another sequence after them, whose window has let go of the tokens of those places, has nothing
// of that.
TEST_P(CodedAttention, WhatIsNoNumberStaysWithItsSequence) {
  const auto cpu = device(1);
  for (const DType dtype : {DType::kI8, DType::kE4m3}) {
    if (!(*cpu).caches(dtype)) GTEST_SKIP() << "no keys and values in bytes";
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(dtype), name_of(compute)));
      Settings settings;
      settings.compute = compute;
      Settings window = settings;
      window.window = 8;
      const auto run = [&](bool odd) {
        Pool pool(20, 16, 1, 32, dtype);
        Rng rng(4);
        Sequence longer(pool, 256, 2, rng);
        Sequence shorter(pool, 45, 2, rng);
        for (std::int64_t token = 0; token < longer.length() && odd; ++token) {
          longer.k.set(token, 3, std::numeric_limits<float>::infinity());
          longer.v.set(token, 3, std::numeric_limits<float>::infinity());
        }
        // Steps of as many rows lie in the same places.
        step(*cpu, pool, {&shorter}, {40}, window);
        step(*cpu, pool, {&longer}, {251}, settings);
        step(*cpu, pool, {&longer}, {5}, settings);
        step(*cpu, pool, {&shorter}, {5}, window);
        EXPECT_EQ(std::isnan(longer.rows.back().front()), odd);
        return shorter.rows;
      };
      ASSERT_NO_FATAL_FAILURE(expect_same_rows(run(true), run(false)));
    }
  }
}

SACCADE_EVERY_CPU(CodedAttention);

}  // namespace
}  // namespace saccade
