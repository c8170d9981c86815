// Products of E4M3 by E4M3 on the device that has them: rounding is that of e4m3_rows.h to the
// bit, sums are near the exact ones, and a row depends on nothing but itself.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "ops/formats/e4m3_rows.h"
#include "tests/ops/gemm_cases.h"

namespace saccade {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// --- the definition ---

TEST(E4m3Rows, EachIsTheNearestOfAll) {
  Rng rng(1);
  std::vector<float> row(300);
  for (float& value : row)
    value = static_cast<float>(std::ldexp(rng.uniform() - 0.5, -(int)rng.below(20)));
  std::vector<std::uint8_t> codes(row.size());
  const float scale = round_to_e4m3(row, codes);
  float most = 0;
  for (const float value : row) most = std::max(most, std::abs(value));
  EXPECT_EQ(scale, most / 448);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double want = static_cast<double>(row[i] / scale);
    const double off = std::abs(to_float(E4m3{codes[i]}) - want);
    for (int code = 0; code < 256; ++code) {
      if ((code & 127) == 127) continue;
      EXPECT_LE(off, std::abs(to_float(E4m3{static_cast<std::uint8_t>(code)}) - want)) << row[i];
    }
  }
}

TEST(E4m3Rows, WhatIsNoNumberOrNothing) {
  std::vector<std::uint8_t> codes(3, 9);
  EXPECT_EQ(round_to_e4m3(std::vector<float>{0, -0.0F, 1e-31F}, codes), 0);
  EXPECT_EQ(codes, std::vector<std::uint8_t>(3));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float none : {kInfinity, -kInfinity, kNan}) {
    for (const float given : {0.0F, 0.5F}) {
      codes.assign(3, 9);
      EXPECT_TRUE(std::isnan(round_to_e4m3(std::vector<float>{1, none, 2}, codes, given)));
      EXPECT_EQ(codes, std::vector<std::uint8_t>(3));
    }
  }
}

TEST(E4m3Rows, AGivenScaleSaturates) {
  std::vector<std::uint8_t> codes(5);
  EXPECT_EQ(round_to_e4m3(std::vector<float>{1, 224, 225, -1e30F, 0.5F * 0x1p-10F}, codes, 0.5F),
            0.5F);
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{0x40, 0x7e, 0x7e, 0xfe, 0}));
}

// --- devices ---

class E4m3Products : public EveryCpu {
 protected:
  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << GetParam() << " has no products of E4M3";
  }
};

// Matrices of random codes, none of them NaN, with the scales of their blocks.
class StoredE4m3 {
 public:
  StoredMatrix matrix(Rng& rng, std::int64_t out, std::int64_t in, std::int64_t block_out,
                      std::int64_t block_in) {
    std::vector<std::byte> codes(static_cast<std::size_t>(out * in));
    for (std::byte& code : codes) {
      const auto any = static_cast<std::uint8_t>(rng.below(256));
      code = std::byte{(any & 127) == 127 ? std::uint8_t{0} : any};
    }
    std::vector<float> scales(static_cast<std::size_t>((out + block_out - 1) / block_out *
                                                       ((in + block_in - 1) / block_in)));
    for (float& scale : scales) scale = static_cast<float>(0.001 * (0.5 + rng.uniform()));
    return matrix(out, in, block_out, block_in, std::move(codes), scales);
  }
  StoredMatrix matrix(std::int64_t out, std::int64_t in, std::int64_t block_out,
                      std::int64_t block_in, std::vector<std::byte> codes,
                      const std::vector<float>& scales) {
    StoredMatrix stored;
    stored.format = StoredMatrix::Format::kE4m3;
    stored.stored_out = stored.out_end = out;
    stored.stored_in = stored.in_end = in;
    stored.block_out = block_out;
    stored.block_in = block_in;
    stored.codes = {DType::kU8, keep(std::move(codes))};
    const auto raw = std::as_bytes(std::span(scales));
    stored.scales = {DType::kF32, keep({raw.begin(), raw.end()})};
    return stored;
  }
  // 1 in each row's own column, so that what comes out is x as it was rounded.
  StoredMatrix unit(std::int64_t size, std::int64_t block) {
    std::vector<std::byte> codes(static_cast<std::size_t>(size * size));
    for (std::int64_t i = 0; i < size; ++i)
      codes[static_cast<std::size_t>(i * size + i)] = std::byte{0x38};
    return matrix(size, size, size, block, std::move(codes),
                  std::vector<float>(static_cast<std::size_t>((size + block - 1) / block), 1.0F));
  }

