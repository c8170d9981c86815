// Weights of codes of four bits on every instruction set: kept as codes, they give to the bit what
// the same matrix gives as numbers, whatever the rows, the threads and the way of unpacking. On
// "bf16" in bf16 nothing else has the same bits, as codes are multiplied themselves: there the twin
// is the judge.
#include <algorithm>
#include <numeric>

#include "tests/ops/four_bit_cases.h"

namespace saccade {
namespace {

class FourBits : public EveryCpu {
 protected:
  void SetUp() override {
    if (on_cuda()) GTEST_SKIP() << "cuda keeps no codes that these tests know of";
  }
  // Codes are multiplied as they are, and a segment's sum by the scale.
  static bool exact_codes(const PackedWeight& packed) {
    return GetParam() == "bf16" && packed.operand_dtype() == DType::kBf16;
  }
  // packed's product is that of the same matrix as numbers.
  void expect_product_of_dequantised(const TestDevice& cpu, const PackedWeight& packed,
                                     const StoredMatrix& numbers, Matrix& x);
};

// The numbers that the codes are multiplied as.
std::unique_ptr<PackedWeight> pack_numbers(Device& device, const PackedWeight& like,
                                           const StoredMatrix& numbers) {
  return pack(device, numbers, like.operand_dtype());
}

// A product's relative error, to the norms of its row and its output: x rounded to bf16, and a
// weight too where it is not multiplied as a code; sums of n products in f32, n epsilon.
double relative_error(const PackedWeight& packed, bool exact_codes) {
  const double rounding = packed.operand_dtype() == DType::kF32 ? 4 * kEpsilon
                          : exact_codes                         ? 0x1.02p-9
                                                                : 0x1.02p-8;
  return rounding + static_cast<double>(packed.in()) * kEpsilon;
}

void expect_same_rows(const Matrix& got, const Matrix& want) {
  ASSERT_EQ(got.rows(), want.rows());
  for (std::int64_t row = 0; row < got.rows(); ++row) {
    SCOPED_TRACE(fmt::format("row {} of {}", row, got.rows()));
    expect_same_bits(got.row(row), want.row(row));
  }
  EXPECT_TRUE(got.intact());
}

void FourBits::expect_product_of_dequantised(const TestDevice& cpu, const PackedWeight& packed,
                                             const StoredMatrix& numbers, Matrix& x) {
  const Matrix got = product(*cpu, packed, x.view());
  if (!exact_codes(packed)) {
    const auto plain = pack_numbers(*cpu, packed, numbers);
    return expect_same_rows(got, product(*cpu, *plain, x.view()));
  }
  const auto twin = pack(*reference_, numbers, DType::kF32);
  Matrix weights(packed.out(), packed.in());
  StoredMatrixReader(numbers).read(0, packed.out(), 0, packed.in(), weights.view().row<float>(0),
                                   weights.view().stride());
  const std::vector<double> rows = x.norms();
  const std::vector<double> outputs = weights.norms();
  expect_near(got, product(*reference_, *twin, x.view()), [&](std::int64_t row, std::int64_t col) {
    return relative_error(packed, true) * rows[static_cast<std::size_t>(row)] *
           outputs[static_cast<std::size_t>(col)];
  });
}

const std::vector<CodesShape> kShapes = {
    {8, 32, 32},
    {24, 64, 32},
    {72, 256, 128},
    {40, 160, 128},                              // a last group that is short
    {200, 384, 64, StoredMatrix::Format::kAwq},  // more than one panel of everything
    {136, 96, 96, StoredMatrix::Format::kAwq},   // the whole row
    {48, 200, 200},                              // the same, of no whole tile
    {16, 1320, 128, StoredMatrix::Format::kGptq, DType::kBf16},  // several steps of depth
    {16, 640, 32, StoredMatrix::Format::kAwq, DType::kF32},
};

TEST_P(FourBits, GiveTheBitsOfDequantised) {
  const auto cpu = device();
  for (const CodesShape& shape : kShapes) {
    const Codes codes(shape);
    // A scale of f32 does not make exact weights: there the twin alone is the judge.
    if (shape.scales == DType::kF32) continue;
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(fmt::format("{} x {}, groups of {}, {}", shape.out, shape.in, shape.group,
                               name_of(compute)));
      const auto packed = pack(*cpu, codes.matrix(), compute);
      Rng rng(3);
      for (const std::int64_t rows : {1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 70, 300}) {
        if (rows > 33 && shape.out < 100) continue;
        Matrix x(rows, shape.in);
        x.random(rng);
        expect_product_of_dequantised(cpu, *packed, codes.dequantised(), x);
      }
    }
  }
}

// Against sums in double precision.
TEST_P(FourBits, AreNearTheTwin) {
  const auto cpu = device();
  std::vector<CodesShape> shapes = kShapes;
  shapes.push_back({56, 256, 32, StoredMatrix::Format::kGptq, DType::kF16, true});
  shapes.push_back({24, 96, 32, StoredMatrix::Format::kAwq, DType::kF32, true});
  for (const CodesShape& shape : shapes) {
    const Codes codes(shape);
    const auto twin = pack(*reference_, codes.matrix(), DType::kF32);
    const std::vector<double> norms = codes.norms();
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(fmt::format("{} x {}, groups of {}, ordered {}, {}", shape.out, shape.in,
                               shape.group, shape.ordered, name_of(compute)));
      const auto packed = pack(*cpu, codes.matrix(), compute);
      for (const std::int64_t rows : {1, 5, 40}) {
        Rng rng(4);
        Matrix x(rows, shape.in);
        x.random(rng);
        const double relative = relative_error(*packed, exact_codes(*packed));
        const std::vector<double> lengths = x.norms();
        expect_near(product(*cpu, *packed, x.view()), product(*reference_, *twin, x.view()),
                    [&](std::int64_t row, std::int64_t col) {
                      return relative * lengths[static_cast<std::size_t>(row)] *
                             norms[static_cast<std::size_t>(col)];
                    });
      }
    }
  }
}

