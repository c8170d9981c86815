// Products by a library that is opened at run time: finding it, refusing what will not do, and
// rows whose bits do not depend on their company though the library's may. The library is one of
// the tests' own, which multiplies when the emulator's streams come to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/rng.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_stream.h"
#include "ops/cuda/emulator/emulator.h"
#include "ops/cuda/libraries/cublaslt_library.h"
#include "tests/gpu/fakes/fake_cublaslt.h"

namespace saccade::cuda {
namespace {

using test::FakeCublasLt;
using ::testing::HasSubstr;

constexpr const char* kFakeCublasLt = SACCADE_FAKE_CUBLASLT;
constexpr const char* kLacking = SACCADE_FAKE_CUBLASLT_LACKING;

// --- finding and opening it ---

class Library : public ::testing::Test {
 protected:
  void SetUp() override { fake() = FakeCublasLt(); }
  void TearDown() override { EXPECT_EQ(fake().objects, 0) << "handles and descriptors are left"; }

  // The settings of the instance that everybody opens.
  static FakeCublasLt& fake() {
    static const OpenedLibrary library = *OpenedLibrary::open(kFakeCublasLt);
    return reinterpret_cast<test::FakeCublasLtSettings>(
        library.symbol(test::kFakeCublasLtSettings))();
  }
  static std::string refusal(const char* path = kFakeCublasLt) {
    auto opened = open_first(library_places(kCublasLtFile, path));
    if (!opened) return opened.error().message;
    const auto library = open_cublaslt(*std::move(opened));
    return library ? std::string() : library.error().message;
  }
};

TEST_F(Library, IsFoundInTheFolderThatIsSaid) {
  const std::string folder =
      std::string(kFakeCublasLt).substr(0, std::string(kFakeCublasLt).rfind('/'));
  EXPECT_EQ(library_places(kCublasLtFile, folder), std::vector<std::string>{kFakeCublasLt});
  auto opened = open_first(library_places(kCublasLtFile, folder));
  ASSERT_TRUE(opened) << opened.error().message;
  const auto library = open_cublaslt(*std::move(opened));
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_EQ((*library)->description(), fmt::format("cuBLASLt 13.1.2 ({})", kFakeCublasLt));
}

TEST_F(Library, IsLookedForInToolkitsAndBesideTorch) {
  const std::string root = ::testing::TempDir() + "/saccade_library_places";
  std::filesystem::remove_all(root);
  for (const char* folder : {"home/lib64", "venv/lib/python3.11/site-packages/nvidia/cu13/lib"}) {
    std::filesystem::create_directories(root + "/" + folder);
    std::ofstream(root + "/" + folder + "/" + kCublasLtFile) << "not a library";
  }
  setenv("CUDA_HOME", (root + "/home").c_str(), 1);
  setenv("VIRTUAL_ENV", (root + "/venv").c_str(), 1);
  const std::vector<std::string> places = library_places(kCublasLtFile, "");
  unsetenv("CUDA_HOME");
  unsetenv("VIRTUAL_ENV");
  ASSERT_GE(places.size(), 3u);
  EXPECT_EQ(places[0], kCublasLtFile);
  EXPECT_EQ(places[1], root + "/home/lib64/" + kCublasLtFile);
  EXPECT_THAT(places,
              ::testing::Contains(root + "/venv/lib/python3.11/site-packages/nvidia/cu13/lib/" +
                                  kCublasLtFile));
  const auto opened = open_first({places[1]});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr(places[1]));
  std::filesystem::remove_all(root);
}

TEST_F(Library, SaysWhyItIsNotTaken) {
  EXPECT_THAT(refusal("/nowhere/libcublasLt.so.13"), HasSubstr("/nowhere/libcublasLt.so.13"));
  EXPECT_THAT(refusal(kLacking), HasSubstr("has no cublasLtMatmul"));
  fake().version = 120900;
  EXPECT_THAT(refusal(), HasSubstr("version 120900, and 130000 is the least"));
  fake().version = 130000;
  fake().create_status = 1;
  EXPECT_THAT(refusal(), HasSubstr("no driver, or no GPU"));
  fake().create_status = 0;
  EXPECT_EQ(refusal(), "");
}

// What a device does of it: an error where somebody said where it lies.
TEST_F(Library, IsTheDevicesByItsSettings) {
  const auto described = [](const CudaSettings& settings) -> std::string {
    CudaDevice device(emulator::make_emulated_runtime({}), 1, DType::kBf16);
    const auto opened = device.open_libraries(settings);
    return opened ? device.description() : opened.error().message;
  };
  EXPECT_THAT(described({.libraries = kFakeCublasLt}), HasSubstr("cuda emulated, cuBLASLt 13.1.2"));
  EXPECT_EQ(described({.libraries = "none"}), "cuda emulated");
  EXPECT_THAT(described({.libraries = "/nowhere"}), HasSubstr("cuBLASLt of /nowhere: "));
  setenv("SACCADE_CUDA_LIBS", kFakeCublasLt, 1);
  EXPECT_THAT(described({}), HasSubstr("cuBLASLt 13.1.2"));
  EXPECT_EQ(described({.libraries = "none"}), "cuda emulated");
  fake().create_status = 1;
  EXPECT_THAT(described({}), HasSubstr("no driver, or no GPU"));
  unsetenv("SACCADE_CUDA_LIBS");
}

// --- products ---

// What follows a product.
struct AfterProduct {
  bool bias = false;
  Activation activation = Activation::kNone;
  bool residual = false;
};
constexpr AfterProduct kFinished = {.bias = true, .activation = Activation::kSilu};

class LibraryProducts : public Library {
 protected:
  static constexpr std::int64_t kIn = 40;
  static constexpr std::int64_t kOut = 24;
  static constexpr std::int64_t kRows = 300;

