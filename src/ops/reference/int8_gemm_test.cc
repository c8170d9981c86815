// Weights of bytes on every instruction set: rounding is that of int8_rows.h to the bit, sums are
// exact, a row depends on nothing but itself, and what comes out is near the product of the
// numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/formats/int8_rows.h"
#include "tests/ops/gemm_cases.h"

namespace saccade {
namespace {

class Int8 : public EveryCpu {
 protected:
  void SetUp() override {
    if (!(*device()).multiplies_int8())
      GTEST_SKIP() << GetParam() << " has no gemm of weights packed as int8";
  }
};

std::unique_ptr<PackedWeight> pack_bytes(Device& device, Matrix& weight) {
  const StoredMatrix part = weight.view();
  return device.pack({&part, 1}, DType::kI8);
}

// The rows of a packed matrix as numbers.
Matrix embedded_rows(Device& device, const PackedWeight& packed) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(packed.out()));
  std::iota(ids.begin(), ids.end(), 0);
  Matrix values(packed.out(), packed.in());
  EmbedArgs args;
  args.packed = &packed;
  args.ids = device.lane(Lane::kStep).upload(ids);
  args.out = values.view();
  device.lane(Lane::kStep).embed(args);
  return values;
}

Matrix odd_int8_rows(std::int64_t cols) {
  return odd_rows(cols, 127,
                  [](std::int64_t col) { return static_cast<float>(col % 255 - 127) + 0.5F; });
}

TEST_P(Int8, RoundsWeightsAsDefined) {
  const auto cpu = device();
  for (const std::int64_t cols : {1, 3, 15, 16, 17, 33, 64, 257, 1000}) {
    SCOPED_TRACE(cols);
    Matrix weight = odd_int8_rows(cols);
    const Matrix got = embedded_rows(*cpu, *pack_bytes(*cpu, weight));
    const Matrix want = embedded_rows(*reference_, *pack_bytes(*reference_, weight));
    for (std::int64_t row = 0; row < weight.rows(); ++row) {
      SCOPED_TRACE(row);
      expect_same_bits(got.row(row), want.row(row));
    }
  }
}

// Of one outlier and many equal numbers the error goes up and down with the clip: where the search
// ends is seen.
TEST_P(Int8, SearchesTheClipAsDefined) {
  const auto cpu = device();
  Matrix weight(40, 500);
  for (std::int64_t row = 0; row < weight.rows(); ++row) {
    for (std::int64_t col = 0; col < weight.cols(); ++col)
      weight.set(row, col, col == 0 ? 1.0F : 0.2F + 0.013F * static_cast<float>(row));
  }
  const Matrix got = embedded_rows(*cpu, *pack_bytes(*cpu, weight));
  const Matrix want = embedded_rows(*reference_, *pack_bytes(*reference_, weight));
  for (std::int64_t row = 0; row < weight.rows(); ++row) {
    SCOPED_TRACE(row);
    expect_same_bits(got.row(row), want.row(row));
  }
}

// By a unit matrix: 127 in each row's own column, so that what comes out are the codes of x.
TEST_P(Int8, RoundsActivationsAsDefined) {
  const auto cpu = device();
  for (const std::int64_t cols : {1, 5, 31, 64, 130}) {
    SCOPED_TRACE(cols);
    Matrix unit(cols, cols);
    unit.fill([] { return 0.0; });
    for (std::int64_t i = 0; i < cols; ++i) unit.set(i, i, 127);
    const auto packed = pack_bytes(*cpu, unit);
    Matrix x = odd_int8_rows(cols);
    const Matrix y = product(*cpu, *packed, x.view());
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      SCOPED_TRACE(row);
      std::vector<std::int8_t> codes(static_cast<std::size_t>(cols));
      const float scale = round_activations(x.row(row), codes);
      std::vector<float> want;
      for (const std::int8_t code : codes) want.push_back(static_cast<float>(code * 127) * scale);
      expect_same_bits(y.row(row), want);
    }
  }
}

TEST_P(Int8, WhatIsNoNumberStaysInItsRowOrColumn) {
  const auto cpu = device();
  constexpr std::int64_t kIn = 70;
  Rng rng(5);
  Matrix weight(21, kIn);
  weight.random(rng);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  weight.set(4, 69, -kInfinity);
  weight.set(20, 0, std::numeric_limits<float>::quiet_NaN());
  Matrix x(19, kIn);
  x.random(rng);
  x.set(3, 17, std::numeric_limits<float>::quiet_NaN());
  x.set(18, 69, kInfinity);
  const Matrix y = product(*cpu, *pack_bytes(*cpu, weight), x.view());
  for (std::int64_t row = 0; row < 19; ++row)
    for (std::int64_t col = 0; col < 21; ++col)
      EXPECT_EQ(std::isnan(y.at(row, col)), row == 3 || row == 18 || col == 4 || col == 20)
          << row << " " << col << " " << y.at(row, col);
}

