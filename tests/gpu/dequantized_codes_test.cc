// Products of many rows with weights of codes by way of the library: bands of bf16 made of them,
// multiplied when the emulator's streams come to it, and who multiplies what.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/readback.h"
#include "tests/gpu/library_device.h"
#include "tests/ops/cuda_codes.h"

namespace saccade::cuda {
namespace {

using Format = StoredMatrix::Format;
using test::fake_cublaslt;
using test::make_library_device;

// Two bands of the weights below: of 128 outputs and of 24.
constexpr DequantizedProducts kTwoBands = {.band_bytes = 1};
constexpr std::int64_t kOut = 152;
constexpr std::int64_t kIn = 80;

enum class Kind { kAwq, kOrdered, kBlocks };
constexpr Kind kKinds[] = {Kind::kAwq, Kind::kOrdered, Kind::kBlocks};

struct After {
  bool bias = false;
  bool silu = false;
  bool residual = false;
  DType type = DType::kBf16;
};

class DequantizedCodes : public ::testing::Test {
 protected:
  void SetUp() override { fake_cublaslt() = test::FakeCublasLt(); }
  void TearDown() override {
    drop();
    EXPECT_EQ(fake_cublaslt().objects, 0) << "handles and descriptors are left";
  }
  void begin_anew() {
    drop();
    fake_cublaslt() = test::FakeCublasLt();
  }
  void drop() {
    weight.reset();
    x_memory.reset();
    y_memory.reset();
    residual_memory.reset();
    bias_memory.reset();
    device.reset();
  }

  StoredMatrix stored_as(Kind kind) {
    Stored& from = stored.emplace(21);
    if (kind == Kind::kBlocks) return from.e4m3(kOut, kIn, 48, 32);
    return from.integers(kind == Kind::kAwq ? Format::kAwq : Format::kGptq, kOut, kIn, 16,
                         kind == Kind::kOrdered);
  }
  // The weight on `made`, and operands of `rows` rows.
  void put(Kind kind, std::int64_t rows, std::unique_ptr<CudaDevice> made,
           DType compute = DType::kBf16) {
    drop();
    device = std::move(made);
    const StoredMatrix matrix = stored_as(kind);
    numbers = numbers_of(matrix);
    weight = device->pack({&matrix, 1}, compute);
    x_numbers = random_bf16(rows * kIn, stored->rng());
    residual_numbers = random_bf16(rows * kOut, stored->rng());
    bias_numbers = random_bf16(kOut, stored->rng());
    x = on_device(x_numbers, rows, kIn, DType::kBf16, x_memory);
    bias = on_device(bias_numbers, 1, kOut, DType::kF32, bias_memory);
    fake_cublaslt().done.clear();
  }
  void put(Kind kind, std::int64_t rows) { put(kind, rows, make_library_device(kTwoBands)); }
  static std::unique_ptr<CudaDevice> without_library() {
    return std::make_unique<CudaDevice>(emulator::make_emulated_runtime({.late = true, .seed = 7}),
                                        2, DType::kBf16);
  }
  View on_device(const std::vector<float>& values, std::int64_t rows, std::int64_t cols, DType type,
                 Buffer& memory) {
    memory = *device->allocate(values.size() * size_of(type), Space::kDevice);
    const View view = memory.view(type, rows, cols);
    std::vector<float> copy = values;
    step().upload(View(copy.data(), DType::kF32, rows, cols), view);
    return view;
  }
  Stream& step() { return device->lane(Lane::kStep); }

  // Of rows [first, first + count): y lies among columns that stay what they are, and is its own
  // residual.
  GemmArgs gemm(std::int64_t first, std::int64_t count, const After& after) {
    constexpr std::int64_t kBeside = 8;
    GemmArgs args;
    args.x = x.row_range(first, first + count);
    args.weight = weight.get();
    std::vector<float> around(static_cast<std::size_t>(count * (kOut + 2 * kBeside)), 77);
    for (std::int64_t row = 0; row < count; ++row)
      for (std::int64_t col = 0; col < kOut; ++col)
        around[static_cast<std::size_t>(row * (kOut + 2 * kBeside) + kBeside + col)] =
            residual_numbers[static_cast<std::size_t>((first + row) * kOut + col)];
    y = on_device(around, count, kOut + 2 * kBeside, after.type, y_memory);
    args.y = y.col_range(kBeside, kBeside + kOut);
    if (after.bias) args.bias = bias;
    if (after.silu) args.activation = Activation::kSilu;
    if (after.residual) args.residual = args.y;
    return args;
  }
  std::vector<std::vector<float>> results() {
    Buffer floats = *device->allocate(static_cast<std::size_t>(y.rows() * y.cols()) * sizeof(float),
                                      Space::kHost);
    const View to(floats.data(), DType::kF32, y.rows(), y.cols());
    step().download(y, to);
    step().synchronize();
    std::vector<std::vector<float>> rows;
    for (std::int64_t row = 0; row < y.rows(); ++row) {
      const float* const from = to.row<float>(row);
      for (std::int64_t i = 0; i < 8; ++i) {
        EXPECT_EQ(from[i], 77);
        EXPECT_EQ(from[kOut + 8 + i], 77);
      }
      rows.emplace_back(from + 8, from + 8 + kOut);
    }
    return rows;
  }
  std::vector<std::vector<float>> multiply(std::int64_t first, std::int64_t count,
                                           const After& after = {}) {
    step().gemm(gemm(first, count, after));
    return results();
  }
  static std::size_t by_library() { return fake_cublaslt().done.size(); }

