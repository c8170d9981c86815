// Products of E4M3 by a library: scales where it wants them, rows whose bits do not depend on their
// company though the library's may, and the own kernel for what no library takes. The library is
// the stand-in of product_library_test.cc.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_stream.h"
#include "ops/cuda/libraries/cublaslt_library.h"
#include "tests/gpu/fakes/fake_cublaslt.h"

namespace saccade::cuda {
namespace {

constexpr const char* kFake = SACCADE_FAKE_CUBLASLT;

test::FakeCublasLt& fake() {
  static const OpenedLibrary library = *OpenedLibrary::open(kFake);
  return reinterpret_cast<test::FakeCublasLtSettings>(
      library.symbol(test::kFakeCublasLtSettings))();
}

// A weight of random codes, none of them NaN, in blocks or with a scale an output.
struct StoredE4m3 {
  StoredE4m3(std::int64_t out, std::int64_t in, std::int64_t block_out, std::int64_t block_in) {
    Rng rng(5);
    codes.resize(static_cast<std::size_t>(out * in));
    for (std::byte& code : codes) {
      const auto any = static_cast<std::uint8_t>(rng.below(256));
      code = std::byte{(any & 127) == 127 ? std::uint8_t{3} : any};
    }
    scales.resize(static_cast<std::size_t>((out + block_out - 1) / block_out *
                                           ((in + block_in - 1) / block_in)));
    for (float& scale : scales) scale = static_cast<float>(0.001 + 0.01 * rng.uniform());
    matrix.format = StoredMatrix::Format::kE4m3;
    matrix.stored_out = matrix.out_end = out;
    matrix.stored_in = matrix.in_end = in;
    matrix.block_out = block_out;
    matrix.block_in = block_in;
    matrix.codes = {DType::kU8, codes};
    matrix.scales = {DType::kF32, std::as_bytes(std::span(scales))};
    matrix.rounds_activations = true;
  }
  std::vector<std::byte> codes;
  std::vector<float> scales;
  StoredMatrix matrix;
};

class E4m3Library : public ::testing::TestWithParam<bool> {  // in blocks
 protected:
  static constexpr std::int64_t kIn = 160;
  static constexpr std::int64_t kOut = 40;
  static constexpr std::int64_t kRows = 300;

  void SetUp() override { fake() = test::FakeCublasLt(); }
  void TearDown() override {
    end();
    EXPECT_EQ(fake().objects, 0) << "handles and descriptors are left";
  }
  void end() {
    weight.reset();
    for (Buffer& buffer : memory) buffer.reset();
    device.reset();
  }
  static StoredE4m3 stored() {
    return GetParam() ? StoredE4m3(kOut, kIn, 128, 128) : StoredE4m3(kOut, kIn, 1, kIn);
  }

  void make(std::vector<int> algorithms, bool batch_invariant = false, bool with_library = true) {
    end();
    fake().algorithms = std::move(algorithms);
    fake().enqueue = emulator::enqueue;
    device = std::make_unique<CudaDevice>(
        emulator::make_emulated_runtime({.late = true, .seed = 7}), 2, DType::kBf16);
    if (with_library) {
      auto library = open_cublaslt(*OpenedLibrary::open(kFake));
      ASSERT_TRUE(library) << library.error().message;
      device->use_library(*std::move(library), batch_invariant);
    }
    const StoredE4m3 of = stored();
    weight = device->pack({&of.matrix, 1}, DType::kE4m3);
    probed = fake().done.size();
    Rng rng(6);
    const auto random = [&](std::int64_t rows, std::int64_t cols, DType type, Buffer& buffer) {
      std::vector<float> values(static_cast<std::size_t>(rows * cols));
      // As bf16 has them: biases too.
      for (float& value : values)
        value = to_float(to_bf16(static_cast<float>(rng.uniform() * 2 - 1)));
      buffer = *device->allocate(values.size() * size_of(type), Space::kDevice);
      const View view = buffer.view(type, rows, cols);
      step().upload(View(values.data(), DType::kF32, rows, cols), view);
      return view;
    };
    x = random(kRows, kIn, DType::kBf16, memory[0]);
    residual = random(kRows, kOut, DType::kBf16, memory[1]);
    bias = random(1, kOut, DType::kF32, memory[2]);
    y = random(kRows, kOut, DType::kBf16, memory[3]);
  }
  Stream& step() { return device->lane(Lane::kStep); }