  void make(std::vector<int> algorithms, bool batch_invariant = false, bool with_library = true,
            bool splits = false) {
    fake().algorithms = std::move(algorithms);
    fake().enqueue = emulator::enqueue;
    device = std::make_unique<CudaDevice>(
        emulator::make_emulated_runtime({.late = true, .seed = 7}), 2, DType::kBf16);
    if (with_library) {
      auto library = open_cublaslt(*OpenedLibrary::open(kFakeCublasLt), splits);
      ASSERT_TRUE(library) << library.error().message;
      device->use_library(*std::move(library), batch_invariant);
    }
    Rng rng(5);
    const auto random = [&](std::int64_t count) {
      std::vector<float> values(static_cast<std::size_t>(count));
      for (float& value : values) value = static_cast<float>(rng.uniform() * 2 - 1);
      return values;
    };
    const auto on_device = [&](std::vector<float> values, std::int64_t rows, std::int64_t cols,
                               DType type, View& view) {
      Buffer buffer = *device->allocate(values.size() * size_of(type), Space::kDevice);
      view = buffer.view(type, rows, cols);
      step().upload(View(values.data(), DType::kF32, rows, cols), view);
      return buffer;
    };
    std::vector<float> weights = random(kOut * kIn);
    const StoredMatrix stored = View(weights.data(), DType::kF32, kOut, kIn);
    weight = device->pack({&stored, 1}, DType::kBf16);
    probed = fake().done.size();
    memory[0] = on_device(random(kRows * kIn), kRows, kIn, DType::kBf16, x);
    memory[1] = on_device(random(kRows * kOut), kRows, kOut, DType::kBf16, residual);
    bias_values = random(kOut);
    for (float& value : bias_values) value = to_float(to_bf16(value));
    memory[2] = on_device(bias_values, 1, kOut, DType::kF32, bias);
    memory[3] = on_device(std::vector<float>(kRows * kOut), kRows, kOut, DType::kBf16, y);
  }
  Stream& step() { return device->lane(Lane::kStep); }
  void put_bias(const std::vector<float>& values) {
    bias_values = values;
    step().upload(View(bias_values.data(), DType::kF32, 1, kOut), bias);
  }

