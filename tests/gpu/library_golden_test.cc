// Whole models in bf16 as a server has them on a GPU: products by cuBLASLt, attention by FlashInfer
// where there are such. Their logits against transformers' in f32, within what bf16 does to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cuda/device_under_test.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::GoldenRequests;

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

double distance(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a);
}

class CudaLibraryGolden : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    // Of a vision model the emulator computes the text alone.
    for (const char* name : {"qwen2_vl/", "qwen2_5_vl/", "qwen3_vl/", "llava_onevision/"})
      if (cuda::kUnderTestIsEmulated && std::string_view(GetParam()).starts_with(name))
        GTEST_SKIP() << "its text decoder is that of qwen2 or qwen3_moe, which run here";
    if (const auto device = cuda::make_device_under_test(DType::kBf16); !device)
      GTEST_SKIP() << device.error().message;
  }
  static std::vector<float> logits(std::unique_ptr<Device> device, DType compute,
                                   const std::string& golden) {
    LoadOptions options;
    options.compute = compute;
    return GoldenRequests(GetParam(), {golden}, std::move(device), options).solo(0).logits;
  }
};

// What bf16 does to these logits, the CPU shows, which rounds at the same places but for the order
// of sums: errors of one model's two ways are of one size. A wrong fragment, scale or mask is ten
// times as much.
constexpr double kOfCpus = 3;

TEST_P(CudaLibraryGolden, LogitsAreNearTransformers) {
  for (const std::string golden : {"text", "one_image"}) {
    const std::string file = test::golden_folder(GetParam()) + "/golden/" + golden;
    if (!std::filesystem::exists(file + ".safetensors")) continue;
    if (cuda::kUnderTestIsEmulated && golden != "text") continue;
    SCOPED_TRACE(golden);
    const auto want = logits(make_reference_device(), DType::kF32, golden);
    // Libraries only where a GPU is: the emulator cannot run them.
    const CudaSettings settings = {.libraries = cuda::kUnderTestIsEmulated ? "none" : ""};
    auto library = cuda::make_device_under_test(DType::kBf16, 2, settings);
    ASSERT_TRUE(library) << library.error().message;
    auto own = cuda::make_device_under_test(DType::kBf16, 3);
    ASSERT_TRUE(own) << own.error().message;
    const std::string description = (*library)->description();
    const auto by_library = logits(std::move(*library), DType::kBf16, golden);
    const auto by_own = logits(std::move(*own), DType::kBf16, golden);
    auto cpu = make_cpu_device(kDeviceThreads);
    ASSERT_TRUE(cpu) << cpu.error().message;
    const double size = norm(want);
    const double cpu_error = distance(logits(std::move(*cpu), DType::kBf16, golden), want) / size;
    const double library_error = distance(by_library, want) / size;
    const double own_error = distance(by_own, want) / size;
    std::printf("[ logits   ] %s %s: by %s %.5f, own kernels %.5f, CPU %.5f\n", GetParam(),
                golden.c_str(), description.c_str(), library_error, own_error, cpu_error);
    EXPECT_LT(library_error, kOfCpus * cpu_error + 0.002);
    EXPECT_LT(own_error, kOfCpus * cpu_error + 0.002);
    EXPECT_GT(own_error, 1e-5) << "nothing was rounded";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CudaLibraryGolden,
                         ::testing::Values("qwen2/odd_heads", "qwen2_vl/odd_heads",
                                           "qwen2_5_vl/odd_heads", "qwen3_vl/odd_heads",
                                           "llava_onevision/newlines", "internvl2/internlm2",
                                           "paligemma/second", "phi_3_vision/longrope",
                                           "gemma3/pooled", "glm4v/odd_heads", "llama3/plain",
                                           "qwen3_moe/every_layer", "quantised/awq_vision"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace saccade