 private:
  std::span<const std::byte> keep(std::vector<std::byte> bytes) {
    return kept_.emplace_back(std::move(bytes));
  }
  std::deque<std::vector<std::byte>> kept_;
};

std::unique_ptr<PackedWeight> pack_e4m3(Device& device, std::span<const StoredMatrix> parts) {
  auto packed = device.pack(parts, DType::kE4m3);
  EXPECT_EQ(packed->operand_dtype(), DType::kE4m3);
  return packed;
}

Matrix odd_e4m3_rows(std::int64_t cols) {
  return odd_rows(cols, 448,
                  [](std::int64_t col) { return static_cast<float>(17 + 2 * (col % 16)); });
}

TEST_P(E4m3Products, RoundActivationsAsDefined) {
  const auto cpu = device();
  StoredE4m3 stored;
  for (const std::int64_t cols : {1, 5, 31, 64, 130, 600}) {
    for (const std::int64_t group : {std::int64_t{32}, std::int64_t{96}, cols}) {
      for (const float given : {0.0F, 0.01F}) {
        if (given > 0 && group < cols) continue;
        SCOPED_TRACE(fmt::format("{} in groups of {}, {}", cols, group, given));
        StoredMatrix unit = stored.unit(cols, group);
        unit.input_scale = given;
        const auto packed = pack_e4m3(*cpu, {&unit, 1});
        Matrix x = odd_e4m3_rows(cols);
        const Matrix y = product(*cpu, *packed, x.view());
        for (std::int64_t row = 0; row < x.rows(); ++row) {
          SCOPED_TRACE(row);
          const std::vector<float> values = x.row(row);
          std::vector<float> want;
          for (std::int64_t begin = 0; begin < cols; begin += group) {
            const auto count = static_cast<std::size_t>(std::min(group, cols - begin));
            std::vector<std::uint8_t> codes(count);
            const float scale = round_to_e4m3(
                std::span(values).subspan(static_cast<std::size_t>(begin), count), codes, given);
            // A sum of one term and zeros: -0 is lost.
            for (const std::uint8_t code : codes) want.push_back(to_float(E4m3{code}) * scale + 0);
          }
          expect_same_bits(y.row(row), want);
        }
      }
    }
  }
}

TEST_P(E4m3Products, WhatIsNoNumberStaysInItsRowOrColumn) {
  const auto cpu = device();
  StoredE4m3 stored;
  Rng rng(5);
  for (const std::int64_t block : {32, 70}) {
    std::vector<std::byte> codes(21 * 70, std::byte{0x30});
    codes[4 * 70 + 69] = std::byte{0xff};
    codes[20 * 70] = std::byte{0x7f};
    const StoredMatrix matrix = stored.matrix(
        21, 70, 1, block, std::move(codes),
        std::vector<float>(static_cast<std::size_t>(21 * ((70 + block - 1) / block)), 1));
    Matrix x(19, 70);
    x.random(rng);
    x.set(3, 17, kNan);
    x.set(18, 69, std::numeric_limits<float>::infinity());
    const Matrix y = product(*cpu, *pack_e4m3(*cpu, {&matrix, 1}), x.view());
    for (std::int64_t row = 0; row < 19; ++row)
      for (std::int64_t col = 0; col < 21; ++col)
        EXPECT_EQ(std::isnan(y.at(row, col)), row == 3 || row == 18 || col == 4 || col == 20)
            << row << " " << col << " " << y.at(row, col);
  }
}

// |w| of each output.
std::vector<double> norms_of(std::span<const StoredMatrix> parts) {
  std::vector<double> norms;
  for (const StoredMatrix& part : parts) {
    std::vector<float> row(static_cast<std::size_t>(part.in()));
    const StoredMatrixReader reader(part);
    for (std::int64_t out = 0; out < part.out(); ++out) {
      double sum = 0;
      reader.read(out, out + 1, 0, part.in(), row.data(), part.in());
      for (const float value : row) sum += static_cast<double>(value) * value;
      norms.push_back(std::sqrt(sum));
    }
  }
  return norms;
}

struct E4m3Case {
  std::int64_t rows, in, out, block_out, block_in;
  float given = 0;
  Activation activation = Activation::kNone;
  bool bias = false;
  bool residual = false;
};