// Bias, activation, residual, and parts of two matrices one above the other: what they give is what
// each gives alone, finished.
TEST_P(FourBits, StackAndFinish) {
  const auto cpu = device();
  const Codes upper({40, 256, 64});
  const Codes lower({88, 256, 64}, 2);
  const StoredMatrix codes[] = {upper.matrix().outputs(3, 40), lower.matrix()};
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    const auto packed = (*cpu).pack(codes, compute);
    const auto first = pack(*cpu, codes[0], compute);
    const auto second = pack(*cpu, codes[1], compute);
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
      expect_same_rows(y, want);
    }
  }
}

// Inputs [32, 160) of groups of 32, as a rank of several has them.
TEST_P(FourBits, WindowsOfInputs) {
  const auto cpu = device();
  const Codes codes({40, 256, 32});
  const StoredMatrix window = codes.matrix().inputs(32, 160);
  const auto packed = pack(*cpu, window, DType::kBf16);
  const StoredMatrix numbers = codes.dequantised().inputs(32, 160);
  EXPECT_LT(packed->bytes(), pack_numbers(*cpu, *packed, numbers)->bytes());
  Rng rng(6);
  Matrix x(3, 128);
  x.random(rng);
  expect_product_of_dequantised(cpu, *packed, numbers, x);
}