// Against the twin: the sum is exact, so each of its roundings after it is all that may differ.
// |sum * scales| <= |x| |w| of the rounded ones, each at most an eighth more than the numbers' for
// the rows here; and 1.2 for the slope of an activation.
void run_int8_case(Device& device, Device& reference, const GemmCase& c) {
  run_gemm_case(device, reference, c, [](double size, double want) {
    return 8 * kEpsilon * (2 * size + 2 + std::abs(want));
  });
}

TEST_P(Int8, MatchesReferenceForEveryShape) {
  const auto cpu = device();
  for (const std::int64_t rows : {0, 1, 2, 3, 6, 7, 8, 14, 15, 17, 29, 33})
    for (const std::int64_t in : {1, 2, 31, 64, 261})
      for (const std::int64_t out : {1, 16, 33, 70})
        run_int8_case(*cpu, *reference_, {rows, in, out, DType::kF32, DType::kI8});
  run_int8_case(*cpu, *reference_, {530, 70, 290, DType::kF32, DType::kI8});  // more than one block
  run_int8_case(*cpu, *reference_, {5, 1600, 130, DType::kF32, DType::kI8});
  run_int8_case(*cpu, *reference_, {40, 1600, 130, DType::kF32, DType::kI8});
}

TEST_P(Int8, StoredTypesBiasActivationAndResidual) {
  const auto cpu = device();
  for (const DType stored : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (int activation = 0; activation <= static_cast<int>(Activation::kRelu); ++activation) {
      const auto which = static_cast<Activation>(activation);
      run_int8_case(*cpu, *reference_, {3, 40, 37, stored, DType::kI8, which, true, false});
      run_int8_case(*cpu, *reference_, {21, 300, 37, stored, DType::kI8, which, true, true});
      run_int8_case(*cpu, *reference_, {1, 40, 37, stored, DType::kI8, which, false, true});
    }
  }
}

// |y - x w| <= (half a step of x) |w'|_1 + |x|_2 |w - w'|_2, with w' the rounded weights: the first
// term is what rounding x can do, the second what rounding w did.
TEST_P(Int8, IsNearTheProductOfTheNumbers) {
  constexpr std::int64_t kIn = 700;
  const auto cpu = device();
  Rng rng(3);
  Matrix weight(50, kIn);
  weight.random(rng, 0.05);
  Matrix x(23, kIn);
  x.random(rng);
  for (std::int64_t row = 0; row < x.rows(); row += 3) x.set(row, 2 * row, 20);  // outliers
  const auto packed = pack_bytes(*cpu, weight);
  const Matrix rounded = embedded_rows(*cpu, *packed);
  const Matrix y = product(*cpu, *packed, x.view());
  const std::vector<double> norms = x.norms();
  for (std::int64_t col = 0; col < weight.rows(); ++col) {
    double size = 0;
    double off = 0;
    for (std::int64_t i = 0; i < kIn; ++i) {
      size += std::abs(rounded.at(col, i));
      off += std::pow(static_cast<double>(weight.at(col, i)) - rounded.at(col, i), 2);
    }
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      double want = 0;
      double most = 0;
      for (std::int64_t i = 0; i < kIn; ++i) {
        want += static_cast<double>(x.at(row, i)) * weight.at(col, i);
        most = std::max(most, std::abs(static_cast<double>(x.at(row, i))));
      }
      const double bound =
          most / 254 * size + norms[static_cast<std::size_t>(row)] * std::sqrt(off);
      EXPECT_LE(std::abs(y.at(row, col) - want), bound * (1 + 1e-5)) << row << " " << col;
    }
  }
}

TEST_P(Int8, RowsDoNotDependOnTheBatchOrThreads) {
  expect_rows_of_themselves([this](int threads) { return device(threads); }, DType::kI8);
}

// As many products as there may be, all of one sign and as large as codes get: nothing wraps and
// nothing saturates, whatever the unit does on the way.
TEST_P(Int8, LargestSumsAreExact) {
  const auto cpu = device();
  Matrix weight(3, kMaxInt8Inputs);
  Matrix x(3, kMaxInt8Inputs);
  for (std::int64_t i = 0; i < kMaxInt8Inputs; ++i) {
    for (std::int64_t row = 0; row < 3; ++row) {
      const float sign = row == 0 || (row == 1 && i % 2 == 0) ? 127.0F : -127.0F;
      weight.set(row, i, sign);
      x.set(row, i, sign);
    }
  }
  const auto packed = pack_bytes(*cpu, weight);
  const Matrix y = product(*cpu, *packed, x.view());
  const auto full = static_cast<float>(127.0 * 127.0 * static_cast<double>(kMaxInt8Inputs));
  const float want[3][3] = {{full, 0, -full}, {0, full, 0}, {-full, 0, full}};
  for (std::int64_t row = 0; row < 3; ++row)
    for (std::int64_t col = 0; col < 3; ++col) EXPECT_EQ(y.at(row, col), want[row][col]);
}