// Against the twin, whose rows are rounded to the same numbers. A sum of n terms in f32 is off by n
// roundings of what it may reach, |x| |w|; a few more make up for the scales, the bias and the
// residual. 1.2 is the most that an activation's slope is.
void run_e4m3_case(Device& device, Device& reference, const E4m3Case& c) {
  SCOPED_TRACE(fmt::format("rows {} in {} out {} blocks {} x {} given {} activation {}", c.rows,
                           c.in, c.out, c.block_out, c.block_in, c.given,
                           static_cast<int>(c.activation)));
  Rng rng(static_cast<std::uint64_t>(c.rows * 131 + c.in * 17 + c.out));
  StoredE4m3 stored;
  StoredMatrix whole = stored.matrix(rng, c.out, c.in, c.block_out, c.block_in);
  whole.input_scale = c.given;
  const std::int64_t cut = c.block_out == 128 && c.out > 128 ? 128 : c.out / 3;
  const StoredMatrix parts[] = {whole.outputs(0, cut), whole.outputs(cut, c.out)};
  const auto packed = pack_e4m3(device, parts);
  const auto twin = reference.pack(parts, DType::kE4m3);
  Matrix x(c.rows, c.in);
  x.random(rng);
  Matrix bias(1, c.out);
  bias.random(rng);
  Matrix y(c.rows, c.out);
  y.random(rng);
  Matrix want = y;
  const auto args = [&](const PackedWeight* w, Matrix& result) {
    GemmArgs gemm;
    gemm.x = x.view();
    gemm.weight = w;
    if (c.bias) gemm.bias = bias.view();
    gemm.activation = c.activation;
    if (c.residual) gemm.residual = result.view();
    gemm.y = result.view();
    return gemm;
  };
  reference.lane(Lane::kStep).gemm(args(twin.get(), want));
  device.lane(Lane::kStep).gemm(args(packed.get(), y));
  const std::vector<double> rows = x.norms();
  const std::vector<double> norms = norms_of(parts);
  // A rounded row is at most an eighth longer than the row, or what saturates is shorter.
  expect_near(y, want, [&](std::int64_t row, std::int64_t col) {
    return 1.2 * kEpsilon *
           (static_cast<double>(c.in + 8) * 1.125 * rows[static_cast<std::size_t>(row)] *
                norms[static_cast<std::size_t>(col)] +
            8 * (2 + std::abs(want.at(row, col))));
  });
}

TEST_P(E4m3Products, MatchReferenceForEveryShape) {
  const auto cpu = device();
  for (const std::int64_t rows : {0, 1, 15, 17, 33})
    for (const std::int64_t in : {1, 31, 64, 261})
      for (const std::int64_t out : {3, 33, 70}) {
        run_e4m3_case(*cpu, *reference_, {rows, in, out, 1, in});
        run_e4m3_case(*cpu, *reference_, {rows, in, out, 16, 32});
      }
  run_e4m3_case(*cpu, *reference_, {70, 400, 300, 128, 128});  // blocks of the stacked matrix
  run_e4m3_case(*cpu, *reference_, {5, 300, 130, 128, 128});
  run_e4m3_case(*cpu, *reference_, {5, 300, 128, 128, 128});
  run_e4m3_case(*cpu, *reference_, {40, 64, 130, 130, 64, 0.002F});
  run_e4m3_case(*cpu, *reference_, {3, 1600, 40, 40, 1600});
}

TEST_P(E4m3Products, BiasActivationAndResidual) {
  const auto cpu = device();
  for (int activation = 0; activation <= static_cast<int>(Activation::kRelu); ++activation) {
    const auto which = static_cast<Activation>(activation);
    run_e4m3_case(*cpu, *reference_, {3, 40, 37, 1, 40, 0, which, true, false});
    run_e4m3_case(*cpu, *reference_, {41, 96, 37, 8, 32, 0, which, true, true});
    run_e4m3_case(*cpu, *reference_, {1, 40, 37, 37, 40, 0, which, false, true});
  }
}

// |y - x w| <= (a sixteenth of each x, or half the least step) |w|: what rounding x can do; and
// what summing n terms in f32 does to a sum of as much as 17 times that.
TEST_P(E4m3Products, AreNearThoseOfTheNumbers) {
  constexpr std::int64_t kIn = 200;
  constexpr std::int64_t kOut = 50;
  const auto cpu = device();
  Rng rng(3);
  StoredE4m3 stored;
  const StoredMatrix whole = stored.matrix(rng, kOut, kIn, kOut, kIn);
  std::vector<float> weights(kOut * kIn);
  StoredMatrixReader(whole).read(0, kOut, 0, kIn, weights.data(), kIn);
  Matrix x(23, kIn);
  x.random(rng);
  for (std::int64_t row = 0; row < x.rows(); row += 3) x.set(row, 2 * row, 20);  // outliers
  const Matrix y = product(*cpu, *pack_e4m3(*cpu, {&whole, 1}), x.view());
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    double most = 0;
    for (const float value : x.row(row)) most = std::max<double>(most, std::abs(value));
    for (std::int64_t col = 0; col < kOut; ++col) {
      double want = 0;
      double bound = 0;
      for (std::int64_t i = 0; i < kIn; ++i) {
        const double weight = weights[static_cast<std::size_t>(col * kIn + i)];
        want += x.at(row, i) * weight;
        bound +=
            std::max<double>(std::abs(x.at(row, i)) / 16, most / 448 * 0x1p-10) * std::abs(weight);
      }
      EXPECT_LE(std::abs(y.at(row, col) - want), bound * (1 + 17 * (kIn + 8) * kEpsilon))
          << row << " " << col;
    }
  }
}

