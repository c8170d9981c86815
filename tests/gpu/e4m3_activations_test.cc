// Checkpoints of E4M3 that state that their activations are such numbers too, on the CUDA device:
// in bf16 they are rounded, as the twin rounds them in double precision; chunks, company and graphs
// make no difference; and --weight-only leaves them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/device_under_test.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::GoldenRequests;
using test::run_goldens;
using test::settings_of;

std::unique_ptr<Device> under_test(std::uint64_t seed, DType activations = DType::kBf16) {
  auto device = cuda::make_device_under_test(activations, seed);
  CHECK(device.has_value(), "{}", device.error().message);
  return std::move(*device);
}

// A scale a matrix and a given one for activations; a scale an output; blocks.
class CudaE4m3 : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const auto device = cuda::make_device_under_test(DType::kBf16); !device)
      GTEST_SKIP() << device.error().message;
  }
  static GoldenRequests requests(std::unique_ptr<Device> device, DType compute,
                                 bool weight_only = false) {
    LoadOptions options;
    options.compute = compute;
    options.weight_only = weight_only;
    return GoldenRequests(GetParam(), {"text"}, std::move(device), options);
  }
  static std::vector<float> logits(GoldenRequests from) { return from.solo(0).logits; }
};

double row_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(a[i] - b[i], 2);
  return std::sqrt(sum);
}

// What bf16 rounds on the way moves a number to the next code now and then, by a step and not by
// half of one, and each layer more of them: after three layers codes have little to do with the
// twin's, though each product is the twin's for the same rows (ops/reference/e4m3_gemm_test.cc).
// What stays is how far all of it is from the numbers: as far as the twin's rounding, and many
// times bf16's.
TEST_P(CudaE4m3, ActivationsAreRoundedWhereTheCheckpointSaysSo) {
  const auto rounded = logits(requests(make_reference_device(true), DType::kF32));
  const auto numbers = logits(requests(make_reference_device(), DType::kF32));
  const auto got = logits(requests(under_test(3), DType::kBf16));
  const auto left = logits(requests(under_test(4), DType::kBf16, true));
  EXPECT_LT(row_distance(got, numbers), 1.5 * row_distance(rounded, numbers));
  EXPECT_GT(row_distance(got, numbers), 0.6 * row_distance(rounded, numbers));
  EXPECT_GT(row_distance(got, numbers), 4 * row_distance(left, numbers));
  EXPECT_LT(row_distance(left, numbers), 0.5 * row_distance(left, rounded));
  RecordProperty("distances", fmt::format("rounding {}, to the twin {}, without rounding {}",
                                          row_distance(rounded, numbers),
                                          row_distance(got, rounded), row_distance(left, numbers)));
}

// In f32 nothing is: kept codes are multiplied by the activations, and goldens hold them.
TEST_P(CudaE4m3, InF32NothingIsRounded) {
  const auto numbers = logits(requests(make_reference_device(), DType::kF32));
  const auto got = logits(requests(under_test(5, DType::kF32), DType::kF32));
  double most = 0;
  for (const float logit : numbers) most = std::max<double>(most, std::abs(logit));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ASSERT_NEAR(got[i], numbers[i], test::kTolerance * most);
}

// Bit for bit: the logits of a prompt in one piece and in chunks.
TEST_P(CudaE4m3, ChunksMakeNoDifference) {
  GoldenRequests from = requests(under_test(8), DType::kBf16);
  const Request request = from.request(0);
  const auto run = [&](std::int64_t chunk) {
    auto solo = SoloRun::create(from.network(), from.device(), *request.prompt, {}, 3);
    CHECK(solo.has_value(), "{}", solo.error().message);
    Buffer staging;
    const View row = *readable(from.device().lane(Lane::kStep), (*solo)->prefill(chunk), staging);
    std::vector<float> values(row.row<float>(0), row.row<float>(0) + row.cols());
    return std::pair(std::move(values), (*solo)->greedy(3));
  };
  const auto whole = run(1000);
  EXPECT_EQ(run(7), whole);
}

// Steps in flight, chunks and batches, steps that become graphs: the tokens of a sequence alone.
TEST_P(CudaE4m3, TheEngineSaysTheSame) {
  GoldenRequests from = requests(under_test(9), DType::kBf16);
  const std::vector<TokenId> alone = from.solo(0).tokens;
  EngineSettings settings = settings_of(64);
  settings.steps_in_flight = 2;
  settings.graph_rows = {1, 2};
  const auto run = run_goldens(from, settings, 2, 2);
  for (const auto& answer : run.answers) EXPECT_EQ(answer, alone);
  const auto& step = static_cast<cuda::CudaStream&>(from.device().lane(Lane::kStep));
  EXPECT_GT(step.repeated().replays(), 0);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaE4m3,
                         ::testing::Values("quantised/fp8_tensor", "quantised/fp8_channel",
                                           "quantised/fp8_block"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace saccade
