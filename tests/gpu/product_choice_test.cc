// Which of a library's algorithms will do, on paper.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "ops/cuda/libraries/product_table.h"

namespace saccade::cuda {
namespace {

using ::testing::HasSubstr;

// A library on paper: the bits of a row by algorithm, place, count of rows and row.
using Bits = std::function<std::int64_t(std::int64_t algorithm, std::int64_t place,
                                        std::int64_t count, std::int64_t row)>;
ProductAlgorithm algorithm(std::uint64_t which) { return {.data = {which}, .workspace = 0}; }

struct Chosen {
  ProductChoice choice;
  std::vector<std::string> notes;

  std::vector<std::int64_t> which() const {
    std::vector<std::int64_t> all;
    for (const auto& each : choice)
      all.push_back(each ? static_cast<std::int64_t>(each->data[0]) : 0);
    return all;
  }
};

Chosen choose(
    std::vector<std::vector<std::uint64_t>> offered, bool batch_invariant, const Bits& bits,
    std::int64_t most = kMaxProbedRows,
    const NearOwn& near = [](const ProductBits&, const ProductBits&) { return true; },
    const TimeProduct& time = {}) {
  std::vector<std::vector<ProductAlgorithm>> candidates;
  for (const auto& row_class : offered) {
    candidates.emplace_back();
    for (const std::uint64_t which : row_class) candidates.back().push_back(algorithm(which));
  }
  const RunProduct run = [&](std::int64_t first, std::int64_t count,
                             std::span<const std::int64_t> rows,
                             const ProductAlgorithm* with) -> std::optional<ProductBits> {
    EXPECT_LE(count, most);
    ProductBits all;
    for (const std::int64_t place : rows) {
      EXPECT_LT(place, count);
      const std::int64_t which = with == nullptr ? 0 : static_cast<std::int64_t>(with->data[0]);
      const std::int64_t of = bits(which, place, count, first + place);
      if (of < 0) return std::nullopt;
      const auto bytes = std::as_bytes(std::span(&of, 1));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  };
  Chosen chosen;
  chosen.choice = choose_products(candidates, most, batch_invariant, run, near, chosen.notes, time);
  return chosen;
}

std::int64_t honest(std::int64_t which, std::int64_t, std::int64_t, std::int64_t row) {
  return row * 10 + which;
}

TEST(ProductChoice, ByDefaultEachClassHasItsOwn) {
  const Chosen chosen = choose({{1}, {2, 3}, {3}, {4}, {5}}, false, honest);
  EXPECT_EQ(chosen.which(), (std::vector<std::int64_t>{0, 2, 3, 4, 5}));
  EXPECT_TRUE(chosen.notes.empty());
}

// Seconds by algorithm. What is a little quicker may be slower at the next start.
TEST(ProductChoice, OfFewRowsTheFarQuickestThatWillDo) {
  const auto by = [](std::vector<double> seconds) {
    const TimeProduct time = [seconds](std::int64_t count, const ProductAlgorithm* with) {
      EXPECT_LE(count, kMaxTimedRows);
      return seconds[with == nullptr ? 0 : with->data[0]];
    };
    // 4 looks at its company.
    const Bits bits = [](std::int64_t which, std::int64_t place, std::int64_t count,
                         std::int64_t row) {
      return which == 4 ? row * 10 + count % 7 : honest(which, place, count, row);
    };
    return choose(
               {{1}, {2, 3, 4}, {2, 3}, {2, 3}, {2, 3}}, false, bits, kMaxProbedRows,
               [](const ProductBits&, const ProductBits&) { return true; }, time)
        .which();
  };
  using Which = std::vector<std::int64_t>;
  EXPECT_EQ(by({9, 9, 3, 2.5, 0.1}), (Which{0, 2, 2, 2, 2}));
  EXPECT_EQ(by({9, 9, 3, 2, 0.1}), (Which{0, 3, 3, 2, 2}));
  EXPECT_EQ(by({1, 9, 3, 2, 0.1}), (Which{0, 0, 0, 2, 2}));
  EXPECT_EQ(by({1.6, 9, 3, 2, 0.1}), (Which{0, 3, 3, 2, 2}));
}

TEST(ProductChoice, RowsThatDependOnTheirCompanyAreTheOwnKernels) {
  // 2: by how many there are; 3: by where it stands; 6: says no.
  const Bits bits = [](std::int64_t which, std::int64_t place, std::int64_t count,
                       std::int64_t row) {
    if (which == 2) return row * 10 + count % 7;
    if (which == 3) return row * 10 + (place % 16 >= 8 ? 1 : 0);
    return which == 6 ? -1 : honest(which, place, count, row);
  };
  const Chosen chosen = choose({{1}, {2, 1}, {3}, {6, 4}, {6}}, false, bits);
  EXPECT_EQ(chosen.which(), (std::vector<std::int64_t>{0, 1, 0, 4, 0}));
  ASSERT_EQ(chosen.notes.size(), 2u);
  EXPECT_THAT(chosen.notes[0], HasSubstr("65 to 256 rows"));
  EXPECT_THAT(chosen.notes[1], HasSubstr("1025 rows and more"));
}

TEST(ProductChoice, BatchInvariantTakesOnlyThoseOfTheSameBits) {
  // 4 and 2 agree, 3 does not, nor does the own kernel.
  const Bits bits = [](std::int64_t which, std::int64_t, std::int64_t, std::int64_t row) {
    return row * 10 + (which == 3 || which == 0 ? 1 : 0);
  };
  EXPECT_EQ(choose({{3, 2}, {3}, {2}, {3, 4}, {4}}, true, bits).which(),
            (std::vector<std::int64_t>{2, 4, 2, 4, 4}));
  // The own kernel does too: it takes the fewest rows.
  const Bits all_alike = [](std::int64_t, std::int64_t, std::int64_t, std::int64_t row) {
    return row;
  };
  EXPECT_EQ(choose({{3}, {3}, {2}, {3}, {4}}, true, all_alike).which(),
            (std::vector<std::int64_t>{0, 3, 2, 3, 4}));
  // The largest batches' does not do small ones: another is pinned for all.
  const Bits large_alone = [](std::int64_t which, std::int64_t, std::int64_t count,
                              std::int64_t row) {
    if (which == 4 && count < 65) return std::int64_t{-1};
    return row * 10 + which;
  };
  EXPECT_EQ(choose({{1}, {2}, {2}, {3}, {4, 2}}, true, large_alone).which(),
            (std::vector<std::int64_t>{2, 2, 2, 2, 2}));
}

TEST(ProductChoice, BatchInvariantWithoutSuchIsTheOwnKernelsAlone) {
  const Bits by_class = [](std::int64_t which, std::int64_t, std::int64_t count, std::int64_t row) {
    return row * 10 + (which == 0 ? 9 : static_cast<std::int64_t>(row_class_of(count)));
  };
  const Chosen chosen = choose({{1}, {1}, {1}, {1}, {1}}, true, by_class);
  EXPECT_EQ(chosen.which(), (std::vector<std::int64_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(chosen.notes.size(), 1u);
}

// One that errs alike for all rows has the same bits in any company: it is known by the own
// kernel's results.
TEST(ProductChoice, ResultsThatAreNotNearTheOwnKernelsAreRefused) {
  // 0, the own kernel, has a row's number times ten; 3 has another row's.
  const Bits bits = [](std::int64_t which, std::int64_t, std::int64_t, std::int64_t row) {
    return which == 3 ? (row + 1) * 10 : row * 10 + which;
  };
  const NearOwn near = [](const ProductBits& theirs, const ProductBits& own) {
    EXPECT_EQ(theirs.size(), own.size());
    for (std::size_t i = 0; i < own.size(); i += sizeof(std::int64_t)) {
      std::int64_t a = 0;
      std::int64_t b = 0;
      std::memcpy(&a, theirs.data() + i, sizeof(a));
      std::memcpy(&b, own.data() + i, sizeof(b));
      if (std::abs(a - b) > 5) return false;
    }
    return true;
  };
  const Chosen chosen = choose({{1}, {3, 2}, {3}, {4}, {5}}, false, bits, kMaxProbedRows, near);
  EXPECT_EQ(chosen.which(), (std::vector<std::int64_t>{0, 2, 0, 4, 5}));
  ASSERT_EQ(chosen.notes.size(), 2u);
  for (const std::string& note : chosen.notes) EXPECT_THAT(note, HasSubstr("not near"));
  EXPECT_EQ(choose({{3}, {3}, {3}, {3}, {3}}, true, bits, kMaxProbedRows, near).which(),
            (std::vector<std::int64_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(choose({{3, 2}, {3, 2}, {2}, {2}, {3, 2}}, true, bits, kMaxProbedRows, near).which(),
            (std::vector<std::int64_t>{2, 2, 2, 2, 2}));
}

// What roundings do is near, one part in fifty is not, and NaN is near nothing.
TEST(ProductChoice, NearIsWhatRoundingsDo) {
  Rng rng(9);
  std::vector<float> own(400);
  for (float& value : own) value = static_cast<float>(rng.uniform() * 2 - 1);
  const auto near = [&](const ProductNearness& of, auto change) {
    std::vector<float> theirs = own;
    for (float& value : theirs) value = change(value);
    if (of.type == DType::kF32)
      return near_own(of, std::as_bytes(std::span(theirs)), std::as_bytes(std::span(own)));
    std::vector<Bf16> a, b;
    for (const float value : theirs) a.push_back(to_bf16(value));
    for (const float value : own) b.push_back(to_bf16(value));
    return near_own(of, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
  };
  const auto scaled = [](float by) { return [by](float value) { return value * by; }; };
  for (const std::int64_t in : {std::int64_t{40}, std::int64_t{20000}}) {
    for (const DType type : {DType::kBf16, DType::kF32}) {
      for (const DType operands : {DType::kBf16, DType::kE4m3}) {
        const ProductNearness of = {type, in, operands, Epilogue::kNone};
        EXPECT_TRUE(near(of, scaled(1)));
        EXPECT_TRUE(near(of, scaled(1 + 0x1p-20f)));
        EXPECT_FALSE(near(of, scaled(1.02f)));
        EXPECT_FALSE(near(of, scaled(-1)));
        int at = 0;
        EXPECT_FALSE(near(of, [&](float value) { return at++ == 7 ? NAN : value; }));
      }
    }
  }
  // Where the own kernel has none, because the weight has none, nothing is asked.
  own[3] = NAN;
  EXPECT_TRUE(near({.in = 40}, scaled(1)));
  std::ranges::fill(own, 0.0f);
  EXPECT_TRUE(near({.in = 40}, scaled(1)));
  EXPECT_FALSE(near({.in = 40}, [](float) { return 1e-6f; }));
}

// A head whose rows fill the memory of the probe: what was not seen is not trusted.
TEST(ProductChoice, WhatCannotBeProbedIsTheOwnKernels) {
  EXPECT_EQ(choose({{1}, {1}, {1}, {1}, {1}}, false, honest, 300).which(),
            (std::vector<std::int64_t>{0, 1, 1, 1, 0}));
  EXPECT_EQ(choose({{1}, {1}, {1}, {1}, {1}}, true, honest, 300).which(),
            (std::vector<std::int64_t>{0, 0, 0, 0, 0}));
}

TEST(ProductChoice, ClassesCoverEveryCount) {
  EXPECT_EQ(row_class_of(1), 0u);
  EXPECT_EQ(row_class_of(16), 0u);
  EXPECT_EQ(row_class_of(17), 1u);
  EXPECT_EQ(row_class_of(1024), 3u);
  EXPECT_EQ(row_class_of(1'000'000), kRowClassCount - 1);
  for (std::size_t i = 1; i < kRowClassCount; ++i)
    EXPECT_EQ(kRowClasses[i].least, kRowClasses[i - 1].most + 1);
}

}  // namespace
}  // namespace saccade::cuda