// A row alone, in any company and at any place.
TEST_P(E4m3Products, RowsDoNotDependOnTheBatch) {
  constexpr std::int64_t kRows = 80;
  constexpr std::int64_t kIn = 300;
  constexpr std::int64_t kOut = 150;
  Rng rng(7);
  StoredE4m3 stored;
  Matrix x(kRows, kIn);
  x.random(rng);
  for (const std::int64_t block : {std::int64_t{128}, kIn}) {
    const StoredMatrix whole = stored.matrix(rng, kOut, kIn, 128, block);
    for (const int seed : {1, 2}) {
      const auto cpu = device(seed);
      const auto packed = pack_e4m3(*cpu, {&whole, 1});
      const Matrix all = product(*cpu, *packed, x.view());
      for (const std::int64_t count : {1, 2, 15, 16, 17, 32, 33, 65}) {
        std::vector<std::int64_t> picked;
        Matrix some(count, kIn);
        for (std::int64_t i = 0; i < count; ++i) {
          picked.push_back(static_cast<std::int64_t>(rng.below(kRows)));
          for (std::int64_t col = 0; col < kIn; ++col) some.set(i, col, x.at(picked.back(), col));
        }
        const Matrix result = product(*cpu, *packed, some.view());
        for (std::int64_t i = 0; i < count; ++i) {
          SCOPED_TRACE(fmt::format("row {} of {}", i, count));
          expect_same_bits(result.row(i), all.row(picked[static_cast<std::size_t>(i)]));
        }
      }
    }
  }
}

// Windows that blocks begin with; and what has no groups in common is packed for rows of floats.
TEST_P(E4m3Products, WindowsAndWhatIsNone) {
  const auto cpu = device();
  Rng rng(9);
  StoredE4m3 stored;
  const StoredMatrix blocks = stored.matrix(rng, 140, 320, 64, 64);
  const StoredMatrix outputs = stored.matrix(rng, 30, 236, 1, 236);
  // Blocks of the size that libraries take, which the stacked matrix does not have at their places.
  const StoredMatrix large = stored.matrix(rng, 300, 320, 128, 128);
  const std::vector<StoredMatrix> cases[] = {
      {blocks.inputs(64, 300).outputs(5, 90), blocks.inputs(64, 300).outputs(60, 140)},
      {large.outputs(0, 100), large.outputs(128, 300)},
      {large.outputs(100, 300)}};
  for (const std::vector<StoredMatrix>& parts : cases) {
    Matrix x(20, parts[0].in());
    x.random(rng);
    const Matrix got = product(*cpu, *pack_e4m3(*cpu, parts), x.view());
    const Matrix want = product(*reference_, *pack_e4m3(*reference_, parts), x.view());
    const std::vector<double> rows = x.norms();
    const std::vector<double> norms = norms_of(parts);
    expect_near(got, want, [&](std::int64_t row, std::int64_t col) {
      return kEpsilon *
             (static_cast<double>(x.cols() + 8) * 1.125 * rows[static_cast<std::size_t>(row)] *
                  norms[static_cast<std::size_t>(col)] +
              8 * std::abs(want.at(row, col)));
    });
  }
  const StoredMatrix cut[] = {blocks.inputs(60, 296)};
  const StoredMatrix mixed[] = {blocks.inputs(64, 300), outputs};
  const StoredMatrix short_blocks[] = {stored.matrix(rng, 16, 64, 16, 16)};
  EXPECT_NE((*cpu).pack(cut, DType::kE4m3)->operand_dtype(), DType::kE4m3);
  EXPECT_NE((*cpu).pack(mixed, DType::kE4m3)->operand_dtype(), DType::kE4m3);
  EXPECT_NE((*cpu).pack(short_blocks, DType::kE4m3)->operand_dtype(), DType::kE4m3);
}

