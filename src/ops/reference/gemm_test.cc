// gemm on every instruction set against the reference, and bit equality across batches and threads.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/ops/gemm_cases.h"

namespace saccade {
namespace {

using Gemm = EveryCpu;

// One rounding an added product and a random walk over them give about epsilon * |x| |w|; 8 of
// those is far out of its reach, and far below the 2^15 epsilon of one bf16 rounding left out.
void run_case(Device& device, Device& reference, const GemmCase& c) {
  run_gemm_case(device, reference, c, [](double size, double want) {
    return 8 * kEpsilon * (size + std::abs(2.0 + want)) + 1e-30;
  });
}

TEST_P(Gemm, MatchesReferenceForEveryShape) {
  const auto cpu = device();
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    for (const std::int64_t rows : {0, 1, 2, 3, 7, 14, 15, 17, 29, 33})
      for (const std::int64_t in : {1, 2, 31, 64, 261})
        for (const std::int64_t out : {1, 16, 33, 70})
          run_case(*cpu, *reference_, {rows, in, out, DType::kF32, compute});
    run_case(*cpu, *reference_, {530, 70, 290, DType::kF32, compute});  // more than one block
    run_case(*cpu, *reference_, {5, 1600, 130, DType::kF32, compute});
    run_case(*cpu, *reference_, {scaled(33, 3), 2112, 420, DType::kF32, compute});
  }
}

TEST_P(Gemm, StoredTypesBiasActivationAndResidual) {
  const auto cpu = device();
  for (const DType stored : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      for (int activation = 0; activation <= static_cast<int>(Activation::kRelu); ++activation) {
        const auto which = static_cast<Activation>(activation);
        run_case(*cpu, *reference_, {3, 40, 37, stored, compute, which, true, false});
        run_case(*cpu, *reference_, {21, 300, 37, stored, compute, which, true, true});
        run_case(*cpu, *reference_, {1, 40, 37, stored, compute, which, false, true});
      }
    }
  }
}

TEST_P(Gemm, RowsDoNotDependOnTheBatchOrThreads) {
  for (const DType compute : {DType::kF32, DType::kBf16})
    expect_rows_of_themselves([this](int threads) { return device(threads); }, compute,
                              Activation::kSilu);
}

// As many inputs as the inner products of an MLP have.
TEST_P(Gemm, RowsOfManyInputsDoNotDependOnTheBatch) {
  constexpr std::int64_t kIn = 2600;
  constexpr std::int64_t kOut = 70;
  Rng rng(8);
  Matrix weight(kOut, kIn);
  weight.random(rng);
  const StoredMatrix part = weight.view();
  Matrix x(scaled(50, 5), kIn);
  x.random(rng);
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    const auto cpu = device();
    const auto packed = (*cpu).pack({&part, 1}, compute);
    Matrix y(x.rows(), kOut);
    cpu->gemm({.x = x.view(), .weight = packed.get(), .bias = {}, .residual = {}, .y = y.view()});
    for (const std::int64_t count : {1, 2, 17}) {
      Matrix some(std::min(count, x.rows()), kOut);
      cpu->gemm({.x = x.view().row_range(x.rows() - some.rows(), x.rows()),
                 .weight = packed.get(),
                 .bias = {},
                 .residual = {},
                 .y = some.view()});
      for (std::int64_t row = 0; row < some.rows(); ++row)
        expect_same_bits(some.row(row), y.row(x.rows() - some.rows() + row));
    }
  }
}

// One row takes another path than sixteen: sums that cancel, leave the range of f32 at either end
// or begin as denormal numbers must still come out the same.
TEST_P(Gemm, OneRowIsTheSameAtEveryMagnitude) {
  constexpr std::int64_t kRows = 17;
  constexpr std::int64_t kIn = 129;
  constexpr std::int64_t kOut = 90;
  const auto cpu = device();
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    const std::pair<int, int> exponents[] = {{0, 1}, {0, 12}, {0, 140}, {-66, 8}, {-125, 4}};
    for (const auto& [centre, spread] : exponents) {
      Rng rng(static_cast<std::uint64_t>(spread));
      const int lowest = centre - spread;
      const auto wild = [&, spread = spread](std::int64_t rows) {
        Matrix m(rows, kIn);
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t col = 0; col < kIn; ++col) {
            const int exponent =
                static_cast<int>(rng.below(static_cast<std::uint64_t>(2 * spread)));
            const float sign = rng.below(2) == 0 ? 1.0F : -1.0F;
            const auto fraction =
                static_cast<float>(1.0 + static_cast<double>(rng.below(128)) / 128);
            m.set(row, col, sign * std::ldexp(fraction, exponent + lowest));
          }
        }
        return m;
      };
      Matrix weight = wild(kOut);
      Matrix x = wild(kRows);
      const StoredMatrix part = weight.view();
      const auto packed = (*cpu).pack({&part, 1}, compute);
      Matrix y(kRows, kOut);
      GemmArgs gemm;
      gemm.x = x.view();
      gemm.weight = packed.get();
      gemm.y = y.view();
      cpu->gemm(gemm);
      for (std::int64_t row = 0; row < kRows; ++row) {
        Matrix alone(1, kOut);
        gemm.x = x.view().row_range(row, row + 1);
        gemm.y = alone.view();
        cpu->gemm(gemm);
        SCOPED_TRACE(fmt::format("row {}, exponents {} +- {}", row, lowest + spread, spread));
        expect_same_bits(alone.row(0), y.row(row));
      }
    }
  }
}

TEST_P(Gemm, PackedBytesAreThoseOfTheType) {
  const auto cpu = device();
  Matrix weight(256, 512);
  Rng rng(1);
  weight.random(rng);
  const StoredMatrix part = weight.view();
  EXPECT_EQ((*cpu).pack({&part, 1}, DType::kBf16)->bytes(), 256U * 512 * 2);
  EXPECT_EQ((*cpu).pack({&part, 1}, DType::kF32)->bytes(), 256U * 512 * 4);
  EXPECT_EQ((*cpu).pack({&part, 1}, DType::kF32)->operand_dtype(), DType::kF32);
  EXPECT_EQ((*cpu).pack({&part, 1}, DType::kBf16)->operand_dtype(),
            GetParam() == "amx" || GetParam() == "bf16" ? DType::kBf16 : DType::kF32);
}

SACCADE_EVERY_CPU(Gemm);

}  // namespace
}  // namespace saccade