  // Rows [first, first + count) in one product.
  std::vector<std::vector<float>> multiply(std::int64_t first, std::int64_t count,
                                           bool biased = false, bool added = false,
                                           Activation activation = Activation::kNone) {
    GemmArgs args;
    args.x = x.row_range(first, first + count);
    args.weight = weight.get();
    if (biased) args.bias = bias;
    args.activation = activation;
    if (added) args.residual = residual.row_range(first, first + count);
    args.y = y.row_range(0, count);
    step().gemm(args);
    Buffer floats =
        *device->allocate(static_cast<std::size_t>(count * kOut) * sizeof(float), Space::kHost);
    const View to(floats.data(), DType::kF32, count, kOut);
    step().download(args.y, to);
    step().synchronize();
    std::vector<std::vector<float>> rows;
    for (std::int64_t row = 0; row < count; ++row)
      rows.emplace_back(to.row<float>(row), to.row<float>(row) + kOut);
    return rows;
  }
  std::size_t by_library() const { return fake().done.size() - probed; }

  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<PackedWeight> weight;
  Buffer memory[4];
  View x, residual, bias, y;
  std::size_t probed = 0;
};

// The own kernel's numbers but for the order of sums and the roundings of both to bf16, 2^-8 of a
// number at most, of what is left of terms that cancel too. A bias goes into the library, and so
// does GELU behind it.
TEST_P(E4m3Library, AreTheOwnKernels) {
  struct Case {
    bool biased;
    bool added;
    Activation activation;
    int epilogue;
  };
  for (const Case& each :
       {Case{false, true, Activation::kNone, 1}, Case{true, true, Activation::kNone, 4},
        Case{true, true, Activation::kSilu, 1}, Case{true, false, Activation::kGeluTanh, 36}}) {
    make({}, false, false);
    const auto want = multiply(0, 100, each.biased, each.added, each.activation);
    make({test::kAscending});
    const auto got = multiply(0, 100, each.biased, each.added, each.activation);
    EXPECT_EQ(by_library(), 1u);
    EXPECT_EQ(fake().epilogues.back(), each.epilogue);
    for (std::size_t row = 0; row < want.size(); ++row)
      for (std::size_t col = 0; col < want[row].size(); ++col)
        ASSERT_NEAR(got[row][col], want[row][col], std::abs(want[row][col]) / 128 + 1e-3)
            << row << " " << col << " " << each.epilogue;
  }
}

// The contract of each mode: within a class of counts, and over all of them.
TEST_P(E4m3Library, ARowHasItsBitsInAnyCompany) {
  for (const bool batch_invariant : {false, true}) {
    make({test::kByCompany, test::kDescending}, batch_invariant);
    const auto all = multiply(0, kRows);
    EXPECT_EQ(by_library(), 1u);
    std::vector<std::int64_t> counts = {257, 299};
    if (batch_invariant) counts.insert(counts.end(), {1, 16, 17, 65, 200});
    for (const std::int64_t count : counts) {
      const std::int64_t first = std::min<std::int64_t>(11, kRows - count);
      const auto some = multiply(first, count);
      for (std::int64_t row = 0; row < count; ++row)
        ASSERT_EQ(some[static_cast<std::size_t>(row)], all[static_cast<std::size_t>(first + row)])
            << batch_invariant << " row " << row << " of " << count;
    }
  }
}

TEST_P(E4m3Library, LiarsAndThoseThatSayNoAreNotAsked) {
  for (const int algorithm :
       {test::kByCompany, test::kByPlace, test::kNever, test::kLouder, test::kOtherScales}) {
    make({algorithm});
    multiply(0, kRows);
    EXPECT_EQ(by_library(), 0u) << algorithm;
  }
  make({test::kByCompany, test::kDescending});
  multiply(0, kRows);
  EXPECT_EQ(by_library(), 1u);
  EXPECT_EQ(fake().done.back(), test::kDescending);
}

// Once it was probed and taken, and then it will not: the product is done all the same.
TEST_P(E4m3Library, ARefusalLaterIsTheOwnKernels) {
  make({}, false, false);
  const auto want = multiply(0, 100, false, true);
  make({test::kAscending});
  fake().refuses = true;
  EXPECT_EQ(multiply(0, 100, false, true), want);
  EXPECT_EQ(by_library(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Scales, E4m3Library, ::testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "blocks" : "rows");
});

// Several blocks of outputs and of inputs, whose scales lie where the library looks for them; and
// groups that are none of its own.
TEST(E4m3LibraryScales, LieWhereTheyAreLookedFor) {
  fake() = test::FakeCublasLt();
  {
    CudaDevice device(emulator::make_emulated_runtime({.late = false, .seed = 3}), 1, DType::kBf16);
    const auto library = open_cublaslt(*OpenedLibrary::open(kFake));
    ASSERT_TRUE(library) << library.error().message;
    fake().enqueue = emulator::enqueue;
    struct Kind {
      std::int64_t block_out, block_in;
      bool taken;
    };
    for (const Kind& kind :
         {Kind{128, 128, true}, Kind{1, 720, true}, Kind{272, 720, true}, Kind{128, 64, false}}) {
      const StoredE4m3 stored(272, 720, kind.block_out, kind.block_in);
      const StoredMatrix parts[] = {stored.matrix.outputs(0, 128), stored.matrix.outputs(128, 272)};
      const auto packed = device.pack(parts, DType::kE4m3);
      const CodedRows& weight = *static_cast<const CudaWeight&>(*packed).codes();
      auto product = product_by(weight);
      ASSERT_EQ(product.has_value(), kind.taken);
      if (!product) continue;
      constexpr std::int64_t kRows = 21;
      Stream& step = device.lane(Lane::kStep);
      Rng rng(8);
      std::vector<float> values(kRows * 720);
      for (float& value : values) value = static_cast<float>(rng.uniform() * 2 - 1);
      const Buffer x_at = *device.allocate(values.size() * 2, Space::kDevice);
      const View x = x_at.view(DType::kBf16, kRows, 720);
      step.upload(View(values.data(), DType::kF32, kRows, 720), x);
      const Buffer codes = *device.allocate(
          static_cast<std::size_t>(kRows * weight.stride + 4 * kRows * weight.groups),
          Space::kDevice);
      const E4m3Rows rounded = {
          .codes = codes.data(),
          .stride = weight.stride,
          .scales = reinterpret_cast<float*>(codes.data() + kRows * weight.stride),
          .group_step = kRows};
      const Buffer y_at = *device.allocate(2 * kRows * 272 * sizeof(float), Space::kDevice);
      const View own = y_at.view(DType::kF32, 2 * kRows, 272).row_range(0, kRows);
      const View theirs = y_at.view(DType::kF32, 2 * kRows, 272).row_range(kRows, 2 * kRows);
      auto& cuda_step = static_cast<CudaStream&>(step);
      cudaStream_t stream = cuda_step.submitting();
      launch_round_e4m3({.x = rows_of(x), .out = rounded, .group = group_of_inputs(weight)},
                        stream);
      launch_gemm_e4m3({.x = rounded, .weight = weight, .residual = {}, .y = rows_of(own)}, stream);
      set_rows(*product, rounded, kRows);
      product->y = rows_of(theirs);
      const auto algorithms = (*library)->algorithms(*product, 1);
      ASSERT_EQ(algorithms.size(), 1u);
      ASSERT_TRUE((*library)->multiply(*product, algorithms[0], nullptr, stream));
      Buffer floats = *device.allocate(2 * kRows * 272 * sizeof(float), Space::kHost);
      const View got(floats.data(), DType::kF32, 2 * kRows, 272);
      step.download(y_at.view(DType::kF32, 2 * kRows, 272), got);
      step.synchronize();
      // Sums of 720 terms of 448 * 448 at most, times the scales' products of 0.011 / 448.
      constexpr double kMost = 720 * 448.0 * 0.011;
      for (std::int64_t row = 0; row < kRows; ++row)
        for (std::int64_t col = 0; col < 272; ++col)
          ASSERT_NEAR(got.row<float>(row)[col], got.row<float>(kRows + row)[col],
                      2 * 728 * 0x1.0p-24 * kMost)
              << kind.block_out << " row " << row << " col " << col;
    }
  }
  EXPECT_EQ(fake().objects, 0);
}

}  // namespace
}  // namespace saccade::cuda
