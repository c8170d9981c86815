// Random engines and requests, run by hand, and what must hold of them whatever the engine does:
// each answer is the one that its request gets when it is alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/local_engine.h"
#include "tests/support/choices.h"
#include "tests/support/deferred_device.h"
#include "tests/support/fake_model.h"

namespace saccade {

inline std::int64_t rounds(std::int64_t usual) {
  const char* text = std::getenv("SACCADE_SOAK_ROUNDS");
  return text == nullptr ? usual : std::strtoll(text, nullptr, 10);
}

inline LayerShape full() { return {LayerKind::kFull, 0, 1, 8}; }
inline LayerShape window(std::int64_t tokens) { return {LayerKind::kSlidingWindow, tokens, 1, 8}; }

inline LayerShape state(std::int64_t elements) {
  return {LayerKind::kRecurrent, 0, 0, 0, elements};
}
inline LayerShape across() { return {LayerKind::kCrossAttention, 0, 1, 8}; }

// What sees each other both ways: nothing, a prefix, each image. kAcross: nothing, and images are
// attended to from the text.
enum class Sight { kCausal, kPrefix, kImages, kAcross };

struct Script {
  std::vector<TokenId> ids;
  std::vector<FakeImageAt> images;
  SamplingParams sampling;
  std::string salt;
  std::int64_t bidirectional_prefix = 0;
  std::vector<TokenInterval> both_ways = {};
  bool across = false;
  std::int64_t priority = 0;
  ClientId client = 0;
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;
  Request request() const {
    Request made = fake_request(ids, images, sampling.max_tokens, 1, across);
    made.sampling = sampling;
    made.cache_salt = salt;
    made.priority = priority;
    made.client = client;
    made.tokenizer = tokenizer;
    Prompt prompt = *made.prompt;
    prompt.bidirectional_prefix = bidirectional_prefix;
    prompt.both_ways = both_ways;
    made.prompt = std::move(prompt);
    return made;
  }
};

inline Script make_script(Choices& choices, Sight sight) {
  Script script;
  script.across = sight == Sight::kAcross;
  const std::int64_t length = choices.between(1, 60);
  const std::int64_t fork = choices.pick(60);
  const auto family = static_cast<TokenId>(choices.between(6, 8));
  for (std::int64_t t = 0; t < length; ++t) {
    script.ids.push_back(t < fork ? family : static_cast<TokenId>(choices.between(10, 12)));
  }
  if (choices.coin()) {
    std::int64_t begin = choices.pick(6);
    while (script.images.size() < 4 && choices.pick(4) > 0) {
      const std::int64_t tokens = choices.between(1, 16);
      const std::int64_t taken = script.across ? 1 : tokens;
      if (begin + taken >= length) break;
      script.images.push_back({begin, static_cast<std::uint64_t>(choices.pick(3)), tokens});
      begin += taken + choices.pick(5);
    }
  }
  if (sight == Sight::kPrefix && choices.coin()) {
    script.bidirectional_prefix = choices.between(1, length);
    for (const FakeImageAt& image : script.images) {
      script.bidirectional_prefix =
          std::max(script.bidirectional_prefix, image.begin + image.tokens);
    }
  }
  if (sight == Sight::kImages) {
    for (const FakeImageAt& image : script.images) {
      script.both_ways.push_back({image.begin, image.begin + image.tokens});
    }
  }
  script.sampling.max_tokens = choices.between(1, 24);
  script.sampling.temperature = choices.coin() ? 0 : 1;
  script.sampling.seed = 77 + choices.pick(5);
  script.sampling.ignore_eos = choices.coin();
  if (choices.pick(4) == 0) script.sampling.repetition_penalty = 1.3;
  if (choices.pick(6) == 0) script.salt = "tenant";
  script.priority = choices.pick(3);
  return script;
}

struct Running {
  Script script;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  RequestUsage usage;
};

// Runs one engine by hand. Everything that must hold after each step is checked there.
class Bench {
 public:
  // draft: of a model that guesses; null: none does.
  Bench(EngineSettings settings, const FakeModelOptions& options,
        const FakeModelOptions* draft = nullptr)
      : device_(engine_device("reference")), model_(options) {
    if (draft != nullptr) settings.draft = &draft_.emplace(*draft);
    auto made = Engine::create(settings, model_, *device_, clock_);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    if (made) engine_.reset(static_cast<LocalEngine*>(made->release()));
  }

