// Several adapters and the model as it is in one engine, against PEFT and transformers: whatever
// the chunks, the batches, preemption, caches and guesses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/golden/golden_requests.h"
#include "tests/golden/lora_golden.h"

namespace saccade {
namespace {

using test::AdapterGoldens;
using test::golden_folder;
using test::GoldenRequests;
using test::load_adapter;
using test::settings_of;

// A checkpoint's goldens, its adapters', and which of them is asked for when.
class AdaptedRequests {
 public:
  explicit AdaptedRequests(const std::string& checkpoint,
                           const LoadOptions& options = {.compute = DType::kF32, .kv = {}})
      : plain_(checkpoint, {"text", "multi_turn"}, engine_device(""), options) {
    for (std::size_t i = 0; i < plain_.count(); ++i) asked_.push_back({plain_.golden(i), nullptr});
    for (const AdapterGoldens& each : test::kAdapterGoldens) {
      if (each.checkpoint != checkpoint) continue;
      auto adapter = load_adapter(plain_.network(), each.folder(), each.name);
      for (const std::string& name : each.cases)
        asked_.push_back(
            {*read_golden(each.folder() + "/golden/" + name + ".safetensors"), adapter});
    }
  }

  struct Asked {
    Golden golden;
    std::shared_ptr<const LoraAdapter> adapter;
    std::string name() const { return golden.path; }
  };
  GoldenRequests& plain() { return plain_; }
  std::size_t count() const { return asked_.size(); }
  const Asked& asked(std::size_t i) const { return asked_[i % asked_.size()]; }
  Request request(std::size_t i) {
    Request request = plain_.request(asked(i).golden);
    request.adapter = asked(i).adapter;
    return request;
  }

 private:
  GoldenRequests plain_;
  std::vector<Asked> asked_;
};

struct MixedRun {
  std::vector<std::vector<TokenId>> answers;
  std::vector<std::vector<float>> logprobs;
  EngineStats stats;
  std::size_t max_running = 0;  // adapters at once
};

// `order`: which are asked for, `together` at a time.
MixedRun run_mixed(AdaptedRequests& from, const EngineSettings& settings,
                   const std::vector<std::size_t>& order, std::size_t together,
                   bool logprobs = false) {
  MixedRun run{std::vector<std::vector<TokenId>>(order.size()),
               std::vector<std::vector<float>>(order.size()),
               {},
               0};
  const test::ErraticClock clock(1);
  auto engine = Engine::create(settings, from.plain().network(), from.plain().device(), clock);
  EXPECT_TRUE(engine) << engine.error().message;
  if (!engine) return run;
  const auto request = [&](std::size_t i) {
    Request asked = from.request(order[i]);
    if (logprobs) asked.sampling.logprobs = 0;
    return asked;
  };
  const auto hear = [&](std::size_t i, const Delta& delta) {
    run.answers[i].insert(run.answers[i].end(), delta.tokens.begin(), delta.tokens.end());
    for (const TokenLogprob& each : delta.logprobs) run.logprobs[i].push_back(each.logprob);
  };
  const auto stepped = [&] {
    run.max_running = std::max(run.max_running, (*engine)->stats().running_loras.size());
  };
  if (test::keep_running(**engine, order.size(), together, request, hear, stepped))
    run.stats = (*engine)->stats();
  return run;
}

std::vector<std::size_t> all_of(const AdaptedRequests& from, std::size_t rounds = 1) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rounds * from.count(); ++i) order.push_back(i % from.count());
  return order;
}

MixedRun expect_all(AdaptedRequests& from, const EngineSettings& settings, std::size_t together,
                    std::size_t rounds = 1) {
  const auto order = all_of(from, rounds);
  MixedRun done = run_mixed(from, settings, order, together);
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(done.answers[i], from.asked(order[i]).golden.greedy) << from.asked(order[i]).name();
  return done;
}

EngineSettings settings_with(std::int64_t chunk, std::int64_t loras) {
  EngineSettings settings = settings_of(chunk);
  settings.max_loras = loras;
  return settings;
}

class LoraEngine : public ::testing::TestWithParam<const char*> {};

TEST_P(LoraEngine, AnyChunkAndBatch) {
  AdaptedRequests from(GetParam());
  for (const std::int64_t chunk : {16, 64, 1000}) {
    for (const std::size_t together : {1, 8}) {
      SCOPED_TRACE("chunk " + std::to_string(chunk) + " batch " + std::to_string(together));
      EngineSettings settings = settings_with(chunk, 4);
      settings.steps_in_flight = together == 1 && chunk != 1000 ? 1 : 2;
      expect_all(from, settings, together, together == 1 ? 1 : 2);
    }
  }
}