// Words that hold a row's inputs one after another are packed whole: the same weight as code by
// code, of the whole matrix and of windows that begin inside a group or inside a word.
TEST_P(FourBits, WordsOfARowAreItsCodes) {
  const auto cpu = device();
  for (const CodesShape& shape : {CodesShape{40, 256, 32}, CodesShape{72, 384, 128}}) {
    const Codes codes(shape);
    StoredMatrix by_input = codes.matrix();
    by_input.zeros = {};
    by_input.zeros_less_one = false;
    const StoredMatrixReader reader(by_input);
    std::vector<std::uint8_t> all(static_cast<std::size_t>(shape.out * shape.in));
    reader.read_codes(0, shape.out, 0, shape.in, all.data(), shape.in);
    std::vector<std::uint32_t> words(all.size() / 8);
    for (std::size_t i = 0; i < all.size(); ++i)
      words[i / 8] |= static_cast<std::uint32_t>(all[i]) << (i % 8 * 4);
    const std::int64_t groups = shape.in / shape.group;
    std::vector<float> scales;
    for (std::int64_t out = 0; out < shape.out; ++out) {
      for (std::int64_t group = 0; group < groups; ++group)
        scales.push_back(reader.scale(static_cast<std::int32_t>(group), out));
    }
    StoredMatrix by_row = by_input;
    by_row.format = StoredMatrix::Format::kPacked;
    by_row.codes = {DType::kI32, std::as_bytes(std::span(words))};
    by_row.scales = {DType::kF32, std::as_bytes(std::span(scales))};
    using Window = std::pair<std::int64_t, std::int64_t>;
    for (const auto& [begin, end] : {Window{0, shape.in}, Window{32, 160}, Window{4, 36}}) {
      SCOPED_TRACE(fmt::format("{} x {}, inputs {} to {}", shape.out, shape.in, begin, end));
      for (const DType compute : {DType::kF32, DType::kBf16}) {
        const auto one = pack(*cpu, by_input.inputs(begin, end), compute);
        const auto other = pack(*cpu, by_row.inputs(begin, end), compute);
        Matrix x(5, end - begin);
        Rng rng(8);
        x.random(rng);
        expect_same_rows(product(*cpu, *other, x.view()), product(*cpu, *one, x.view()));
      }
    }
  }
}

// act-order: x is put into the order of the groups. The sums run in that order too, so the bits are
// those of numbers whose inputs stand so.
TEST_P(FourBits, GroupsAllOverTheRow) {
  const auto cpu = device();
  constexpr std::int64_t kIn = 320;
  const Codes codes({56, kIn, 64, StoredMatrix::Format::kGptq, DType::kF16, true});
  const StoredMatrixReader reader(codes.matrix());
  std::vector<std::int64_t> order(kIn);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::less<>(), [&](std::int64_t input) {
    return reader.group_of()[static_cast<std::size_t>(input)];
  });
  Matrix whole(56, kIn);
  reader.read(0, 56, 0, kIn, whole.view().row<float>(0), whole.view().stride());
  Matrix sorted(56, kIn);
  for (std::int64_t row = 0; row < 56; ++row)
    for (std::int64_t i = 0; i < kIn; ++i)
      sorted.set(row, i, whole.at(row, order[static_cast<std::size_t>(i)]));
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    const auto packed = pack(*cpu, codes.matrix(), compute);
    const auto numbers = pack_numbers(*cpu, *packed, sorted.view());
    EXPECT_LT(packed->bytes(), numbers->bytes());
    for (const std::int64_t rows : {1, 4, 16, 50}) {
      Rng rng(7);
      Matrix x(rows, kIn);
      x.random(rng);
      Matrix x_sorted(rows, kIn);
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = 0; i < kIn; ++i)
          x_sorted.set(row, i, x.at(row, order[static_cast<std::size_t>(i)]));
      const Matrix got = product(*cpu, *packed, x.view());
      if (!exact_codes(*packed)) {
        expect_same_rows(got, product(*cpu, *numbers, x_sorted.view()));
        continue;
      }
      const auto twin = pack(*reference_, codes.matrix(), DType::kF32);
      const std::vector<double> lengths = x.norms();
      const std::vector<double> outputs = whole.norms();
      expect_near(got, product(*reference_, *twin, x.view()),
                  [&](std::int64_t row, std::int64_t col) {
                    return relative_error(*packed, true) * lengths[static_cast<std::size_t>(row)] *
                           outputs[static_cast<std::size_t>(col)];
                  });
    }
  }
}

