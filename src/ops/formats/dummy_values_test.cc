// Made-up weights: what they are, and that every device makes the same, whole or in windows.
#include "ops/formats/dummy_values.h"

#include <cmath>
#include <vector>

#include "ops/formats/dummy_rows.h"
#include "tests/ops/devices.h"

namespace saccade {
namespace {

using MadeWeights = EveryCpu;

constexpr DummyValues kMade = {0x1234567890abcdefULL, 0, 0.25f};

StoredMatrix made_matrix(std::int64_t out, std::int64_t in, bool turned = false,
                         DummyValues made = kMade) {
  StoredMatrix matrix;
  matrix.format = StoredMatrix::Format::kMade;
  matrix.stored_out = matrix.out_end = out;
  matrix.stored_in = matrix.in_end = in;
  matrix.turned = turned;
  matrix.stride = turned ? out : in;
  matrix.made = made;
  return matrix;
}

// What was published of splitmix64: checkpoints that were written are to stay what they are.
TEST(DummyValues, AreSplitmix64) {
  EXPECT_EQ(dummy_word(0, 0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(dummy_word(0, 1), 0x6e789e6aa1b965f4ULL);
  EXPECT_EQ(dummy_word(1234567, 0), 6457827717110365317ULL);
  // 0xcdaf of sixteen bits, signed.
  EXPECT_EQ(dummy_value({0, 1, 0.5f}, 0), 1 + 0.5f * (0xcdaf - 0x10000) / 32768.0f);
  EXPECT_EQ(dummy_value({0, 0, 1}, 3), (0xe220 - 0x10000) / 32768.0f);
}

TEST(DummyValues, AreSpreadEvenly) {
  double sum = 0;
  double squares = 0;
  constexpr std::int64_t kCount = 100'000;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double value = dummy_value(kMade, i);
    ASSERT_LE(std::abs(value), 0.25);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.002);
  EXPECT_NEAR(squares / kCount, 0.0625 / 3, 0.0005);
}

// Many at a time are what each is by itself, wherever the first stands in its word.
TEST(DummyValues, InARowAreTheSame) {
  for (const DummyValues& made : {kMade, DummyValues{5, 1, 0.1F}}) {
    for (const std::int64_t first : {0, 1, 2, 3, 1'000'001}) {
      for (const std::size_t count : {0, 1, 2, 5, 63, 64, 65, 131, 500}) {
        std::vector<float> row(count, -9);
        make_dummy_values(made, first, row);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(row[i],
                    to_float(to_bf16(dummy_value(made, first + static_cast<std::int64_t>(i)))))
              << first << " " << i;
      }
    }
  }
}

// Windows of whole matrices, some of experts, some turned, stacked in one weight: as if the same
// numbers had been read from a file.
TEST_P(MadeWeights, MultiplyAsStoredOnes) {
  const auto cpu = device();
  constexpr std::int64_t kIn = 37;
  for (const bool turned : {false, true}) {
    StoredMatrix whole = made_matrix(90, 60, turned);
    whole.made_first = 91 * 60 + 1;
    const StoredMatrix window = whole.outputs(11, 52).inputs(6, 6 + kIn);
    const StoredMatrix more = made_matrix(21, kIn, turned, {5, 1, 0.1f});
    Matrix stored(window.out() + more.out(), kIn, DType::kBf16);
    for (std::int64_t o = 0; o < window.out(); ++o) {
      for (std::int64_t i = 0; i < kIn; ++i) {
        const std::int64_t row = o + 11;
        const std::int64_t col = i + 6;
        const std::int64_t at = whole.made_first + (turned ? col * 90 + row : row * 60 + col);
        stored.set(o, i, dummy_value(kMade, at));
      }
    }
    for (std::int64_t o = 0; o < more.out(); ++o)
      for (std::int64_t i = 0; i < kIn; ++i)
        stored.set(window.out() + o, i, dummy_value(more.made, turned ? i * 21 + o : o * kIn + i));
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      const StoredMatrix parts[] = {window, more};
      const StoredMatrix read = stored.view();
      const auto made = (*cpu).pack(parts, compute);
      const auto twin = (*cpu).pack({&read, 1}, compute);
      Rng rng(3);
      Matrix x(4, kIn);
      x.random(rng).round_to(made->operand_dtype());
      Matrix y(4, stored.rows());
      Matrix want(4, stored.rows());
      const auto multiply = [&](const PackedWeight& weight, Matrix& into) {
        GemmArgs gemm;
        gemm.x = x.view();
        gemm.weight = &weight;
        gemm.y = into.view();
        cpu->gemm(gemm);
      };
      multiply(*made, y);
      multiply(*twin, want);
      for (std::int64_t row = 0; row < y.rows(); ++row) expect_same_bits(y.row(row), want.row(row));
    }
  }
}

TEST_P(MadeWeights, FillRowsOfEveryType) {
  const auto cpu = device();
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const std::int64_t cols : {1, 7, 16, 40}) {
      for (const bool turned : {false, true}) {
        const StoredMatrix made = made_matrix(300, cols, turned);
        Matrix to(300, cols, type);
        cpu->fill(made, to.view());
        EXPECT_TRUE(to.intact());
        for (std::int64_t row = 0; row < to.rows(); ++row) {
          for (std::int64_t col = 0; col < cols; ++col) {
            const float value =
                to_float(to_bf16(dummy_value(kMade, turned ? col * 300 + row : row * cols + col)));
            ASSERT_EQ(to.at(row, col), type == DType::kF16 ? to_float(to_f16(value)) : value)
                << row << " " << col;
          }
        }
      }
    }
  }
}

SACCADE_EVERY_CPU(MadeWeights);

}  // namespace
}  // namespace saccade