  bool good() const { return engine_ != nullptr; }
  LocalEngine& engine() { return *engine_; }
  FakeModel& model() { return model_; }

  RequestId submit(const Script& script) {
    auto id = engine_->submit(
        script.request(),
        [this](RequestId of, Delta&& delta, const RequestUsage& usage, const RequestTimes&) {
          Running& to = requests_.at(of);
          EXPECT_EQ(to.finish, FinishReason::kNone);
          EXPECT_LE(delta.tokens.size(), 1u);
          to.tokens.insert(to.tokens.end(), delta.tokens.begin(), delta.tokens.end());
          to.logprobs.insert(to.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
          to.text += delta.text;
          EXPECT_EQ(usage.completion_tokens, static_cast<std::int64_t>(to.tokens.size()));
          to.finish = delta.finish;
          to.usage = usage;
          if (delta.finish != FinishReason::kNone) --unfinished_;
        });
    EXPECT_TRUE(id.has_value()) << id.error().message;
    if (!id) return 0;
    requests_[*id].script = script;
    ++unfinished_;
    return *id;
  }

  void step(bool check = true) {
    clock_.advance(kMillisecond);
    engine_->step();
    if (!check) return;
    const KvAllocator& kv = *engine_->parts().kv;
    kv.check();
    ASSERT_EQ(measure(kv).total(), kv.settings().pool_bytes);
    engine_->images().store().check();
    for (const Sequence* sequence : engine_->scheduler().running()) {
      if (sequence->phase() != Phase::kDecoding || sequence->progress->in_flight > 0) continue;
      const std::int64_t block = kv.plan().block_tokens;
      for (int table = 0; table < kv.plan().tables; ++table) {
        ASSERT_LE(static_cast<std::int64_t>(sequence->kv.table(table).size()),
                  (sequence->layout.encoder_tokens + sequence->length() + block - 1) / block);
      }
    }
    ASSERT_LE(model_.largest_batch(), engine_->settings().max_batched_tokens);
    if (engine_->parts().draft == nullptr) return;
    // Pages of a draft model: of those that run alone, for their tokens and a guess.
    std::int64_t needed = 0;
    for (const Sequence* sequence : engine_->scheduler().running())
      needed += sequence->length() + engine_->settings().speculation.max_tokens +
                engine_->settings().block_size;
    ASSERT_LE(engine_->parts().draft->tokens_held(), needed);
  }

  void run_out(bool check = true) {
    for (int steps = 0; unfinished_ > 0; ++steps) {
      step(check);
      if (testing::Test::HasFatalFailure()) return;
      ASSERT_LT(steps, 20000) << "not all requests end:\n" << engine_->scheduler().describe();
    }
    step();  // lets go of a run of the encoder that nobody wants
    while (engine_->step()) {
    }
    ASSERT_EQ(engine_->parts().kv->usage(), 0);
    if (engine_->parts().draft) {
      ASSERT_EQ(engine_->parts().draft->usage(), 0);
    }
    ASSERT_EQ(engine_->images().store().leased_bytes(), 0);
  }

  std::int64_t unfinished() const { return unfinished_; }
  std::map<RequestId, Running>& requests() { return requests_; }

 private:
  VirtualClock clock_;
  std::unique_ptr<Device> device_;
  FakeModel model_;
  std::optional<FakeModel> draft_;
  std::unique_ptr<LocalEngine> engine_;
  std::map<RequestId, Running> requests_;
  std::int64_t unfinished_ = 0;
};

inline EngineSettings roomy() {
  EngineSettings settings;
  settings.block_size = 4;
  settings.kv_cache_bytes = 1 << 18;
  settings.max_model_len = 200;
  settings.prefix_caching = false;
  return settings;
}

// The answer of a request that is alone in an engine with room for everything.
inline Running alone(const Script& script, const FakeModelOptions& options) {
  Bench bench(roomy(), options);
  const RequestId id = bench.submit(script);
  bench.run_out(false);
  return bench.requests().at(id);
}

inline EngineSettings random_settings(Choices& choices, const FakeModelOptions& options,
                                      Sight sight) {
  static constexpr std::int64_t kChunks[] = {1, 3, 7, 16, 64, 1000};
  EngineSettings settings;
  settings.block_size = choices.between(1, 6);
  settings.max_model_len = 90;
  settings.kv_policy = kKvPolicies[choices.pick(4)].value;
  settings.prefix_caching = choices.coin();
  settings.state_interval = 9;  // to the next whole block
  settings.encoder_cache = kEncoderCaches[choices.pick(sight == Sight::kAcross ? 2 : 3)].value;
  settings.max_batched_tokens = sight == Sight::kPrefix ? 80 : kChunks[choices.pick(6)];
  settings.max_sequences = choices.between(1, 8);
  settings.steps_in_flight = static_cast<int>(choices.between(1, 2));
  if (sight == Sight::kImages) {  // the largest image must fit beside the others' decode rows
    settings.max_batched_tokens =
        std::max(settings.max_batched_tokens, 15 + settings.max_sequences);
  }
  settings.scheduling_policy =
      choices.coin() ? SchedulingPolicy::kFcfs : SchedulingPolicy::kPriority;
  settings.priority_aging = 5;
  settings.long_prefill_threshold = choices.pick(3) == 0 ? 5 : 0;
  settings.encoder_batch_patches = choices.coin() ? 1 : 100;
  settings.tpot_target_ms = choices.pick(4) == 0 ? 1.5 : 0;
  // From hardly one longest sequence to several.
  const std::int64_t all = 90 * static_cast<std::int64_t>(options.layers.size()) * 2 * 8 * 4;
  settings.kv_cache_bytes = static_cast<std::size_t>(all * choices.between(2, 12) / 4);
  // Between one largest image (four for a prefix, which needs them at once) and several.
  const std::int64_t image = 16 * options.hidden * 4;
  settings.encoder_cache_bytes =
      static_cast<std::size_t>(image * choices.between(sight == Sight::kPrefix ? 4 : 1, 6));
  return settings;
}

inline bool holds_one_sequence(const EngineSettings& settings, const FakeModelOptions& options) {
  VirtualClock clock;
  FakeModel model(options);
  const auto device = engine_device("reference");
  const auto engine = Engine::create(settings, model, *device, clock);
  if (!engine) {
    EXPECT_EQ(engine.error().code, ErrorCode::kTooLarge) << engine.error().message;
  }
  return engine.has_value();
}

// Whether the pool holds the longest answer beside four images of the largest, each from a block's
// beginning.
inline bool holds_images(const EngineSettings& settings, const FakeModelOptions& options) {
  VirtualClock clock;
  FakeModel model(options);
  const auto device = engine_device("reference");
  const auto engine = Engine::create(settings, model, *device, clock);
  if (!engine) return false;
  KvShape shape;
  shape.prompt_tokens = 60;
  shape.encoder_tokens = 4 * (16 + settings.block_size) / settings.block_size * settings.block_size;
  const auto& local = static_cast<const LocalEngine&>(**engine);
  return local.parts().kv->fits(shape, settings.max_model_len, settings.max_batched_tokens);
}

// What the scenarios have seen: a walk that never preempts proves little.
struct Seen {
  std::uint64_t preemptions = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t recomputed_tokens = 0;
  std::uint64_t images = 0;
  std::uint64_t image_hits = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t guessed = 0;   // tokens
  std::uint64_t accepted = 0;  // of them
};

// What a test makes of the scenarios' settings and requests.
struct Changes {
  std::function<void(Choices&, EngineSettings&)> settings = [](Choices&, EngineSettings&) {};
  std::function<void(Choices&, Script&)> script = [](Choices&, Script&) {};
  bool guesses = false;                        // tokens are guessed ahead, and some are right
  std::optional<FakeModelOptions> draft = {};  // the model that guesses them
};

inline void scenario(std::uint64_t seed, const FakeModelOptions& options, Sight sight, Seen& seen,
                     const Changes& changes = {}) {
  Choices choices = Choices::random(seed);
  EngineSettings settings = random_settings(choices, options, sight);
  changes.settings(choices, settings);
  while (!holds_one_sequence(settings, options)) settings.kv_cache_bytes += 2000;
  while (sight == Sight::kAcross && !holds_images(settings, options))
    settings.kv_cache_bytes += 2000;
  SCOPED_TRACE(fmt::format(
      "policy {}, prefix caching {}, encoder cache {} of {} bytes, chunk {}, {} "
      "sequences, block {}, "
      "KV {} bytes, threshold {}, {}",
      name_of(settings.kv_policy), settings.prefix_caching, name_of(settings.encoder_cache),
      settings.encoder_cache_bytes, settings.max_batched_tokens, settings.max_sequences,
      settings.block_size, settings.kv_cache_bytes, settings.long_prefill_threshold,
      name_of(settings.scheduling_policy)));
  Bench bench(settings, options, changes.draft ? &*changes.draft : nullptr);
  std::vector<Script> scripts;
  for (ClientId i = 0; i < 6; ++i) {
    scripts.push_back(make_script(choices, sight));
    changes.script(choices, scripts.back());
    scripts.back().client = seed % 2 * (i % 3);  // one, or three that share
  }
  std::map<RequestId, std::size_t> script_of;
  for (int submitted = 0; submitted < 14;) {
    const std::int64_t action = choices.pick(10);
    if (action < 3) {
      const auto which = static_cast<std::size_t>(choices.pick(6));
      const RequestId id = bench.submit(scripts[which]);
      script_of[id] = which;
      ++submitted;
    } else if (action == 3 && choices.pick(3) == 0 && !script_of.empty()) {
      auto some = bench.requests().begin();
      std::advance(some, choices.pick(static_cast<std::int64_t>(bench.requests().size())));
      bench.engine().cancel(some->first);
    } else if (action == 4 && choices.pick(10) == 0) {
      bench.engine().reset_mm_cache();
      bench.engine().reset_prefix_cache();
    } else {
      bench.step();
    }
    if (testing::Test::HasFailure()) return;
  }
  bench.run_out();
  if (testing::Test::HasFailure()) return;
  const EngineStats stats = bench.engine().stats();
  seen.preemptions += stats.num_preemptions;
  seen.cached_tokens += stats.prefix_cache_hits;
  seen.recomputed_tokens += stats.prompt_tokens_recomputed;
  seen.images += stats.images_encoded;
  seen.image_hits += stats.mm_cache_hits;
  seen.cancelled += stats.requests_finished[static_cast<std::size_t>(FinishReason::kCancelled)];
  seen.guessed += stats.spec_decode_num_draft_tokens;
  seen.accepted += stats.spec_decode_num_accepted_tokens;
  std::map<std::size_t, Running> expected;
  for (const auto& [id, which] : script_of) {
    if (!expected.contains(which)) expected[which] = alone(scripts[which], options);
    const Running& wanted = expected.at(which);
    const Running& got = bench.requests().at(id);
    if (got.finish == FinishReason::kCancelled) {
      ASSERT_LE(got.tokens.size(), wanted.tokens.size());
      ASSERT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), wanted.tokens.begin()));
    } else {
      ASSERT_EQ(got.tokens, wanted.tokens) << "request " << id;
      ASSERT_EQ(got.text, wanted.text) << "request " << id;
      ASSERT_EQ(got.finish, wanted.finish) << "request " << id;
      ASSERT_EQ(got.logprobs.size(), wanted.logprobs.size());
      for (std::size_t i = 0; i < got.logprobs.size(); ++i) {
        ASSERT_EQ(got.logprobs[i].token, wanted.logprobs[i].token);
        ASSERT_EQ(got.logprobs[i].logprob, wanted.logprobs[i].logprob);
        ASSERT_EQ(got.logprobs[i].top, wanted.logprobs[i].top);
      }
      ASSERT_EQ(got.usage.completion_tokens, static_cast<std::int64_t>(got.tokens.size()));
    }
  }
}
inline void scenarios(const FakeModelOptions& options, std::int64_t count,
                      Sight sight = Sight::kCausal, const Changes& changes = {}) {
  log::set_level(log::Level::kError);
  Seen seen;
  // SACCADE_SOAK_SEED runs one scenario alone.
  if (const char* only = std::getenv("SACCADE_SOAK_SEED"); only != nullptr) {
    return scenario(std::strtoull(only, nullptr, 10), options, sight, seen, changes);
  }
  std::vector<std::int64_t> seeds = {812, 819, 1490};  // longer runs found something there
  for (std::int64_t seed = 0; seed < rounds(count); ++seed) seeds.push_back(seed);
  for (const std::int64_t seed : seeds) {
    scenario(static_cast<std::uint64_t>(seed), options, sight, seen, changes);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(seen.preemptions, 10u);
  EXPECT_GT(seen.cached_tokens, 100u);
  EXPECT_GT(seen.recomputed_tokens, 100u);
  EXPECT_GT(seen.images, 100u);
  EXPECT_GT(seen.image_hits, 5u);
  EXPECT_GT(seen.cancelled, 5u);
  if (changes.guesses) {
    EXPECT_GT(seen.accepted, 1000u);
    EXPECT_GT(seen.guessed, seen.accepted + 1000u);
  }
}

}  // namespace saccade
