// An engine that is warmed up: graphs are there before its first request, and nothing of what made
// them shows.
#include <gtest/gtest.h>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_device.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::GoldenRequests;

TEST(WarmUp, GraphsAreThereAndNothingIsCounted) {
  GoldenRequests from("qwen2_5_vl/odd_heads", {"text", "one_image"},
                      make_emulated_cuda_device({.late = true, .seed = 3}));
  int images = 0;
  std::vector<std::int64_t> asked;
  WarmUp warm_up;
  warm_up.text = [&](std::int64_t tokens) -> Result<Request> {
    asked.push_back(tokens);
    return from.request(0);
  };
  warm_up.image = [&]() -> Result<Request> {
    ++images;
    return from.request(1);
  };
  EngineSettings settings = test::settings_of(64);
  settings.graph_rows = {1, 2};
  const SteadyClock clock;
  auto engine =
      Engine::create(settings, from.network(), from.device(), clock, {.warm_up = &warm_up});
  ASSERT_TRUE(engine) << engine.error().message;
  ASSERT_EQ(images, 1);
  EXPECT_EQ(asked.front(), 64);
  EXPECT_EQ(std::ranges::count(asked, 1), 3);  // of one row and of two
  const auto& repeated = static_cast<cuda::CudaStream&>(from.device().lane(Lane::kStep)).repeated();
  EXPECT_EQ(repeated.graphs(), 2);
  const std::int64_t captures = repeated.captures();
  const std::int64_t replays = repeated.replays();
  const EngineStats before = (*engine)->stats();
  EXPECT_EQ(before.steps, 0u);
  EXPECT_EQ(before.encoder_runs, 0u);

  std::vector<TokenId> answers[2];
  std::size_t unfinished = 2;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto sink = [&, i](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
      answers[i].insert(answers[i].end(), delta.tokens.begin(), delta.tokens.end());
      if (delta.finish != FinishReason::kNone) --unfinished;
    };
    ASSERT_TRUE((*engine)->submit(from.request(i), sink));
  }
  while (unfinished > 0) (*engine)->step();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(answers[i], from.golden(i).greedy);
  EXPECT_EQ(repeated.captures(), captures) << "the same launches";
  EXPECT_GT(repeated.replays(), replays);
  const EngineStats after = (*engine)->stats();
  EXPECT_EQ(after.prefix_cache_hits, 0u);
  EXPECT_EQ(after.images_encoded, 1u);
}

}  // namespace
}  // namespace saccade
