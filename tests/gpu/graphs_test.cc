// Decode as graphs: whole models in the engine, with steps of decode kept as one launch and without
// (--enforce-eager): the same tokens, whatever else the engine does meanwhile.
#include <gtest/gtest.h>

#include "engine/admission/kv_pool.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/device_under_test.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

struct Outcome {
  std::vector<std::vector<TokenId>> answers;
  EngineStats stats;
  std::int64_t replays = 0;
};

using Change = std::function<void(std::size_t, Request&)>;

// `count` requests of the checkpoint's goldens, each of `tokens` and a few, as `change` makes them.
Outcome run(test::GoldenRequests& from, const EngineSettings& settings, std::size_t count,
            std::int64_t tokens, const Change& change) {
  auto& stream = static_cast<cuda::CudaStream&>(from.device().lane(Lane::kStep));
  const std::int64_t replayed = stream.repeated().replays();
  Outcome outcome;
  outcome.answers.resize(count);
  const SteadyClock clock;
  auto engine = Engine::create(settings, from.network(), from.device(), clock);
  EXPECT_TRUE(engine) << engine.error().message;
  if (!engine) return outcome;
  std::size_t unfinished = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Request request = from.request(i % from.count());
    request.sampling.max_tokens = tokens + static_cast<std::int64_t>(i);
    if (change) change(i, request);
    const auto id = (*engine)->submit(std::move(request), [&, i](RequestId, Delta&& delta,
                                                                 const RequestUsage&,
                                                                 const RequestTimes&) {
      outcome.answers[i].insert(outcome.answers[i].end(), delta.tokens.begin(), delta.tokens.end());
      if (delta.finish != FinishReason::kNone) --unfinished;
    });
    EXPECT_TRUE(id) << id.error().message;
    if (id) ++unfinished;
  }
  while (unfinished > 0 && (*engine)->step()) {
  }
  EXPECT_EQ(unfinished, 0u);
  outcome.stats = (*engine)->stats();
  outcome.replays = stream.repeated().replays() - replayed;
  return outcome;
}

class Graphs : public ::testing::Test {
 protected:
  // The same tokens with graphs and without; what the run with them was.
  Outcome expect_same(const std::string& checkpoint, EngineSettings settings, std::size_t count,
                      std::int64_t tokens, const Change& change = {},
                      const std::vector<std::string>& cases = {"text"}) {
    auto device = cuda::make_device_under_test(options.compute.value_or(DType::kF32), 11);
    if (!device) {
      skipped = device.error().message;
      return {};
    }
    test::GoldenRequests from(checkpoint, cases, *std::move(device), options);
    if (split_tokens > 0)
      static_cast<cuda::CudaStream&>(from.device().lane(Lane::kStep)).split_keys_at(split_tokens);
    settings.eager = true;
    const Outcome eager = run(from, settings, count, tokens, change);
    EXPECT_EQ(eager.replays, 0);
    settings.eager = false;
    Outcome graphs = run(from, settings, count, tokens, change);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_FALSE(eager.answers[i].empty());
      EXPECT_EQ(graphs.answers[i], eager.answers[i]) << checkpoint << " request " << i;
    }
    return graphs;
  }
  // Bytes for so many prompts of a checkpoint and some tokens of their answers.
  std::size_t pool_for(const std::string& checkpoint, std::int64_t prompts, std::int64_t tokens) {
    auto device = cuda::make_device_under_test(DType::kF32, 2);
    if (!device) {
      skipped = device.error().message;
      return 0;
    }
    test::GoldenRequests from(checkpoint, {"text"}, *std::move(device), options);
    const Request request = from.request(0);
    std::int64_t bytes = 0;  // of a token
    for (const LayerSpec& layer : layer_specs(from.network().shape())) bytes += layer.token_bytes();
    return static_cast<std::size_t>(
        bytes * (prompts * static_cast<std::int64_t>(request.prompt->ids.size()) + tokens));
  }
  std::string skipped;
  LoadOptions options = {.compute = DType::kF32, .kv = {}};
  std::int32_t split_tokens = 0;  // of attention; 0: as many as a device has
};