  // Of rows from `first` on, against what they are in double precision: by the checkpoint's numbers
  // and, tighter, by those rounded to bf16.
  void expect_near(const std::vector<std::vector<float>>& got, std::int64_t first,
                   const After& after) {
    constexpr double kHalfUlp = 0x1.0p-24;
    for (std::int64_t row = 0; row < std::ssize(got); ++row) {
      for (std::int64_t col = 0; col < kOut; ++col) {
        double exact = 0;
        double rounded = 0;
        double size = 0;
        for (std::int64_t i = 0; i < kIn; ++i) {
          const double factor = x_numbers[static_cast<std::size_t>((first + row) * kIn + i)];
          const float number = numbers[static_cast<std::size_t>(col * kIn + i)];
          exact += factor * number;
          rounded += factor * to_float(to_bf16(number));
          size += std::abs(factor * number);
        }
        // f32 sums of so many terms, a rounding each; bf16 has 8 bits, so half an ulp is 2^-8 of a
        // number at most.
        const double sums = kIn * kHalfUlp * size * (1 + 0x1.0p-8);
        const auto finish = [&](double sum) {
          if (after.bias) sum += bias_numbers[static_cast<std::size_t>(col)];
          if (after.silu) sum = sum / (1 + std::exp(-sum));
          if (after.residual)
            sum += residual_numbers[static_cast<std::size_t>((first + row) * kOut + col)];
          return sum;
        };
        // What follows in f32: a few roundings of numbers no larger than these; silu's slope is
        // below 1.1, its own error a few ulps.
        const double beside = std::abs(exact) + 2 + std::abs(finish(exact));
        const double slope = after.silu ? 1.1 : 1;
        // The result's rounding, and that before an activation that nothing follows.
        const bool twice = after.silu && !after.residual;
        const double last =
            (after.type == DType::kBf16 ? 0x1.0p-8 : 0) * beside * (twice ? 1 + slope : 1);
        const double tail = last + 16 * kHalfUlp * beside;
        const double value = got[static_cast<std::size_t>(row)][static_cast<std::size_t>(col)];
        ASSERT_NEAR(value, finish(rounded), slope * sums + tail) << "row " << row << " " << col;
        ASSERT_NEAR(value, finish(exact), slope * (sums + 0x1.0p-8 * size) + tail)
            << "row " << row << " " << col;
      }
    }
  }