  // Rows [first, first + count) in one product.
  std::vector<std::vector<float>> multiply(std::int64_t first, std::int64_t count,
                                           const AfterProduct& after = {}) {
    GemmArgs args;
    args.x = x.row_range(first, first + count);
    args.weight = weight.get();
    if (after.bias) args.bias = bias;
    args.activation = after.activation;
    if (after.residual) args.residual = residual.row_range(first, first + count);
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
  // What the last product's sums went through in the library.
  static int epilogue() { return fake().epilogues.back(); }

  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<PackedWeight> weight;
  Buffer memory[4];
  View x, residual, bias, y;
  std::vector<float> bias_values;
  std::size_t probed = 0;
  void TearDown() override {
    weight.reset();
    for (Buffer& buffer : memory) buffer.reset();
    device.reset();
    Library::TearDown();
  }
};

constexpr int kNoEpilogue = 1;  // cuBLASLt's names of epilogues
constexpr int kBias = 4;
constexpr int kGeluBias = 36;

// Whatever follows a product, it is what the own kernel makes of it, but for the order of sums and
// the roundings: of both results, and of the library's before an activation goes over it.
TEST_F(LibraryProducts, AreTheOwnKernels) {
  struct Case {
    AfterProduct after;
    int epilogue;
    bool rounded_before;
  };
  const Case cases[] = {{{}, kNoEpilogue, false},
                        {{.residual = true}, kNoEpilogue, false},
                        {{.bias = true}, kBias, false},
                        {{.bias = true, .residual = true}, kBias, false},
                        {{.bias = true, .activation = Activation::kGeluTanh}, kGeluBias, false},
                        {{.bias = true, .activation = Activation::kGeluErf}, kBias, true},
                        {kFinished, kBias, true},
                        {{.activation = Activation::kQuickGelu}, kNoEpilogue, true},
                        {{.activation = Activation::kGeluTanh}, kNoEpilogue, true},
                        {{true, Activation::kSilu, true}, kNoEpilogue, false},
                        {{true, Activation::kGeluTanh, true}, kNoEpilogue, false}};
  for (const Case& each : cases) {
    const AfterProduct& after = each.after;
    make({}, false, false);
    const auto before = multiply(0, 100, {.bias = after.bias});
    const auto want = multiply(0, 100, after);
    TearDown();
    make({test::kAscending});
    const auto got = multiply(0, 100, after);
    EXPECT_EQ(by_library(), 1u);
    EXPECT_EQ(epilogue(), each.epilogue);
    // Half an ulp of bf16 is 2^-8 of a number at most; no activation here is steeper than 1.13.
    // 40 terms below 1 are summed in f32 in either order: 1e-4 is far more than that can do.
    for (std::size_t row = 0; row < want.size(); ++row) {
      for (std::size_t col = 0; col < want[row].size(); ++col) {
        const float rounded =
            each.rounded_before ? 1.13f * 0x1p-8f * std::abs(before[row][col]) : 0;
        ASSERT_NEAR(got[row][col], want[row][col],
                    rounded * (1 + 0x1p-7f) + 2 * 0x1p-8f * std::abs(want[row][col]) + 1e-4)
            << row << " " << col << " " << after.bias << static_cast<int>(after.activation)
            << after.residual;
      }
    }
    TearDown();
  }
}

// A bias that bf16 does not hold stays what it is: sums in f32 get it apart.
TEST_F(LibraryProducts, BiasesThatBf16DoesNotHoldAreAddedApart) {
  make({test::kAscending});
  std::vector<float> fine = bias_values;
  fine[5] += 0x1p-14f;
  put_bias(fine);
  for (const Activation activation : {Activation::kNone, Activation::kGeluTanh}) {
    multiply(0, 100, {.bias = true, .activation = activation});
    EXPECT_EQ(epilogue(), kNoEpilogue);
  }
}

// A copy is of what a bias is now: of memory that is written anew, and of memory that was another
// bias's.
TEST_F(LibraryProducts, BiasesThatChangeAreSeen) {
  make({test::kAscending});
  const auto plain = multiply(0, 20);
  const auto expect_added = [&] {
    const auto got = multiply(0, 20, {.bias = true});
    EXPECT_EQ(epilogue(), kBias);
    for (std::size_t row = 0; row < got.size(); ++row)
      for (std::size_t col = 0; col < got[row].size(); ++col)
        ASSERT_NEAR(got[row][col], plain[row][col] + bias_values[col],
                    2 * 0x1p-8f * (std::abs(plain[row][col]) + std::abs(bias_values[col])) + 1e-4);
  };
  expect_added();
  put_bias(std::vector<float>(kOut, 3));
  expect_added();
  for (int round = 0; round < 20; ++round) {
    memory[2].reset();
    memory[2] = *device->allocate(kOut * sizeof(float), Space::kDevice);
    bias = memory[2].view(DType::kF32, 1, kOut);
    put_bias(std::vector<float>(kOut, static_cast<float>(round)));
    expect_added();
  }
}

// Where the library cannot do it, or says what is not so, the rest of the way is the own kernels'.
TEST_F(LibraryProducts, EpiloguesThatAreNotThereOrWrongAreDoneWithout) {
  const AfterProduct gelu = {.bias = true, .activation = Activation::kGeluTanh};
  fake().max_epilogue = kBias;
  make({test::kAscending});
  multiply(0, 100, gelu);
  EXPECT_EQ(epilogue(), kBias);
  TearDown();
  fake().max_epilogue = kNoEpilogue;
  make({test::kAscending});
  multiply(0, 100, gelu);
  EXPECT_EQ(epilogue(), kNoEpilogue);
  TearDown();
  fake().max_epilogue = kGeluBias;

  make({}, false, false);
  const auto want = multiply(0, 100, {.bias = true});
  TearDown();
  make({test::kForgetsBias});
  const auto got = multiply(0, 100, {.bias = true});
  EXPECT_EQ(by_library(), 1u);
  EXPECT_EQ(epilogue(), kNoEpilogue);
  for (std::size_t row = 0; row < want.size(); ++row)
    for (std::size_t col = 0; col < want[row].size(); ++col)
      ASSERT_NEAR(got[row][col], want[row][col], 2 * 0x1p-8f * std::abs(want[row][col]) + 1e-4);
}

TEST_F(LibraryProducts, FewRowsAreTheOwnKernelsByDefault) {
  make({test::kAscending});
  multiply(3, 16);
  EXPECT_EQ(by_library(), 0u);
  multiply(3, 17);
  EXPECT_EQ(by_library(), 1u);
}

// In one launch with its norm a product is the own kernel's: not where it would be the library's.
TEST_F(LibraryProducts, AreFusedWithANormWhereTheyAreTheOwnKernels) {
  constexpr std::int64_t kFew = 5;
  for (const bool batch_invariant : {false, true}) {
    make({test::kDescending}, batch_invariant);
    Buffer ones = *device->allocate(kIn * sizeof(float), Space::kDevice);
    Buffer normed = *device->allocate(kFew * kIn * sizeof(Bf16), Space::kDevice);
    std::vector<float> weights(kIn, 1.0f);
    const View norm = ones.view(DType::kF32, 1, kIn);
    step().upload(View(weights.data(), DType::kF32, 1, kIn), norm);
    NormedGemmArgs args = {.norm = {.x = x.row_range(0, kFew),
                                    .add = {},
                                    .weight = norm,
                                    .bias = {},
                                    .out = normed.view(DType::kBf16, kFew, kIn)},
                           .gemm = {}};
    args.gemm = {.x = args.norm.out,
                 .weight = weight.get(),
                 .bias = bias,
                 .residual = {},
                 .y = y.row_range(0, kFew)};
    step().synchronize();
    const std::uint64_t before = emulator::launches();
    step().normed_gemm(args);
    step().synchronize();
    EXPECT_EQ(emulator::launches() - before, 1u);  // the norm's, or that of both
    EXPECT_EQ(by_library(), batch_invariant ? 1u : 0u);
    args.gemm.y = y.row_range(kFew, 2 * kFew);
    step().norm(args.norm);
    step().gemm(args.gemm);
    EXPECT_EQ(by_library(), batch_invariant ? 2u : 0u);
    Buffer floats = *device->allocate(2 * kFew * kOut * sizeof(float), Space::kHost);
    const View both = floats.view(DType::kF32, 2 * kFew, kOut);
    step().download(y.row_range(0, 2 * kFew), both);
    step().synchronize();
    for (std::int64_t i = 0; i < kFew * kOut; ++i)
      ASSERT_EQ(both.row<float>(0)[i], both.row<float>(kFew)[i]) << i;
    ones.reset();
    normed.reset();
    TearDown();
  }
}

// The contract of each mode: within a class of counts, and over all of them.
TEST_F(LibraryProducts, ARowHasItsBitsInAnyCompany) {
  for (const std::vector<int>& offered : {std::vector<int>{test::kAscending},
                                          {test::kDescending, test::kAscending},
                                          {test::kByCompany, test::kDescending},
                                          {test::kByPlace, test::kByCompany},
                                          {test::kNever, test::kSplit, test::kHungry}}) {
    for (const bool batch_invariant : {false, true}) {
      for (const AfterProduct& after :
           {AfterProduct{}, AfterProduct{.bias = true},
            AfterProduct{.bias = true, .activation = Activation::kGeluTanh}, kFinished}) {
        make(offered, batch_invariant);
        const auto all = multiply(0, kRows, after);
        for (const std::int64_t count : {257, 270, 299}) {
          const std::int64_t first = kRows - count;
          const auto some = multiply(first, count, after);
          for (std::int64_t row = 0; row < count; ++row)
            ASSERT_EQ(some[static_cast<std::size_t>(row)],
                      all[static_cast<std::size_t>(first + row)])
                << offered.front() << " " << batch_invariant << " row " << row << " of " << count;
        }
        if (batch_invariant) {
          for (const std::int64_t count : {1, 5, 16, 17, 64, 65, 200, 256}) {
            const auto some = multiply(11, count, after);
            for (std::int64_t row = 0; row < count; ++row)
              ASSERT_EQ(some[static_cast<std::size_t>(row)],
                        all[static_cast<std::size_t>(11 + row)])
                  << offered.front() << " row " << row << " of " << count;
          }
        }
        TearDown();
      }
    }
  }
}

TEST_F(LibraryProducts, LiarsAndThoseThatSayNoAreNotAsked) {
  for (const int algorithm : {test::kByCompany, test::kByPlace, test::kNever, test::kSplit,
                              test::kHungry, test::kLouder}) {
    for (const bool batch_invariant : {false, true}) {
      make({algorithm}, batch_invariant);
      multiply(0, kRows);
      multiply(0, kRows, kFinished);
      EXPECT_EQ(by_library(), 0u) << algorithm;
      TearDown();
    }
  }
  make({test::kByCompany, test::kDescending});
  multiply(0, kRows);
  EXPECT_EQ(by_library(), 1u);
  EXPECT_EQ(fake().done.back(), test::kDescending);
}

// Pieces of a sum that are added in one order do where that was said; the probe holds them to what
// it holds all to. Sums that blocks add in place never do.
TEST_F(LibraryProducts, SumsMayBeCutWhereThatWasSaid) {
  for (const bool splits : {false, true}) {
    make({test::kSplit, test::kTwoPieces}, false, true, splits);
    const auto all = multiply(0, kRows);
    ASSERT_EQ(by_library(), splits ? 1u : 0u);
    if (splits) {
      EXPECT_EQ(fake().done.back(), test::kTwoPieces);
    }
    const auto some = multiply(11, 280);
    for (std::size_t row = 0; row < some.size(); ++row) ASSERT_EQ(some[row], all[row + 11]);
    TearDown();
  }
}

TEST_F(LibraryProducts, WithoutHeuristicsTheOwnKernelMultiplies) {
  fake().heuristics_fail = true;
  make({test::kAscending});
  multiply(0, kRows);
  EXPECT_EQ(fake().done.size(), 0u);
}

// Once it was probed and taken, and then it will not: the product is done all the same.
TEST_F(LibraryProducts, ARefusalLaterIsTheOwnKernels) {
  make({}, false, false);
  const AfterProduct afters[] = {{.residual = true},
                                 {.bias = true, .residual = true},
                                 {.bias = true, .activation = Activation::kGeluTanh}};
  std::vector<std::vector<std::vector<float>>> want;
  for (const AfterProduct& after : afters) want.push_back(multiply(0, 100, after));
  TearDown();
  make({test::kAscending});
  fake().refuses = true;
  ::testing::internal::CaptureStderr();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(multiply(0, 100, afters[i]), want[i]);
  EXPECT_EQ(by_library(), 0u);
  // Said once for the weight, not once a product.
  const std::string said = ::testing::internal::GetCapturedStderr();
  const auto first = said.find("refuses a product");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("refuses a product", first + 1), std::string::npos) << said;
}

// In steps that become graphs: where sums are finished apart, whose room moves between two of the
// products, and where biases are looked at on the way.
TEST_F(LibraryProducts, AreKeptInGraphs) {
  for (const bool added : {false, true}) {
    AfterProduct after = kFinished;
    after.residual = added;
    make({test::kAscending});
    const auto want = multiply(5, 100, after);
    TearDown();
    make({test::kAscending});
    for (int round = 0; round < 6; ++round) {
      for (const std::int64_t count : {20, 100}) {
        GemmArgs args;
        args.x = x.row_range(5, 5 + count);
        args.weight = weight.get();
        args.bias = bias;
        args.activation = after.activation;
        if (added) args.residual = residual.row_range(5, 5 + count);
        args.y = y.row_range(0, count);
        if (count == 20) step().begin_repeated(1);
        step().gemm(args);
      }
      step().end_repeated();
      step().retire();
    }
    const auto& repeated = static_cast<CudaStream&>(step()).repeated();
    EXPECT_GT(repeated.replays(), 2);
    Buffer floats = *device->allocate(100 * kOut * sizeof(float), Space::kHost);
    const View to(floats.data(), DType::kF32, 100, kOut);
    step().download(y.row_range(0, 100), to);
    step().synchronize();
    for (std::int64_t row = 0; row < 100; ++row)
      ASSERT_EQ(std::vector<float>(to.row<float>(row), to.row<float>(row) + kOut),
                want[static_cast<std::size_t>(row)]);
    floats.reset();
    TearDown();
  }
}

// Rows of 16-byte packs only: others are the own kernel's.
TEST_F(LibraryProducts, RowsThatAreNotAlignedAreTheOwnKernels) {
  make({test::kAscending});
  GemmArgs args;
  args.x = View(x.data() + 2, DType::kBf16, 100, kIn - 8, kIn, x.space());
  std::vector<float> numbers(static_cast<std::size_t>(kOut * (kIn - 8)), 1.0f);
  const StoredMatrix stored = View(numbers.data(), DType::kF32, kOut, kIn - 8);
  const auto narrow = device->pack({&stored, 1}, DType::kBf16);
  probed = fake().done.size();
  args.weight = narrow.get();
  args.y = y.row_range(0, 100);
  step().gemm(args);
  step().synchronize();
  EXPECT_EQ(by_library(), 0u);
  args.x = View(x.data(), DType::kBf16, 100, kIn - 8, kIn, x.space());
  step().gemm(args);
  step().synchronize();
  EXPECT_EQ(by_library(), 1u);
}

}  // namespace
}  // namespace saccade::cuda