// As a table of embeddings: the numbers, rounded to bf16.
TEST_P(E4m3Products, RowsAreTheNumbers) {
  const auto cpu = device();
  Rng rng(10);
  StoredE4m3 stored;
  for (const StoredMatrix& whole :
       {stored.matrix(rng, 260, 200, 128, 128), stored.matrix(rng, 20, 50, 1, 50)}) {
    const auto packed = pack_e4m3(*cpu, {&whole, 1});
    std::vector<std::int32_t> ids(static_cast<std::size_t>(whole.out()));
    std::iota(ids.begin(), ids.end(), 0);
    Matrix rows(whole.out(), whole.in());
    EmbedArgs args;
    args.packed = packed.get();
    args.ids = cpu->upload(ids);
    args.out = rows.view();
    cpu->embed(args);
    std::vector<float> numbers(static_cast<std::size_t>(whole.out() * whole.in()));
    StoredMatrixReader(whole).read(0, whole.out(), 0, whole.in(), numbers.data(), whole.in());
    for (float& value : numbers) value = to_float(to_bf16(value));
    for (std::int64_t row = 0; row < whole.out(); ++row)
      expect_same_bits(rows.row(row), {numbers.begin() + row * whole.in(),
                                       numbers.begin() + (row + 1) * whole.in()});
  }
}

// Few and many rows an expert; of each kind of scale. Where a scale is given, all rows of a layer
// are rounded by the largest.
TEST_P(E4m3Products, Experts) {
  const auto cpu = device();
  constexpr std::int64_t kIn = 96;
  constexpr std::int64_t kWidth = 64;
  constexpr std::int64_t kOut = 40;
  constexpr std::int64_t kCount = 3;
  struct Kind {
    std::int64_t block_out, block_in;
    float given;
  };
  for (const Kind& kind : {Kind{1, kIn, 0}, Kind{16, 32, 0}, Kind{128, 128, 0.02F}}) {
    Rng rng(13);
    StoredE4m3 stored;
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::vector<ExpertWeights> of[2];
    for (std::int64_t e = 0; e < kCount; ++e) {
      const auto matrix = [&](std::int64_t out, std::int64_t in) {
        StoredMatrix made = stored.matrix(rng, out, in, kind.block_out, kind.block_in);
        return made;
      };
      StoredMatrix gate_up = matrix(2 * kWidth, kIn);
      StoredMatrix down = matrix(kOut, kWidth);
      Device* const devices[] = {&*cpu, &*reference_};
      for (std::size_t d = 0; d < 2; ++d) {
        // The twin rounds for each expert: it has the largest everywhere.
        gate_up.input_scale = down.input_scale =
            d == 1 ? kind.given : kind.given * static_cast<float>(e + 1) / kCount;
        packed.push_back(pack_e4m3(*devices[d], {&gate_up, 1}));
        packed.push_back(pack_e4m3(*devices[d], {&down, 1}));
        of[d].push_back({packed[packed.size() - 2].get(), packed.back().get()});
      }
    }
    for (const std::int64_t rows : {1, 9, 70}) {
      SCOPED_TRACE(fmt::format("blocks {} x {}, {} rows", kind.block_out, kind.block_in, rows));
      Matrix x(rows, kIn);
      x.random(rng);
      Matrix logits(rows, kCount);
      logits.random(rng, 3);
      const auto run = [&](Device& on, const std::vector<ExpertWeights>& experts) {
        Matrix gathered(rows, kIn);
        Matrix inner(rows, 2 * kWidth);
        Matrix part(rows, kOut);
        Matrix y(rows, kOut);
        y.fill([] { return 0; });
        on.lane(Lane::kStep)
            .experts({.x = x.view(),
                      .logits = logits.view(),
                      .experts = experts,
                      .per_row = 2,
                      .gathered = gathered.view(),
                      .inner = inner.view(),
                      .part = part.view(),
                      .y = y.view()});
        return y;
      };
      const Matrix got = run(*cpu, of[0]);
      const Matrix want = run(*reference_, of[1]);
      // Between the products a number may become the next code, and is off by an eighth then: few
      // do.
      double error = 0;
      double size = 0;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t col = 0; col < kOut; ++col) {
          error += std::pow(got.at(row, col) - want.at(row, col), 2);
          size += std::pow(want.at(row, col), 2);
        }
      EXPECT_LT(std::sqrt(error / size), 5e-3);
    }
  }
}

SACCADE_EVERY_CPU(E4m3Products);

}  // namespace
}  // namespace saccade
