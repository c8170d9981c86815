// Checkpoints of codes on the device with a library: a prefill whose weights are dequantised to
// bf16 has the bits of one whose weights were rounded to bf16 at load, and the engine says what a
// sequence says alone.
#include <gtest/gtest.h>

#include "tests/golden/golden_requests.h"
#include "tests/gpu/library_device.h"

namespace saccade {
namespace {

using test::fake_cublaslt;
using test::GoldenRequests;

class DequantizedModels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fake_cublaslt() = test::FakeCublasLt();
    fake_cublaslt().max_rows = 256;  // more are not probed: that takes long here
  }
  // Bands of 128 outputs, where a layer has more.
  static GoldenRequests requests(bool dequantize) {
    constexpr cuda::DequantizedProducts kWide = {.least_rows = 17, .band_bytes = 1};
    return GoldenRequests(GetParam(), {"text"}, test::make_library_device(kWide),
                          {.compute = DType::kBf16,
                           .dequantize = dequantize,
                           .weight_only = true,  // fp8 files state more, which is never dequantised
                           .kv = DType::kBf16});
  }
};

TEST_P(DequantizedModels, APrefillHasTheBitsOfDequantised) {
  std::vector<float> logits[2];
  std::size_t products[2];
  for (const bool dequantize : {false, true}) {
    GoldenRequests from = requests(dequantize);
    fake_cublaslt().done.clear();
    auto run = SoloRun::create(from.network(), from.device(), *from.request(0).prompt, {}, 1);
    ASSERT_TRUE(run) << run.error().message;
    Buffer staging;
    const View row = *readable(from.device().lane(Lane::kStep), (*run)->prefill(), staging);
    logits[dequantize].assign(row.row<float>(0), row.row<float>(0) + row.cols());
    products[dequantize] = fake_cublaslt().done.size();
  }
  EXPECT_EQ(logits[0], logits[1]);
  // Some in bands, all of them.
  EXPECT_GE(products[0], products[1]);
}

// Prompts in one step, which is wide, and steps of decode, which are the own kernel's and become
// graphs.
TEST_P(DequantizedModels, TheEngineSaysTheSame) {
  constexpr std::int64_t kTokens = 12;
  constexpr std::size_t kRequests = 2;
  GoldenRequests from = requests(false);
  auto solo = SoloRun::create(from.network(), from.device(), *from.request(0).prompt, {}, kTokens);
  ASSERT_TRUE(solo) << solo.error().message;
  (*solo)->prefill();
  const std::vector<TokenId> alone = (*solo)->greedy(kTokens);
  EngineSettings settings = test::settings_of(256);
  settings.steps_in_flight = 2;
  settings.prefix_caching = false;
  settings.graph_rows = {kRequests};
  fake_cublaslt().done.clear();
  const SteadyClock clock;
  auto engine = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_TRUE(engine) << engine.error().message;
  std::vector<TokenId> answers[kRequests];
  std::size_t unfinished = kRequests;
  for (std::vector<TokenId>& answer : answers) {
    Request request = from.request(0);
    request.sampling.max_tokens = kTokens;
    ASSERT_TRUE(
        (*engine)->submit(std::move(request),
                          [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
                            answer.insert(answer.end(), delta.tokens.begin(), delta.tokens.end());
                            if (delta.finish != FinishReason::kNone) --unfinished;
                          }));
  }
  while (unfinished > 0 && (*engine)->step()) {
  }
  for (const std::vector<TokenId>& answer : answers) EXPECT_EQ(answer, alone);
  EXPECT_GT(fake_cublaslt().done.size(), 0u);
  const auto& stream = static_cast<cuda::CudaStream&>(from.device().lane(Lane::kStep));
  EXPECT_GT(stream.repeated().replays(), kTokens / 2);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, DequantizedModels,
                         ::testing::Values("quantised/gptq_order", "quantised/fp8_channel"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace saccade