// Weights that are stored as bytes stay what they are: -128, which has no negative, and any scale.
TEST_P(Int8, StoredBytesAreMultipliedAsTheyAre) {
  const auto cpu = device();
  constexpr std::int64_t kOut = 37;
  constexpr std::int64_t kIn = 261;
  std::vector<std::int8_t> codes(kOut * kIn);
  Rng rng(12);
  for (std::int8_t& code : codes) code = static_cast<std::int8_t>(rng.below(256));
  for (std::int64_t i = 0; i < kIn; ++i) codes[static_cast<std::size_t>(i)] = -128;
  std::vector<float> scales(kOut);
  for (float& scale : scales) scale = static_cast<float>(0.01 + rng.uniform());
  StoredMatrix matrix;
  matrix.format = StoredMatrix::Format::kInt8;
  matrix.stored_out = matrix.out_end = kOut;
  matrix.stored_in = matrix.in_end = kIn;
  matrix.codes = {DType::kI8, std::as_bytes(std::span(codes))};
  matrix.scales = {DType::kF32, std::as_bytes(std::span(scales))};
  matrix.block_out = 1;
  matrix.block_in = kIn;
  const auto packed = (*cpu).pack({&matrix, 1}, DType::kI8);
  const auto twin = (*reference_).pack({&matrix, 1}, DType::kI8);
  ASSERT_EQ(packed->operand_dtype(), DType::kI8);
  const Matrix rows = embedded_rows(*cpu, *packed);
  for (std::int64_t o = 0; o < kOut; ++o)
    for (std::int64_t i = 0; i < kIn; ++i)
      ASSERT_EQ(rows.at(o, i), static_cast<float>(codes[static_cast<std::size_t>(o * kIn + i)]) *
                                   scales[static_cast<std::size_t>(o)]);
  for (const std::int64_t count : {1, 5, 40}) {
    Matrix x(count, kIn);
    x.random(rng);
    for (std::int64_t i = 0; i < kIn; ++i) x.set(0, i, 1);  // all codes at the end of their range
    const Matrix got = product(*cpu, *packed, x.view());
    const Matrix want = product(*reference_, *twin, x.view());
    expect_near(got, want, [&](std::int64_t row, std::int64_t col) {
      return 8 * kEpsilon * (1 + std::abs(want.at(row, col)));
    });
  }
}

TEST_P(Int8, PackedBytesAreThoseOfTheType) {
  const auto cpu = device();
  Matrix weight(256, 512);
  Rng rng(1);
  weight.random(rng);
  // An output's scale, and on CPUs where its panel starts.
  EXPECT_EQ(pack_bytes(*cpu, weight)->bytes(), 256U * 512 + 256U * (on_cuda() ? 4 : 8));
}

SACCADE_EVERY_CPU(Int8);

// Bytes give the same bits on every instruction set, bias and residual included.
TEST(Int8Bits, AreTheSameOnEveryInstructionSet) {
  constexpr std::int64_t kIn = 900;
  constexpr std::int64_t kOut = 133;
  Rng rng(9);
  Matrix weight(kOut, kIn, DType::kBf16);
  weight.random(rng);
  Matrix bias(1, kOut);
  bias.random(rng);
  for (const std::int64_t rows : {1, 8, 40}) {
    Matrix x(rows, kIn);
    x.random(rng);
    Matrix residual(rows, kOut);
    residual.random(rng);
    std::vector<std::vector<float>> first;
    std::vector<std::string> isas = isas_here();
    if (on_cuda()) isas.emplace_back("portable");
    for (const std::string& isa : isas) {
      SCOPED_TRACE(isa);
      const auto cpu = device_of(isa);
      const auto packed = pack_bytes(*cpu, weight);
      Matrix y(rows, kOut);
      GemmArgs gemm;
      gemm.x = x.view();
      gemm.weight = packed.get();
      gemm.bias = bias.view();
      gemm.residual = residual.view();
      gemm.y = y.view();
      cpu->gemm(gemm);
      for (std::int64_t row = 0; row < rows; ++row) {
        if (static_cast<std::int64_t>(first.size()) == row) first.push_back(y.row(row));
        expect_same_bits(y.row(row), first[static_cast<std::size_t>(row)]);
      }
    }
  }
}

double squared_error(std::span<const float> row, std::span<const std::int8_t> codes, float scale) {
  double sum = 0;
  for (std::size_t i = 0; i < row.size(); ++i)
    sum += std::pow(static_cast<double>(row[i]) - static_cast<double>(codes[i]) * scale, 2);
  return sum;
}

TEST(Int8Rows, TheClipIsSearchedFor) {
  Rng rng(2);
  Matrix m(1, 20'000);
  m.random(rng, 0.1);
  std::vector<float> row = m.row(0);
  std::vector<std::int8_t> codes(row.size());
  // Never worse than the plain clip.
  const float even = round_weights(row, codes);
  const double searched = squared_error(row, codes, even);
  const float plain = round_activations(row, codes);
  EXPECT_LE(searched, squared_error(row, codes, plain) * (1 + 1e-4));
  // An outlier of seven times the rest: to cut it costs less than to stretch the steps of all.
  row[77] = 1.1F;
  const float cut = round_weights(row, codes);
  EXPECT_LT(cut, 0.95F * 1.1F / 127);
  EXPECT_EQ(codes[77], 127);
}

}  // namespace
}  // namespace saccade
