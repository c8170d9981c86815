// W4A8, 4-bit weights by int8 activations: every instruction set gives the same bits, near the
// twin's sums in double precision of the same rounded rows, whatever the rows beside one, the
// threads, the order of inputs and how far codes, zeros and activations go.
#include <algorithm>

#include "tests/ops/four_bit_cases.h"

namespace saccade {
namespace {

using Format = StoredMatrix::Format;

class W4A8 : public EveryCpu {
 protected:
  void SetUp() override {
    if (!(*device()).multiplies_w4a8())
      GTEST_SKIP() << (*device()).name() << " rounds no activations for codes of four bits";
  }
};

StoredMatrix w4a8(const Codes& codes) {
  StoredMatrix matrix = codes.matrix();
  matrix.rounds_activations = true;
  return matrix;
}

// Sums of a group are exact. Each becomes f32, gets its scale, and is added to those before; the
// row's scale comes last: a rounding each. Rounding to bytes makes a row of x at most half a step
// an element longer: 0.004 of its largest, so 1.004 times as long and a little more for short rows.
void expect_near_twin(const Matrix& got, const Matrix& want, const CodesShape& shape,
                      const std::vector<double>& norms, const Matrix& x) {
  const std::int64_t groups = (shape.in + shape.group - 1) / shape.group;
  const double relative = static_cast<double>(groups + 4) * kEpsilon;
  const std::vector<double> rows = x.norms();
  expect_near(got, want, [&](std::int64_t row, std::int64_t col) {
    return relative * 1.1 * rows[static_cast<std::size_t>(row)] *
           norms[static_cast<std::size_t>(col)];
  });
}

const std::vector<CodesShape> kCodesShapes = {
    {8, 32, 32},
    {24, 64, 32},
    {72, 256, 128},
    {40, 160, 128},                                // a last group that is short
    {200, 384, 64, Format::kAwq},                  // more than one panel of everything
    {136, 96, 96, Format::kAwq},                   // the whole row
    {48, 200, 200},                                // the same, of no whole word of 32
    {16, 1320, 128, Format::kGptq, DType::kBf16},  // several steps of depth
    {16, 640, 32, Format::kAwq, DType::kF32},
    {56, 256, 32, Format::kGptq, DType::kF16, true},
    {24, 96, 32, Format::kAwq, DType::kF32, true},
    {136, 1056, 32, Format::kAwq},  // more rows of it, an odd number of groups
    {40, 480, 96},                  // groups of one and a half tiles of a matrix unit
};

TEST_P(W4A8, AreNearTheTwinAndAlikeEverywhere) {
  const auto cpu = device();
  const auto portable = on_cuda() ? device() : device_of("portable");
  for (const CodesShape& shape : kCodesShapes) {
    SCOPED_TRACE(fmt::format("{} x {}, groups of {}, ordered {}", shape.out, shape.in, shape.group,
                             shape.ordered));
    const Codes codes(shape);
    const auto twin = pack(*reference_, w4a8(codes), DType::kF32);
    const auto plain = pack(*portable, w4a8(codes), DType::kF32);
    const auto f32 = pack(*cpu, w4a8(codes), DType::kF32);
    const auto bf16 = pack(*cpu, w4a8(codes), DType::kBf16);
    const std::vector<double> norms = codes.norms();
    EXPECT_EQ(f32->operand_dtype(), DType::kI8);
    EXPECT_EQ(bf16->operand_dtype(), DType::kI8);
    for (const std::int64_t rows : {1, 2, 3, 5, 6, 8, 13, 16, 17, 40, 300}) {
      if (rows > 40 && shape.out < 100) continue;
      Rng rng(4);
      Matrix x(rows, shape.in);
      x.random(rng);
      const Matrix want = product(*reference_, *twin, x.view());
      const Matrix elsewhere = product(*portable, *plain, x.view());
      for (const PackedWeight* packed : {f32.get(), bf16.get()}) {
        const Matrix got = product(*cpu, *packed, x.view());
        expect_near_twin(got, want, shape, norms, x);
        for (std::int64_t row = 0; row < rows; ++row)
          expect_same_bits(got.row(row), elsewhere.row(row));
      }
    }
  }
}

// A row alone, in any company and at any place, on any number of threads.
TEST_P(W4A8, RowsDoNotDependOnTheBatchOrThreads) {
  // Groups of 64 are whole tiles of a matrix unit, of 32 they are half of one.
  for (const std::int64_t group : {32, 64}) {
    constexpr std::int64_t kRows = 600;
    constexpr std::int64_t kIn = 1184;
    const Codes codes({152, kIn, group, Format::kAwq});
    Rng rng(8);
    Matrix x(kRows, kIn);
    x.random(rng);
    std::vector<std::vector<float>> all;
    for (const int threads : {1, 3}) {
      const auto cpu = device(threads);
      const auto packed = pack(*cpu, w4a8(codes), DType::kBf16);
      const Matrix y = product(*cpu, *packed, x.view());
      for (std::int64_t row = 0; row < kRows; ++row) {
        if (threads == 1)
          all.push_back(y.row(row));
        else
          expect_same_bits(y.row(row), all[static_cast<std::size_t>(row)]);
      }
      for (const std::int64_t count : {1, 2, 3, 5, 8, 11, 15, 16, 17, 31, 33, 100}) {
        const auto first = static_cast<std::int64_t>(rng.below(kRows - count));
        const Matrix some = product(*cpu, *packed, x.view().row_range(first, first + count));
        for (std::int64_t i = 0; i < count; ++i) {
          SCOPED_TRACE(
              fmt::format("row {} of {}, {} threads, groups of {}", i, count, threads, group));
          expect_same_bits(some.row(i), all[static_cast<std::size_t>(first + i)]);
        }
      }
    }
  }
}

// All codes at one end and the zero at the other, all of x as large as it can be: the sums are
// integers that are known. Rows that are no numbers, and rows of nothing.
TEST_P(W4A8, TheLargestSumsAndOddRows) {
  const auto cpu = device();
  constexpr std::int64_t kIn = 8960;
  constexpr std::int64_t kOut = 24;
  for (const std::int64_t group : {std::int64_t{32}, kIn}) {
    for (const bool high : {false, true}) {
      SCOPED_TRACE(fmt::format("groups of {}, codes of {}", group, high ? 15 : 0));
      const std::vector<std::byte> codes(kOut * kIn / 2, std::byte(high ? 0xff : 0));
      const std::vector<std::byte> zeros(kIn / group * kOut / 2, std::byte(high ? 0 : 0xff));
      const std::vector<float> scales(static_cast<std::size_t>(kIn / group * kOut), 0.5f);
      StoredMatrix matrix;
      matrix.format = Format::kAwq;
      matrix.stored_out = matrix.out_end = kOut;
      matrix.stored_in = matrix.in_end = kIn;
      matrix.bits = 4;
      matrix.group = group;
      matrix.codes = {DType::kI32, codes};
      matrix.zeros = {DType::kI32, zeros};
      matrix.scales = {DType::kF32, std::as_bytes(std::span(scales))};
      matrix.rounds_activations = true;
      const auto packed = pack(*cpu, matrix, DType::kF32);
      Matrix x(6, kIn);
      constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      const float first[] = {127, -127, 127, 127, 0, 127};
      for (std::int64_t row = 0; row < 6; ++row) {
        for (std::int64_t col = 0; col < kIn; ++col)
          x.set(row, col, col % 2 == 0 || row < 2 ? first[row] : -first[row]);
      }
      x.set(3, 77, kNan);
      x.set(5, 8959, -kInfinity);
      const Matrix y = product(*cpu, *packed, x.view());
      const float whole = (high ? 15.0f : -15.0f) * 127 * kIn * 0.5f;
      for (std::int64_t col = 0; col < kOut; ++col) {
        EXPECT_EQ(y.at(0, col), whole);
        EXPECT_EQ(y.at(1, col), -whole);
        EXPECT_EQ(y.at(2, col), 0);
        EXPECT_TRUE(std::isnan(y.at(3, col)));
        EXPECT_EQ(y.at(4, col), 0);
        EXPECT_TRUE(std::isnan(y.at(5, col)));
      }
    }
  }
}

// Bias, activation and residual over two matrices one above the other; and an MLP is its products.
TEST_P(W4A8, StackAndFinish) {
  const auto cpu = device();
  const Codes upper({40, 256, 64});
  const Codes lower({88, 256, 64}, 2);
  const StoredMatrix parts[] = {w4a8(upper), w4a8(lower)};
  const auto packed = (*cpu).pack(parts, DType::kBf16);
  const auto first = pack(*cpu, parts[0], DType::kBf16);
  const auto second = pack(*cpu, parts[1], DType::kBf16);
  for (const std::int64_t rows : {2, 30}) {
    Rng rng(5);
    Matrix x(rows, 256);
    x.random(rng);
    Matrix bias(1, packed->out());
    bias.random(rng);
    Matrix y(rows, packed->out());
    y.random(rng);
    Matrix want = y;
    const auto run = [&](const PackedWeight& weight, std::int64_t begin, Matrix& result) {
      const std::int64_t end = begin + weight.out();
      cpu->gemm({.x = x.view(),
                 .weight = &weight,
                 .bias = bias.view().col_range(begin, end),
                 .activation = Activation::kSilu,
                 .residual = result.view().col_range(begin, end),
                 .y = result.view().col_range(begin, end)});
    };
    run(*packed, 0, y);
    run(*first, 0, want);
    run(*second, first->out(), want);
    for (std::int64_t row = 0; row < rows; ++row) expect_same_bits(y.row(row), want.row(row));
    EXPECT_TRUE(y.intact());
  }
}

TEST_P(W4A8, AnMlpIsItsProducts) {
  const auto cpu = device();
  // A width of whole panels and groups of whole tiles are what a matrix unit does as one op.
  struct Shape {
    std::int64_t width;
    std::int64_t in;
    std::int64_t group;
  };
  for (const auto& [width, inputs, group] :
       {Shape{160, 96, 32}, Shape{160, 192, 64}, Shape{544, 200, 200}, Shape{168, 128, 64}}) {
    const Codes in({2 * width, inputs, group});
    const Codes out({72, width, 32, Format::kGptq, DType::kF16, true}, 2);
    const auto in_codes = pack(*cpu, w4a8(in), DType::kBf16);
    const auto out_codes = pack(*cpu, w4a8(out), DType::kBf16);
    for (const std::int64_t rows : {2, 40, 550}) {
      if (rows > 40 && width < 500) continue;
      SCOPED_TRACE(fmt::format("{} rows, {} wide, groups of {}", rows, width, group));
      Rng rng(9);
      Matrix x(rows, inputs);
      x.random(rng);
      Matrix bias(1, 2 * width);
      bias.random(rng);
      Matrix inner(rows, 2 * width);
      Matrix y(rows, 72);
      y.random(rng);
      Matrix want = y;
      cpu->mlp({.x = x.view(),
                .in = in_codes.get(),
                .in_bias = bias.view(),
                .activation = Activation::kSilu,
                .out = out_codes.get(),
                .out_bias = {},
                .residual = y.view(),
                .inner = inner.view(),
                .y = y.view()});
      Matrix halves(rows, 2 * width);
      cpu->gemm({.x = x.view(),
                 .weight = in_codes.get(),
                 .bias = bias.view(),
                 .residual = {},
                 .y = halves.view()});
      Matrix gated(rows, width);
      cpu->gated({.gate = halves.view().col_range(0, width),
                  .up = halves.view().col_range(width, 2 * width),
                  .activation = Activation::kSilu,
                  .out = gated.view()});
      cpu->gemm({.x = gated.view(),
                 .weight = out_codes.get(),
                 .bias = {},
                 .residual = want.view(),
                 .y = want.view()});
      for (std::int64_t row = 0; row < rows; ++row) expect_same_bits(y.row(row), want.row(row));
      EXPECT_TRUE(inner.intact());
    }
  }
}

SACCADE_EVERY_CPU(W4A8);

}  // namespace
}  // namespace saccade