// Sequences end one after another: through every size, tables that grow over pages, two steps in
// flight.
TEST_F(Graphs, ThroughSizesAndGrowingTables) {
  EngineSettings settings = test::settings_of(64);
  settings.block_size = 4;
  settings.steps_in_flight = 2;
  settings.graph_rows = {1, 2, 4, 8};
  const Outcome outcome =
      expect_same("qwen2/odd_heads", settings, 5, 6, [](std::size_t i, Request& request) {
        request.sampling.max_tokens = 6 + 5 * static_cast<std::int64_t>(i);
      });
  if (!skipped.empty()) GTEST_SKIP() << skipped;
  EXPECT_GT(outcome.replays, 8);
}

TEST_F(Graphs, WithSamplingAndPenalties) {
  EngineSettings settings = test::settings_of(64);
  const Outcome outcome =
      expect_same("qwen2/odd_heads", settings, 4, 12, [](std::size_t i, Request& request) {
        request.sampling.temperature = 0.5f + 0.3f * static_cast<float>(i);
        request.sampling.seed = 17 + i;
        request.sampling.top_p = 0.9f;
        if (i % 2 == 1) request.sampling.repetition_penalty = 1.3f;
        request.sampling.logprobs = 2;
      });
  if (!skipped.empty()) GTEST_SKIP() << skipped;
  EXPECT_GT(outcome.replays, 4);
}

// A pool for some of them: others lose their pages and are computed anew.
TEST_F(Graphs, WithPreemption) {
  EngineSettings settings = test::settings_of(64);
  settings.block_size = 4;
  settings.prefix_caching = false;
  settings.kv_cache_bytes = pool_for("qwen2/odd_heads", 3, 24);
  if (!skipped.empty()) GTEST_SKIP() << skipped;
  const Outcome outcome = expect_same("qwen2/odd_heads", settings, 3, 18);
  EXPECT_GT(outcome.stats.num_preemptions, 0u);
  EXPECT_GT(outcome.replays, 0);
}

// Sequences that grow from one split of keys over others, at different steps, beside short ones:
// launches change with the first of them and when splits have doubled, and are graphs between.
TEST_F(Graphs, OverBordersOfSplits) {
  split_tokens = 64;
  for (const auto& [checkpoint, compute] :
       {std::pair{"qwen2/odd_heads", DType::kF32}, {"qwen2/mixed_window", DType::kBf16}}) {
    options.compute = compute;
    EngineSettings settings = test::settings_of(64);
    settings.steps_in_flight = 2;
    settings.graph_rows = {4};
    const Outcome outcome =
        expect_same(checkpoint, settings, 3, 70, [](std::size_t i, Request& request) {
          request.sampling.max_tokens = 25 + 25 * static_cast<std::int64_t>(i);
        });
    if (!skipped.empty()) GTEST_SKIP() << skipped;
    EXPECT_GT(outcome.replays, 30) << checkpoint;
  }
}

// Scales beside the codes, in pages that grow, are taken away and are written anew.
TEST_F(Graphs, WithKeysAndValuesInBytes) {
  for (const DType cache : {DType::kI8, DType::kE4m3}) {
    options.kv = cache;
    EngineSettings settings = test::settings_of(64);
    settings.block_size = 4;
    settings.steps_in_flight = 2;
    Outcome outcome = expect_same("qwen2/mixed_window", settings, 3, 14);
    if (!skipped.empty()) GTEST_SKIP() << skipped;
    EXPECT_GT(outcome.replays, 4);
    settings.prefix_caching = false;
    settings.kv_cache_bytes = pool_for("qwen2/odd_heads", 3, 24);
    outcome = expect_same("qwen2/odd_heads", settings, 3, 18);
    EXPECT_GT(outcome.stats.num_preemptions, 0u);
    EXPECT_GT(outcome.replays, 0);
  }
}