// A row alone, in any company and at any place, on any number of threads.
TEST_P(FourBits, RowsDoNotDependOnTheBatchOrThreads) {
  constexpr std::int64_t kRows = 600;
  constexpr std::int64_t kIn = 1184;
  const Codes codes({152, kIn, 32, StoredMatrix::Format::kAwq});
  Rng rng(8);
  Matrix x(kRows, kIn);
  x.random(rng);
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    std::vector<std::vector<float>> all;
    for (const int threads : {1, 3}) {
      const auto cpu = device(threads);
      const auto packed = pack(*cpu, codes.matrix(), compute);
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
          SCOPED_TRACE(fmt::format("row {} of {}, {} threads", i, count, threads));
          expect_same_bits(some.row(i), all[static_cast<std::size_t>(first + i)]);
        }
      }
    }
  }
}

// What lies between the products of an MLP, on a matrix unit as anywhere.
TEST_P(FourBits, MlpGivesTheBitsOfDequantised) {
  const auto cpu = device();
  for (const bool ordered : {false, true}) {
    const Codes in({2 * 160, 96, 32, StoredMatrix::Format::kGptq, DType::kF16, false});
    const Codes out({72, 160, 32, StoredMatrix::Format::kGptq, DType::kF16, ordered}, 2);
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      const auto in_codes = pack(*cpu, in.matrix(), compute);
      const auto out_codes = pack(*cpu, out.matrix(), compute);
      for (const std::int64_t rows : {2, 40}) {
        Rng rng(9);
        Matrix x(rows, 96);
        x.random(rng);
        Matrix inner(rows, 320);
        inner.random(rng);
        Matrix y(rows, 72);
        cpu->mlp({.x = x.view(),
                  .in = in_codes.get(),
                  .in_bias = {},
                  .activation = Activation::kSilu,
                  .out = out_codes.get(),
                  .out_bias = {},
                  .residual = {},
                  .inner = inner.view(),
                  .y = y.view()});
        const Matrix both = product(*cpu, *in_codes, x.view());
        Matrix gated(rows, 160);
        Matrix halves = both;
        cpu->gated({.gate = halves.view().col_range(0, 160),
                    .up = halves.view().col_range(160, 320),
                    .activation = Activation::kSilu,
                    .out = gated.view()});
        expect_same_rows(y, product(*cpu, *out_codes, gated.view()));
      }
    }
  }
}

TEST_P(FourBits, RowsOfATiedEmbeddingAreTheNumbers) {
  const auto cpu = device();
  for (const bool ordered : {false, true}) {
    const Codes codes({56, 192, 64, StoredMatrix::Format::kGptq, DType::kF16, ordered});
    Matrix want(56, 192);
    StoredMatrixReader(codes.matrix())
        .read(0, 56, 0, 192, want.view().row<float>(0), want.view().stride());
    std::vector<std::int32_t> ids(56);
    std::iota(ids.begin(), ids.end(), 0);
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      const auto packed = pack(*cpu, codes.matrix(), compute);
      Matrix rows(56, 192);
      EmbedArgs args;
      args.packed = packed.get();
      args.ids = cpu->upload(ids);
      args.out = rows.view();
      cpu->embed(args);
      expect_same_rows(rows, want);
    }
  }
}

// Half a byte a weight, and three for the scale and the zero of each group; what cannot be kept so
// is kept as numbers.
TEST_P(FourBits, TakeAQuarterOfSixteenBits) {
  const auto cpu = device();
  const Codes codes({256, 512, 128});
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    const std::size_t bytes = pack(*cpu, codes.matrix(), compute)->bytes();
    EXPECT_GE(bytes, 256U * 512 / 2 + 256U * 4 * 3);
    EXPECT_LE(bytes, (256U * 512 / 2 + 256U * 4 * 3) * 102 / 100);  // lines are filled up
  }
  EXPECT_EQ(pack(*cpu, codes.dequantised(), DType::kBf16)->bytes(), 256U * 512 * 2);
  const Codes small({256, 512, 16});
  EXPECT_EQ(pack(*cpu, small.matrix(), DType::kBf16)->bytes(), 256U * 512 * 2);
  StoredMatrix bytes = codes.matrix();
  bytes.bits = 8;
  bytes.stored_in = bytes.in_end = 256;
  EXPECT_EQ(pack(*cpu, bytes, DType::kBf16)->bytes(), 256U * 256 * 2);
}

SACCADE_EVERY_CPU(FourBits);

}  // namespace
}  // namespace saccade
