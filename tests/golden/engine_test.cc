// The goldens through the engine: whatever the chunk budget, batch, policy and caches, and with
// forced preemption, every request gets the tokens that transformers gives.
#include <cstdlib>
#include <set>

#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::ErraticClock;
using test::expect_goldens;
using test::GoldenRequests;
using test::settings_of;

class EngineGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(EngineGolden, AnyChunkBatchAndEncoderCache) {
  GoldenRequests from("qwen2_vl/" + std::string(GetParam()));
  for (const std::int64_t chunk : {16, 64, 1000}) {
    for (const EncoderCache cache : test::kCaches) {
      for (const std::size_t together : {1, 8}) {
        SCOPED_TRACE(std::string(name_of(cache)) + " chunk " + std::to_string(chunk) + " batch " +
                     std::to_string(together));
        EngineSettings settings = settings_of(chunk);
        settings.encoder_cache = cache;
        settings.steps_in_flight = together == 1 ? 1 : 2;
        expect_goldens(from, settings, together, together == 1 ? 1 : 2);
      }
    }
  }
}

TEST_P(EngineGolden, AnyPolicyAndPrefixCache) {
  GoldenRequests from("qwen2_vl/" + std::string(GetParam()));
  for (const KvPolicy policy : test::kPolicies) {
    for (const bool prefix_caching : {false, true}) {
      SCOPED_TRACE(std::string(name_of(policy)) + (prefix_caching ? " caching" : ""));
      EngineSettings settings = settings_of(64);
      settings.kv_policy = policy;
      settings.prefix_caching = prefix_caching;
      settings.steps_in_flight = 2;
      const EngineStats stats = expect_goldens(from, settings, 4, 2);
      EXPECT_EQ(stats.prefix_cache_hits > 0, prefix_caching);
    }
  }
}

// Tokens guessed from the texts themselves are the ones that come without.
TEST_P(EngineGolden, TokensGuessedAhead) {
  GoldenRequests from("qwen2_vl/" + std::string(GetParam()));
  std::uint64_t guessed = 0;
  for (const std::int64_t chunk : {16, 1000}) {
    for (const std::size_t together : {1, 8}) {
      for (const int steps : {1, 2}) {
        SCOPED_TRACE(std::to_string(chunk) + " tokens a step, " + std::to_string(together) +
                     " together, " + std::to_string(steps) + " steps in flight");
        EngineSettings settings = settings_of(chunk);
        settings.speculation = {.max_tokens = 4, .shortest = 1, .longest = 3};
        settings.steps_in_flight = steps;
        guessed += expect_goldens(from, settings, together, 2).spec_decode_num_draft_tokens;
      }
    }
  }
  EXPECT_GT(guessed, 0u);
}

// Room for the longest golden alone and little more, and an encoder cache for the largest image.
EngineSettings tight(GoldenRequests& from, EngineSettings settings) {
  std::int64_t longest = 0;
  std::int64_t max_rows = 1;
  for (std::size_t i = 0; i < from.count(); ++i) {
    const std::size_t length = from.golden(i).ids.size() + from.golden(i).greedy.size();
    longest = std::max(longest, static_cast<std::int64_t>(length) + 1);
    const Request request = from.request(i);
    for (const RequestImage& image : *request.images) {
      max_rows = std::max(max_rows, image.layout.tokens);
    }
  }
  settings.max_model_len = longest;
  const ModelShape& shape = from.network().shape();
  const LayerShape& layer = shape.layers.front();
  settings.kv_cache_bytes =
      static_cast<std::size_t>((longest + 64) * 2 * layer.kv_heads * layer.head_dim * 4 *
                               static_cast<std::int64_t>(shape.layers.size()));
  settings.encoder_cache_bytes = static_cast<std::size_t>((max_rows + 64) * shape.hidden * 4);
  // Fixed shares need a larger pool for the same sequence.
  const SteadyClock clock;
  while (!Engine::create(settings, from.network(), from.device(), clock)) {
    settings.kv_cache_bytes += settings.kv_cache_bytes / 8;
    if (settings.kv_cache_bytes > std::size_t{1} << 30) break;
  }
  return settings;
}

