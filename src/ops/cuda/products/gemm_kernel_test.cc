// Products on the emulated device against a double-precision loop, and the same bits in any batch.
#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {
namespace {

struct Case {
  std::int64_t rows, in, out;
  DType x = DType::kBf16;
  DType weight = DType::kBf16;
  DType y = DType::kBf16;
  bool odd = false;  // x and y begin anywhere
  bool bias = false;
  bool residual = false;
  Activation activation = Activation::kNone;
};

TestRows weight_of(const Case& c, Rng& rng) {
  TestRows weight(c.out, c.in, c.weight);
  weight.random(rng);
  return weight;
}

void run_case(const Case& c) {
  SCOPED_TRACE(fmt::format("rows {} in {} out {} x {} weight {} y {} odd {} bias {} residual {}",
                           c.rows, c.in, c.out, name_of(c.x), name_of(c.weight), name_of(c.y),
                           c.odd, c.bias, c.residual));
  Rng rng(static_cast<std::uint64_t>(c.rows * 131 + c.in * 17 + c.out));
  TestRows x(c.rows, c.in, c.x, c.odd);
  x.random(rng);
  TestRows weight = weight_of(c, rng);
  TestRows y(c.rows, c.out, c.y, c.odd);
  y.random(rng);
  const TestRows residual = y;
  std::vector<float> bias;
  for (std::int64_t i = 0; i < c.out; ++i) bias.push_back(static_cast<float>(rng.uniform()));
  GemmKernelArgs args;
  args.x = x.rows();
  args.weight = weight.rows();
  if (c.bias) args.bias = bias.data();
  if (c.residual) args.residual = y.rows();
  args.activation = c.activation;
  args.y = y.rows();
  launch_gemm(args, nullptr);
  const auto product = [&](std::int64_t row, std::int64_t col, bool sizes) {
    double sum = 0;
    for (std::int64_t k = 0; k < c.in; ++k) {
      const double term = static_cast<double>(x.at(row, k)) * weight.at(col, k);
      sum += sizes ? std::abs(term) : term;
    }
    return sum;
  };
  const auto want = [&](std::int64_t row, std::int64_t col) {
    double sum = product(row, col, false);
    if (c.bias) sum += bias[static_cast<std::size_t>(col)];
    if (c.activation == Activation::kSilu) sum = sum / (1 + std::exp(-sum));
    return c.residual ? sum + residual.at(row, col) : sum;
  };
  // Exact products, f32 sums in some order, one rounding of the result.
  expect_near(y, want, [&](std::int64_t row, std::int64_t col) {
    return rounding(c.y) * (std::abs(want(row, col)) + 1e-30) +
           8 * rounding(DType::kF32) * (product(row, col, true) + 3);
  });
}

TEST(GemmKernel, MatchesADoubleLoop) {
  for (const std::int64_t rows : {1, 15, 17, 65, 130})
    for (const std::int64_t in : {8, 40, 96, 200})
      for (const std::int64_t out : {1, 33, 130})
        run_case({.rows = rows, .in = in, .out = out, .bias = in == 40, .residual = in == 96});
}

TEST(GemmKernel, OddRowsAndOutputsInF32) {
  for (const std::int64_t rows : {3, 70})
    for (const std::int64_t in : {1, 33, 72}) {
      run_case({.rows = rows, .in = in, .out = 37, .y = DType::kF32, .odd = true, .bias = true});
      run_case({.rows = rows,
                .in = in,
                .out = 37,
                .odd = true,
                .residual = true,
                .activation = Activation::kSilu});
    }
}

TEST(GemmKernel, ExactOperandsInF32) {
  for (const DType weight : {DType::kF32, DType::kBf16})
    for (const std::int64_t rows : {1, 9, 33, 70})
      for (const std::int64_t in : {1, 16, 75})
        run_case({.rows = rows,
                  .in = in,
                  .out = 70,
                  .x = DType::kF32,
                  .weight = weight,
                  .y = DType::kF32,
                  .odd = in == 75,
                  .bias = true,
                  .residual = true,
                  .activation = Activation::kSilu});
}

TEST(GemmKernel, RandomShapes) {
  Rng rng(77);
  const auto below = [&](std::uint64_t bound) {
    return static_cast<std::int64_t>(rng.below(bound));
  };
  for (int i = 0; i < 25; ++i)
    run_case({.rows = 1 + below(200),
              .in = 1 + below(150),
              .out = 1 + below(150),
              .y = below(2) == 0 ? DType::kF32 : DType::kBf16,
              .odd = below(2) == 0,
              .bias = below(2) == 0,
              .residual = below(2) == 0});
}

// Around the ends of stages and slices, and of the row counts and widths at which tiles change.
TEST(GemmKernel, BordersOfStagesAndSlices) {
  for (const std::int64_t rows : {1, 16, 64})
    for (const std::int64_t in : {63, 64, 127, 129, 511, 512, 513, 1032})
      run_case({.rows = rows, .in = in, .out = 17, .bias = in == 64, .residual = in == 129});
  for (const std::int64_t rows : {3, 17, 66})
    for (const std::int64_t in : {130, 520})
      run_case({.rows = rows, .in = in, .out = 65, .y = DType::kF32, .odd = true});
  for (const std::int64_t rows : {2, 18, 65})
    for (const std::int64_t out : {3071, 3072})
      run_case({.rows = rows, .in = 72, .out = out, .odd = rows == 2});
  for (const std::int64_t rows : {1, 17})
    run_case({.rows = rows, .in = 24, .out = 16897, .y = DType::kF32, .bias = true});
}

// Whole bands of tiles of rows and a part of one, several outputs' tiles wide.
TEST(GemmKernel, EveryTileOfManyRows) {
  run_case({.rows = 16 * 128 + 130, .in = 8, .out = 130, .y = DType::kF32});
  run_case({.rows = 2 * 16 * 64 + 65, .in = 3, .out = 65, .x = DType::kF32, .y = DType::kF32});
}

// By all tiles, at any place in them: the same sums in the same order. `odd` rows come another way.
void expect_the_same_bits(std::int64_t most, std::int64_t in, std::int64_t out, DType type,
                          std::initializer_list<std::int64_t> counts) {
  SCOPED_TRACE(fmt::format("in {} out {} {}", in, out, name_of(type)));
  Rng rng(static_cast<std::uint64_t>(in + out));
  TestRows x(most, in, type);
  x.random(rng);
  TestRows weight(out, in, type);
  weight.random(rng);
  TestRows all(most, out, DType::kF32);
  GemmKernelArgs args;
  args.x = x.rows();
  args.weight = weight.rows();
  args.y = all.rows();
  launch_gemm(args, nullptr);
  for (const std::int64_t count : counts) {
    const auto first =
        static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(most - count)));
    TestRows some(count, in, type, rng.below(3) == 0);
    for (std::int64_t row = 0; row < count; ++row)
      for (std::int64_t col = 0; col < in; ++col) some.set(row, col, x.at(first + row, col));
    TestRows y(count, out, DType::kF32);
    args.x = some.rows();
    args.y = y.rows();
    launch_gemm(args, nullptr);
    for (std::int64_t row = 0; row < count; ++row)
      for (std::int64_t col = 0; col < out; ++col)
        ASSERT_EQ(y.at(row, col), all.at(first + row, col)) << count << " rows, row " << row;
  }
}

TEST(GemmKernel, RowsDoNotDependOnTheBatch) {
  for (const DType type : {DType::kBf16, DType::kF32})
    expect_the_same_bits(140, 200, 70, type, {1, 5, 20, 66});
  // Two slices, three with a short last one, four; and widths that are not summed in slices.
  for (const std::int64_t in : {129, 1048, 1600})
    expect_the_same_bits(131, in, 33, DType::kBf16, {1, 16, 17, 64, 65});
  expect_the_same_bits(66, 264, 3080, DType::kBf16, {1, 16, 17});
  expect_the_same_bits(66, 40, 16905, DType::kBf16, {2, 33});
}

}  // namespace
}  // namespace saccade::cuda