TEST_P(LoraEngine, EveryPolicyGivesTheReferencesTokens) {
  AdaptedRequests from(GetParam());
  for (const KvPolicy policy : test::kPolicies) {
    for (const bool prefixes : {false, true}) {
      SCOPED_TRACE(std::string(name_of(policy)) + (prefixes ? " prefixes" : ""));
      EngineSettings settings = settings_with(prefixes ? 40 : 100, 4);
      settings.kv_policy = policy;
      settings.prefix_caching = prefixes;
      settings.steps_in_flight = prefixes ? 2 : 1;
      const MixedRun done = expect_all(from, settings, 8, 2);
      // paged has images before the text in one table, and caches no prefixes then.
      const bool finds =
          settings.kv_policy != KvPolicy::kPaged || !from.plain().network().shape().cross_attends();
      EXPECT_EQ(done.stats.prefix_cache_hits > 0, prefixes && finds);
    }
  }
}

TEST_P(LoraEngine, PreemptedAnswersAreTheSame) {
  AdaptedRequests from(GetParam());
  EngineSettings settings = settings_with(100, 4);
  settings.steps_in_flight = 2;
  settings.prefix_caching = false;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < from.count(); ++i)
    longest =
        std::max(longest, from.asked(i).golden.ids.size() + from.asked(i).golden.greedy.size());
  settings.max_model_len = static_cast<std::int64_t>(longest) + 1;
  std::int64_t token_bytes = 0;
  for (const LayerShape& layer : from.plain().network().shape().layers)
    token_bytes += 2 * layer.kv_heads * layer.head_dim * 4;
  settings.kv_cache_bytes = static_cast<std::size_t>((settings.max_model_len + 64) * token_bytes);
  const MixedRun done = expect_all(from, settings, 8, 2);
  EXPECT_GT(done.stats.num_preemptions, 0u);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, LoraEngine,
                         ::testing::Values("llama3/scaled", "qwen2_vl/odd_heads", "gemma3/text",
                                           "mllama/quarters"),
                         [](const auto& checkpoint) {
                           std::string name = checkpoint.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

// One prompt, five ways: pages of one are never another's.
TEST(LoraMixes, PagesAreAnAdaptersOwn) {
  AdaptedRequests from("llama3/scaled");
  EngineSettings settings = settings_with(64, 4);
  const MixedRun once = expect_all(from, settings, 1);
  EXPECT_EQ(once.stats.prefix_cache_hits, 0u);
  const MixedRun twice = expect_all(from, settings, 1, 2);
  EXPECT_GT(twice.stats.prefix_cache_hits, 0u);
}

// Keys of images that an adapter's matrices made are found again by its requests, and by no others.
TEST(LoraMixes, KeysOfImagesAreAnAdaptersOwn) {
  AdaptedRequests from("mllama/quarters");
  const EngineSettings settings = settings_with(64, 4);
  const MixedRun once = expect_all(from, settings, 1);
  const MixedRun twice = expect_all(from, settings, 1, 2);
  EXPECT_GT(once.stats.encoder_tokens_consumed, 0u);
  EXPECT_EQ(twice.stats.encoder_tokens_consumed, once.stats.encoder_tokens_consumed);
}

// Equal files are one adapter, under other names and after having been read again.
TEST(LoraMixes, EqualFilesShareTheirPages) {
  AdaptedRequests from("llama3/scaled");
  const AdapterGoldens& every = test::kAdapterGoldens[1];
  const auto one = load_adapter(from.plain().network(), every.folder(), "one");
  const auto other = load_adapter(from.plain().network(), every.folder(), "other");
  EXPECT_EQ(one->identity(), other->identity());
  const SteadyClock clock;
  auto engine =
      *Engine::create(settings_with(64, 1), from.plain().network(), from.plain().device(), clock);
  for (const auto& adapter : {one, other}) {
    Request request = from.request(4);
    request.adapter = adapter;
    bool ended = false;
    ASSERT_TRUE(engine->submit(
        std::move(request),
        [&](RequestId, Delta&& delta, const RequestUsage& usage, const RequestTimes&) {
          ended = delta.finish != FinishReason::kNone;
          if (ended) {
            EXPECT_EQ(usage.cached_tokens > 0, adapter == other);
          }
        }));
    while (!ended) ASSERT_TRUE(engine->step());
  }
}

// Fewer places than adapters: everybody's turn comes, and no step has more than there are places.
TEST(LoraMixes, NoMoreRunAtOnceThanThereArePlaces) {
  AdaptedRequests from("llama3/scaled");
  for (const std::int64_t places : {1, 2}) {
    const MixedRun done = expect_all(from, settings_with(64, places), 10, 3);
    EXPECT_EQ(done.max_running, static_cast<std::size_t>(places));
    EXPECT_GT(done.stats.loras_packed, 4u);
  }
  const MixedRun done = expect_all(from, settings_with(64, 4), 10, 3);
  EXPECT_EQ(done.max_running, 4u);
  EXPECT_EQ(done.stats.loras_packed, 4u);
}

// A stream of requests for one adapter does not keep out one for another.
TEST(LoraMixes, NobodyWaitsForEver) {
  AdaptedRequests from("llama3/scaled");
  EngineSettings settings = settings_with(64, 1);
  settings.max_sequences = 2;
  const SteadyClock clock;
  auto engine = *Engine::create(settings, from.plain().network(), from.plain().device(), clock);
  int others = 0;
  const auto ask = [&](std::size_t which, std::function<void()> ended) {
    Request request = from.request(which);
    request.sampling.max_tokens = 4 + others % 3;  // so that there is always one that runs
    ASSERT_TRUE(
        engine->submit(std::move(request),
                       [ended](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
                         if (delta.finish != FinishReason::kNone) ended();
                       }));
  };
  std::function<void()> again = [&] {
    if (++others < 200) ask(2, again);
  };
  for (int i = 0; i < 4; ++i) ask(2, again);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(engine->step());
  bool ended = false;
  ask(4, [&] { ended = true; });
  const int before = others;
  while (!ended) ASSERT_TRUE(engine->step());
  EXPECT_LT(others - before, 16);
  while (engine->step()) {
  }
}

// To the bit: log-probabilities of a request alone and among all others, whatever the matrices are
// multiplied in and keys and values are kept as.
TEST(LoraMixes, BitsDoNotDependOnTheBatch) {
  LoadOptions exact{.compute = DType::kF32, .kv = {}};
  LoadOptions halves{.compute = DType::kBf16, .kv = {}};
  LoadOptions bytes = halves;
  bytes.text_layers = DType::kI8;
  LoadOptions coded_cache = halves;
  coded_cache.kv = DType::kI8;
  LoadOptions coded_too = bytes;
  coded_too.kv = DType::kE4m3;
  const auto expect_same = [](const std::string& checkpoint, const LoadOptions& options) {
    AdaptedRequests from(checkpoint, options);
    const auto order = all_of(from, 2);
    EngineSettings settings = settings_with(48, 4);
    settings.prefix_caching = false;
    const MixedRun mixed = run_mixed(from, settings, order, 8, true);
    EngineSettings plain = settings;
    plain.max_batched_tokens = 1000;
    for (std::size_t i = 0; i < from.count(); ++i) {
      SCOPED_TRACE(from.asked(i).name());
      // Without an adapter from an engine that has none.
      plain.max_loras = from.asked(i).adapter == nullptr ? 0 : 1;
      const MixedRun alone = run_mixed(from, plain, {i}, 1, true);
      ASSERT_EQ(alone.logprobs[0].size(), from.asked(i).golden.greedy.size());
      EXPECT_EQ(alone.logprobs[0], mixed.logprobs[i]);
      EXPECT_EQ(alone.logprobs[0], mixed.logprobs[i + from.count()]);
    }
  };
  for (const LoadOptions& options : {exact, halves, bytes, coded_cache, coded_too})
    expect_same("llama3/scaled", options);
  for (const LoadOptions& options : {exact, halves, bytes}) expect_same("mllama/quarters", options);
}

TEST(LoraMixes, GuessedTokensAreTheSame) {
  AdaptedRequests from("llama3/scaled");
  EngineSettings settings = settings_with(64, 4);
  settings.speculation.max_tokens = 4;
  settings.speculation.longest = 3;
  settings.speculation.shortest = 1;
  const MixedRun done = expect_all(from, settings, 6, 2);
  EXPECT_GT(done.stats.spec_decode_num_draft_tokens, 0u);
}

TEST(LoraMixes, RefusesWhatItWasNotMadeFor) {
  AdaptedRequests from("llama3/scaled");
  const SteadyClock clock;
  const auto refusal = [&](const EngineSettings& settings) {
    auto engine = *Engine::create(settings, from.plain().network(), from.plain().device(), clock);
    const auto id = engine->submit(
        from.request(4), [](RequestId, Delta&&, const RequestUsage&, const RequestTimes&) {});
    return id ? std::string() : id.error().message;
  };
  EXPECT_EQ(refusal(settings_with(64, 0)), "adapter 'every': the engine was made for none");
  EngineSettings narrow = settings_with(64, 1);
  narrow.max_lora_rank = 4;
  EXPECT_EQ(refusal(narrow), "adapter 'every' has rank 8, the engine was made for 4");
}

}  // namespace
}  // namespace saccade