// Eight requests at once where one fits: whatever is on, they preempt each other, evict each
// other's blocks and images, share images and turns, and all say what they say alone.
TEST_P(EngineGolden, EveryCombinationUnderPressure) {
  GoldenRequests from("qwen2_vl/" + std::string(GetParam()));
  std::uint64_t recomputed = 0;
  // The device that runs late takes minutes for all: one in five there, which has each value of
  // each setting.
  const int every = std::getenv("SACCADE_TEST_DEVICE") == nullptr ? 1 : 5;
  int combination = 0;
  int pressed = 0;
  int ran = 0;
  for (const std::int64_t chunk : {16, 100, 1 << 14}) {
    for (const KvPolicy policy : test::kPolicies) {
      const EngineSettings roomy = [&] {
        EngineSettings settings = settings_of(chunk);
        settings.kv_policy = policy;
        return settings;
      }();
      const EngineSettings small = tight(from, roomy);
      for (const EncoderCache cache : test::kCaches) {
        for (const bool prefix_caching : {false, true}) {
          if (combination++ % every != 0) continue;
          SCOPED_TRACE(std::string(name_of(policy)) + " " + std::string(name_of(cache)) +
                       " chunk " + std::to_string(chunk) + (prefix_caching ? " caching" : ""));
          EngineSettings settings = small;
          settings.encoder_cache = cache;
          settings.prefix_caching = prefix_caching;
          const EngineStats stats =
              expect_goldens(from, settings, 8, 2, ErraticClock(static_cast<std::uint64_t>(ran)));
          recomputed += stats.prompt_tokens_recomputed;
          ++ran;
          if (stats.num_preemptions + stats.steps_blocked_on_memory > 0) ++pressed;
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(recomputed, 0u);
  // Images come when the clock has time for them, so a few combinations may have had room.
  EXPECT_GE(pressed, ran - ran / 4);
}

// Nothing may stand still: who loses the cached prefix that it was to start with needs images that
// nobody has asked for.
TEST_P(EngineGolden, WhateverStepsAndStagesTake) {
  GoldenRequests from("qwen2_vl/" + std::string(GetParam()));
  const char* const late = std::getenv("SACCADE_TEST_DEVICE");
  for (const KvPolicy policy : test::kPolicies) {
    for (const EncoderCache cache : test::kCaches) {
      EngineSettings settings = settings_of(16);
      settings.kv_policy = policy;
      settings.encoder_cache = cache;
      settings.prefix_caching = true;
      const EngineSettings small = tight(from, settings);
      // So many that one of them finds it if the images are not asked for again. On the device that
      // runs late, which takes seconds for each, what differs is that two steps overlap.
      const std::uint64_t many = late == nullptr ? 56 : 2;
      const std::uint64_t seeds = cache == EncoderCache::kOff ? many : many * 4 / 56;
      for (std::uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
        SCOPED_TRACE(std::string(name_of(policy)) + " " + std::string(name_of(cache)) + " seed " +
                     std::to_string(seed));
        expect_goldens(from, small, 8, 2, ErraticClock(seed));
      }
    }
  }
}

TEST_P(EngineGolden, PreemptedAnswersAreTheSame) {
  GoldenRequests from("qwen2_vl/" + std::string(GetParam()));
  for (const KvPolicy policy : {KvPolicy::kJenga, KvPolicy::kPaged}) {
    for (const EncoderCache cache : test::kCaches) {
      SCOPED_TRACE(std::string(name_of(policy)) + " " + std::string(name_of(cache)));
      EngineSettings settings = settings_of(100);
      settings.kv_policy = policy;
      settings.encoder_cache = cache;
      settings.prefix_caching = false;
      // By the machine's own clock an overlaid image may come so late that there is room.
      const EngineStats stats = expect_goldens(from, tight(from, settings), 8, 2, ErraticClock(1));
      EXPECT_GT(stats.num_preemptions, 0u);
      EXPECT_GT(stats.prompt_tokens_recomputed, 0u);
    }
  }
}

// What the modes promise about encoder runs.
TEST_P(EngineGolden, ImagesAreEncodedAsOftenAsTheModeSays) {
  GoldenRequests from("qwen2_vl/" + std::string(GetParam()));
  const auto images_encoded = [&](EncoderCache cache, bool prefix_caching, std::size_t rounds) {
    EngineSettings settings = settings_of(16);
    settings.max_sequences = 1;
    settings.encoder_cache = cache;
    settings.prefix_caching = prefix_caching;
    return expect_goldens(from, settings, 1, rounds).images_encoded;
  };
  std::set<std::string> distinct;
  std::uint64_t asked = 0;
  std::uint64_t chunks = 0;  // of 16 tokens that touch an image
  for (std::size_t i = 0; i < from.count(); ++i) {
    for (const GoldenImage& image : from.golden(i).images) distinct.insert(image.sources.front());
    const Request request = from.request(i);
    asked += request.images->size();
    for (const ImageSpan& span : request.prompt->images) {
      chunks +=
          static_cast<std::uint64_t>((span.begin + span.tokens - 1) / 16 - span.begin / 16 + 1);
    }
  }
  EXPECT_EQ(images_encoded(EncoderCache::kStore, false, 1), distinct.size());
  EXPECT_EQ(images_encoded(EncoderCache::kStore, false, 2), distinct.size());
  EXPECT_EQ(images_encoded(EncoderCache::kOverlay, false, 1), asked);
  EXPECT_EQ(images_encoded(EncoderCache::kOverlay, false, 2), 2 * asked);
  EXPECT_EQ(images_encoded(EncoderCache::kOverlay, true, 2),
            asked);  // the second time a prefix hit covers all
  // Chunks end where the next image is not there yet, so no chunk has more than one new image.
  EXPECT_GE(images_encoded(EncoderCache::kOff, false, 1), chunks);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, EngineGolden, ::testing::Values("odd_heads", "mixed_window"),
                         [](const auto& checkpoint) { return std::string(checkpoint.param); });

}  // namespace
}  // namespace saccade