// Guessed tokens make steps of other sizes between those that are alike.
TEST_F(Graphs, WithPromptLookup) {
  EngineSettings settings = test::settings_of(64);
  settings.speculation = {.max_tokens = 3, .shortest = 1, .longest = 3};
  expect_same("qwen2/odd_heads", settings, 2, 24);
  if (!skipped.empty()) GTEST_SKIP() << skipped;
}

TEST_F(Graphs, WithWindowsAndImages) {
  EngineSettings settings = test::settings_of(64);
  settings.block_size = 4;
  Outcome outcome = expect_same("qwen2/mixed_window", settings, 2, 14);
  if (!skipped.empty()) GTEST_SKIP() << skipped;
  EXPECT_GT(outcome.replays, 4);
  settings.steps_in_flight = 2;
  outcome = expect_same("qwen2_vl/odd_heads", settings, 2, 10, {}, {"one_image"});
  EXPECT_GT(outcome.replays, 2);
}

// Frequencies by the length of a row's sequence.
TEST_F(Graphs, WithLongRope) {
  const Outcome outcome = expect_same("phi_3_vision/longrope", test::settings_of(64), 2, 10);
  if (!skipped.empty()) GTEST_SKIP() << skipped;
  EXPECT_GT(outcome.replays, 2);
}

// Which the padding is: more rows than sequences, every time.
TEST_F(Graphs, WithRowsThatAreNobodys) {
  EngineSettings settings = test::settings_of(64);
  settings.graph_rows = {7};
  const Outcome outcome = expect_same("qwen2/odd_heads", settings, 3, 10);
  if (!skipped.empty()) GTEST_SKIP() << skipped;
  EXPECT_GT(outcome.replays, 6);
}

// Which expert a row goes to is another one at every step, and the launches are the same: on every
// layer, and on some of them beside plain ones.
TEST_F(Graphs, WithExperts) {
  for (const char* const checkpoint : {"qwen3_moe/every_layer", "qwen3_moe/some_layers"}) {
    const Outcome outcome = expect_same(checkpoint, test::settings_of(64), 3, 10);
    if (!skipped.empty()) GTEST_SKIP() << skipped;
    EXPECT_GT(outcome.replays, 4) << checkpoint;
  }
}

// Rows that are nobody's begin a state anew in a page of their own; where a sequence's state lies
// is in the step's lists. Also where states are kept, which are copied between steps.
TEST_F(Graphs, WithStates) {
  EngineSettings settings = test::settings_of(64);
  settings.graph_rows = {1, 5};
  settings.steps_in_flight = 2;
  const Outcome outcome = expect_same("qwen3_5/stretched", settings, 3, 9);
  if (!skipped.empty()) GTEST_SKIP() << skipped;
  EXPECT_GT(outcome.replays, 4);
  settings.state_interval = 16;
  const Outcome kept = expect_same("qwen3_5/odd_heads", settings, 3, 14);
  EXPECT_GT(kept.replays, 7);
}

// Of all forms, in an order or not; in bytes, rows are rounded first.
TEST_F(Graphs, WithKeptCodes) {
  for (const char* const checkpoint :
       {"quantised/awq_row", "quantised/gptq_order", "quantised/fp8_block"}) {
    const Outcome outcome = expect_same(checkpoint, test::settings_of(64), 2, 8);
    if (!skipped.empty()) GTEST_SKIP() << skipped;
    EXPECT_GT(outcome.replays, 3) << checkpoint;
  }
  options.text_layers = DType::kI8;
  options.head = DType::kI8;
  for (const char* const checkpoint :
       {"qwen2/odd_heads", "qwen3_moe/every_layer", "qwen3_5/odd_heads"}) {
    const Outcome outcome = expect_same(checkpoint, test::settings_of(64), 2, 8);
    EXPECT_GT(outcome.replays, 3) << checkpoint;
  }
}

}  // namespace
}  // namespace saccade
