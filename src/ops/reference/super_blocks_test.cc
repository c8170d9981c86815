// SuperBlocks (Q4_K) by rows of bytes: every instruction set gives the bits of the definition, near
// the twin's sums in double precision of the same rounded rows, whatever the rows beside one and
// the threads.
#include <algorithm>

#include "ops/formats/int8_rows.h"
#include "tests/ops/four_bit_cases.h"

namespace saccade {
namespace {

class SuperBlocksA8 : public EveryCpu {
 protected:
  void SetUp() override {
    if (!(*device()).multiplies_w4a8())
      GTEST_SKIP() << (*device()).name() << " rounds no activations for codes of four bits";
  }
};

Matrix random_rows(std::int64_t rows, std::int64_t in) {
  Rng rng(4);
  Matrix x(rows, in);
  x.random(rng);
  return x;
}

// Weights are codes, scales and minima as the file has them: f32 rounds what they say by 2^-24 of
// the two products that a weight is the difference of. What remains is of the sums: of a block each
// product and their difference are rounded once, and added to the blocks before.
struct NearBlocks {
  explicit NearBlocks(const StoredMatrix& matrix);
  void operator()(const Matrix& got, const Matrix& want, const Matrix& x) const;

  double relative;
  std::vector<double> norms;  // of the outputs' weights
};

NearBlocks::NearBlocks(const StoredMatrix& matrix)
    : relative(static_cast<double>(matrix.in() / SuperBlock::kElements + 6) * kEpsilon) {
  for (std::int64_t out = 0; out < matrix.out(); ++out) {
    double sum = 0;
    for (std::int64_t index = 0; index < matrix.in() / SuperBlock::kElements; ++index) {
      const SuperBlock block = super_block(matrix, out, index);
      for (std::int64_t i = 0; i < SuperBlock::kElements; ++i) {
        const double of =
            std::abs(to_float(block.d)) * block.scale[i / kBlockUnit] * block.codes[i] +
            std::abs(to_float(block.dmin)) * block.minimum[i / kBlockUnit];
        sum += of * of;
      }
    }
    norms.push_back(std::sqrt(sum));
  }
}

void NearBlocks::operator()(const Matrix& got, const Matrix& want, const Matrix& x) const {
  const std::vector<double> rows = x.norms();
  expect_near(got, want, [&](std::int64_t row, std::int64_t col) {
    return relative * 1.1 * rows[static_cast<std::size_t>(row)] *
           norms[static_cast<std::size_t>(col)];
  });
}

TEST_P(SuperBlocksA8, AreTheDefinitionAndNearTheTwin) {
  const auto cpu = device();
  for (const auto& [out, in] : {std::pair{8, 256}, {72, 512}, {136, 1280}, {40, 768}}) {
    SCOPED_TRACE(fmt::format("{} x {}", out, in));
    const SuperBlocks blocks(out, in);
    const auto twin = pack(*reference_, blocks.matrix(), DType::kF32);
    const auto f32 = pack(*cpu, blocks.matrix(), DType::kF32);
    const auto bf16 = pack(*cpu, blocks.matrix(), DType::kBf16);
    for (const PackedWeight* packed : {f32.get(), bf16.get()}) {
      EXPECT_EQ(packed->operand_dtype(), DType::kI8);
      EXPECT_LE(packed->bytes(),
                static_cast<std::size_t>((out + 15) / 16 * 16 * in) * 37 / 64 + 4096);
    }
    const NearBlocks expect_near_blocks(blocks.matrix());
    for (const std::int64_t rows : {1, 2, 3, 5, 6, 8, 13, 16, 17, 40, 300}) {
      SCOPED_TRACE(fmt::format("{} rows", rows));
      if (rows > 40 && out < 100) continue;
      Matrix x = random_rows(rows, in);
      const Matrix want = product(*reference_, *twin, x.view());
      const std::int64_t defined_rows = on_cuda() || rows > 40 ? 0 : rows;
      Matrix defined(defined_rows, out);
      std::vector<std::int8_t> codes(static_cast<std::size_t>(in));
      for (std::int64_t row = 0; row < defined_rows; ++row) {
        const float scale = round_activations(x.row(row), codes);
        for (std::int64_t col = 0; col < out; ++col)
          defined.set(row, col, scale * sum_of_super_blocks(blocks.matrix(), col, codes));
      }
      for (const PackedWeight* packed : {f32.get(), bf16.get()}) {
        const Matrix got = product(*cpu, *packed, x.view());
        for (std::int64_t row = 0; row < defined_rows; ++row)
          expect_same_bits(got.row(row), defined.row(row));
        expect_near_blocks(got, want, x);
      }
    }
  }
}

TEST_P(SuperBlocksA8, RowsDoNotDependOnTheBatchOrThreads) {
  constexpr std::int64_t kRows = 600;
  const SuperBlocks blocks(152, 1280);
  Matrix x = random_rows(kRows, 1280);
  std::vector<std::vector<float>> all;
  for (const int threads : {1, 3}) {
    const auto cpu = device(threads);
    const auto packed = pack(*cpu, blocks.matrix(), DType::kBf16);
    const Matrix y = product(*cpu, *packed, x.view());
    for (std::int64_t row = 0; row < kRows; ++row) {
      if (threads == 1)
        all.push_back(y.row(row));
      else
        expect_same_bits(y.row(row), all[static_cast<std::size_t>(row)]);
    }
    Rng rng(8);
    for (const std::int64_t count : {1, 2, 3, 5, 8, 11, 15, 16, 17, 31, 33, 100}) {
      const auto first = static_cast<std::int64_t>(rng.below(kRows - count));
      Matrix some = product(*cpu, *packed, x.view().row_range(first, first + count));
      for (std::int64_t i = 0; i < count; ++i) {
        SCOPED_TRACE(fmt::format("row {} of {}, {} threads", i, count, threads));
        expect_same_bits(some.row(i), all[static_cast<std::size_t>(first + i)]);
      }
    }
  }
}

// All bits set, all of x as large as it can be: sums that no float holds are rounded as the
// definition says. Rows that are no numbers.
TEST_P(SuperBlocksA8, TheLargestSumsAndOddRows) {
  if (on_cuda()) GTEST_SKIP() << "numbers there";
  const auto cpu = device();
  constexpr std::int64_t kIn = 2560;
  SuperBlocks blocks(24, kIn);
  for (const float dmin : {0.5F, 0.0F, -0.03F}) {
    blocks.fill(0xff, 0.03F, dmin);
    const auto packed = pack(*cpu, blocks.matrix(), DType::kF32);
    for (const std::int64_t rows : {4, 40}) {
      Matrix x(rows, kIn);
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t col = 0; col < kIn; ++col) x.set(row, col, row % 4 == 1 ? -127 : 127);
      x.set(2, 77, std::numeric_limits<float>::quiet_NaN());
      x.set(3, kIn - 1, -std::numeric_limits<float>::infinity());
      Matrix y = product(*cpu, *packed, x.view());
      const std::vector<std::int8_t> ends(kIn, 127);
      const float whole = sum_of_super_blocks(blocks.matrix(), 0, ends);
      for (std::int64_t col = 0; col < 24; ++col) {
        EXPECT_EQ(y.at(0, col), whole);
        EXPECT_EQ(y.at(1, col), -whole);
        EXPECT_TRUE(std::isnan(y.at(2, col)));
        EXPECT_TRUE(std::isnan(y.at(3, col)));
      }
    }
  }
}

// Two matrices one above the other, windows of a larger one, and rows as numbers.
TEST_P(SuperBlocksA8, StackAndWindows) {
  const auto cpu = device();
  const SuperBlocks upper(90, 1024);
  const SuperBlocks lower(61, 512, 2);
  const StoredMatrix window = upper.matrix().outputs(3, 80).inputs(256, 768);
  const StoredMatrix parts[] = {window, lower.matrix()};
  const auto packed = (*cpu).pack(parts, DType::kBf16);
  EXPECT_EQ(packed->operand_dtype(), DType::kI8);
  Matrix x = random_rows(20, 512);
  Matrix both = product(*cpu, *packed, x.view());
  std::int64_t first = 0;
  for (const StoredMatrix& part : parts) {
    Matrix alone = product(*cpu, *pack(*cpu, part, DType::kBf16), x.view());
    for (std::int64_t row = 0; row < 20; ++row)
      for (std::int64_t col = 0; col < part.out(); ++col)
        EXPECT_EQ(both.at(row, first + col), alone.at(row, col));
    first += part.out();
  }
  // Not whole blocks, or not before rounded rows: numbers.
  const StoredMatrix part_of_a_block = upper.matrix().inputs(32, 288);
  EXPECT_EQ(pack(*cpu, part_of_a_block, DType::kF32)->operand_dtype(), DType::kF32);
  StoredMatrix plain = upper.matrix();
  plain.rounds_activations = false;
  EXPECT_EQ(pack(*cpu, plain, DType::kF32)->operand_dtype(), DType::kF32);
}

TEST_P(SuperBlocksA8, AnMlpIsItsProducts) {
  const auto cpu = device();
  const SuperBlocks in(2 * 544, 256);
  const Codes out_codes({72, 544, 32});
  StoredMatrix out_matrix = out_codes.matrix();
  out_matrix.rounds_activations = true;
  const auto packed_in = pack(*cpu, in.matrix(), DType::kBf16);
  const auto packed_out = pack(*cpu, out_matrix, DType::kBf16);
  for (const std::int64_t rows : {2, 40, 550}) {
    SCOPED_TRACE(rows);
    Matrix x = random_rows(rows, 256);
    Rng rng(9);
    Matrix bias(1, 2 * 544);
    bias.random(rng);
    Matrix inner(rows, 2 * 544);
    Matrix y(rows, 72);
    cpu->mlp({.x = x.view(),
              .in = packed_in.get(),
              .in_bias = bias.view(),
              .activation = Activation::kSilu,
              .out = packed_out.get(),
              .out_bias = {},
              .residual = {},
              .inner = inner.view(),
              .y = y.view()});
    Matrix halves(rows, 2 * 544);
    cpu->gemm({.x = x.view(),
               .weight = packed_in.get(),
               .bias = bias.view(),
               .residual = {},
               .y = halves.view()});
    Matrix gated(rows, 544);
    cpu->gated({.gate = halves.view().col_range(0, 544),
                .up = halves.view().col_range(544, 1088),
                .activation = Activation::kSilu,
                .out = gated.view()});
    Matrix want = product(*cpu, *packed_out, gated.view());
    for (std::int64_t row = 0; row < rows; ++row) expect_same_bits(y.row(row), want.row(row));
    EXPECT_TRUE(inner.intact());
  }
}

SACCADE_EVERY_CPU(SuperBlocksA8);

}  // namespace
}  // namespace saccade