  std::optional<Stored> stored;
  std::vector<float> numbers, x_numbers, residual_numbers, bias_numbers;
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<PackedWeight> weight;
  Buffer x_memory, y_memory, residual_memory, bias_memory;
  View x, bias, y;
};

TEST_F(DequantizedCodes, ProductsAreNearThoseOfDequantised) {
  for (const Kind kind : kKinds) {
    put(kind, 300);
    for (const After& after :
         {After{}, After{.type = DType::kF32}, After{.residual = true},
          After{.bias = true, .type = DType::kF32}, After{.bias = true, .silu = true},
          After{.bias = true, .silu = true, .residual = true}}) {
      fake_cublaslt().done.clear();
      expect_near(multiply(0, 300, after), 0, after);
      EXPECT_EQ(by_library(), 2u);
    }
  }
}

TEST_F(DequantizedCodes, ProductsOfElevenHundredRows) {
  put(Kind::kOrdered, 1100);
  for (const After& after : {After{.type = DType::kF32}, After{.bias = true, .residual = true}}) {
    fake_cublaslt().done.clear();
    expect_near(multiply(0, 1100, after), 0, after);
    EXPECT_EQ(by_library(), 2u);
  }
}

// The choice is by class: 256 rows have the bits of a device without the library.
TEST_F(DequantizedCodes, FromTheFirstOfAClassOn) {
  put(Kind::kAwq, 300, without_library());
  const auto own = multiply(3, 256);
  const auto more = multiply(3, 257);
  put(Kind::kAwq, 300);
  EXPECT_EQ(multiply(3, 256), own);
  EXPECT_EQ(by_library(), 0u);
  const auto wide = multiply(3, 257);
  EXPECT_EQ(by_library(), 2u);
  EXPECT_NE(wide, more) << "weights are rounded there";
}

TEST_F(DequantizedCodes, ARowHasItsBitsInAnyCompanyOfItsClass) {
  put(Kind::kOrdered, 1030);
  const auto all = multiply(0, 1024);
  for (const std::int64_t count : {257, 271, 1000}) {
    const auto some = multiply(17, count);
    for (std::int64_t row = 0; row < count && row + 17 < 1024; ++row)
      ASSERT_EQ(some[static_cast<std::size_t>(row)], all[static_cast<std::size_t>(row + 17)])
          << row << " of " << count;
  }
}

// By the own kernel, with the bits that it gives without a library: in a mode that promises one
// row's bits in all classes, where no algorithm will do for a band, and for weights that are not
// to be bf16.
TEST_F(DequantizedCodes, OthersAreTheOwnKernels) {
  const After after = {.bias = true, .residual = true};
  for (const Kind kind : {Kind::kAwq, Kind::kOrdered}) {
    put(kind, 300, without_library());
    const auto want = multiply(0, 300, after);
    const auto expect_own = [&](const char* why) {
      EXPECT_EQ(multiply(0, 300, after), want) << why;
      EXPECT_EQ(by_library(), 0u) << why;
    };
    put(kind, 300, make_library_device(kTwoBands, true));
    expect_own("batch invariant");
    put(kind, 300, make_library_device(kTwoBands), DType::kF32);
    expect_own("not packed as bf16");
    put(kind, 300, make_library_device({.least_rows = 1025, .band_bytes = 1}));
    expect_own("the class below");
    fake_cublaslt().algorithms = {test::kByCompany, test::kByPlace, test::kNever};
    put(kind, 300);
    expect_own("rows depend on their company");
    begin_anew();
    fake_cublaslt().least_outputs = 25;
    put(kind, 300);
    expect_own("the last band has no algorithm");
    begin_anew();
    fake_cublaslt().max_rows = 1024;
    put(kind, 300);
    multiply(0, 300, after);
    EXPECT_EQ(by_library(), 2u);
  }
}

// Rows that the library cannot take, though its algorithms were taken.
TEST_F(DequantizedCodes, RowsThatAreNotAlignedAreTheOwnKernels) {
  put(Kind::kAwq, 320, without_library());
  const auto own = [&] {
    GemmArgs args = gemm(0, 300, {});
    args.x = View(x.data() + 2, DType::kBf16, 300, kIn, kIn, x.space());
    step().gemm(args);
    return results();
  };
  const auto want = own();
  put(Kind::kAwq, 320);
  EXPECT_EQ(own(), want);
  EXPECT_EQ(by_library(), 0u);
}

// Probed, taken, and then refused: what was dequantised is multiplied all the same.
TEST_F(DequantizedCodes, ARefusalLaterIsTheOwnKernelsOverDequantised) {
  put(Kind::kOrdered, 300);
  fake_cublaslt().refuses = true;
  const After after = {.bias = true, .silu = true, .residual = true};
  expect_near(multiply(0, 300, after), 0, after);
  EXPECT_EQ(by_library(), 0u);
}

// Scratch is taken when weights are packed: products take no more of the device's memory than the
// library's workspace.
TEST_F(DequantizedCodes, ScratchIsThereBeforeKeysAndValuesAre) {
  put(Kind::kAwq, 300,
      make_library_device({}, false,
                          {.late = true, .seed = 7, .total_bytes = std::int64_t{1} << 30}));
  const std::int64_t before = device->free_bytes();
  const GemmArgs args = gemm(0, 300, {});
  const std::int64_t beside = before - device->free_bytes();
  step().gemm(args);
  step().synchronize();
  EXPECT_EQ(by_library(), 1u);
  EXPECT_LE(before - device->free_bytes() - beside,
            static_cast<std::int64_t>(ProductLibrary::kWorkspace) * 5 / 4);
}

// Steps that are kept and become graphs hold the widening too, where rows of decode are many
// enough.
TEST_F(DequantizedCodes, AreKeptInGraphs) {
  constexpr DequantizedProducts kFewRows = {.least_rows = 17, .band_bytes = 1};
  const After after = {.bias = true, .silu = true, .residual = false};
  put(Kind::kOrdered, 100, make_library_device(kFewRows));
  const auto want = multiply(5, 90, after);
  EXPECT_EQ(by_library(), 2u);
  put(Kind::kOrdered, 100, make_library_device(kFewRows));
  const GemmArgs many = gemm(5, 90, after);
  Buffer few_memory = *device->allocate(20 * kOut * sizeof(float), Space::kDevice);
  GemmArgs few = many;
  few.x = x.row_range(5, 25);
  few.y = few_memory.view(DType::kBf16, 20, kOut);
  for (int round = 0; round < 6; ++round) {
    step().begin_repeated(1);
    step().gemm(few);
    step().gemm(many);
    step().end_repeated();
    step().retire();
  }
  EXPECT_GT(static_cast<CudaStream&>(step()).repeated().replays(), 2);
  EXPECT_EQ(results(), want);
}

TEST(DequantizedProducts, BeginWhereWideningPays) {
  // 4.5 bytes at 4.3e12 a second are the flops of so many rows at 788e12, twice.
  EXPECT_NEAR(even_rows(4.5, 0.5), 412, 1);
  EXPECT_NEAR(even_rows(5, 0.5), 458, 1);
  EXPECT_EQ(DequantizedProducts().least_rows, 257);
}

}  // namespace
}  // namespace saccade::cuda
