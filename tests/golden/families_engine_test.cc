// Every family's goldens through the engine: chunk budgets, batches, policies and preemption give
// equal tokens. (engine_test.cc tries every combination on one family.)
#include <cstdlib>
#include <set>

#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::expect_goldens;
using test::GoldenRequests;
using test::kTextCases;
using test::overlay_fits;
using test::run_goldens;
using test::settings_of;

class FamiliesEngine : public ::testing::TestWithParam<const char*> {};

std::int64_t longest_of(const GoldenRequests& from) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < from.count(); ++i)
    longest = std::max(longest, from.golden(i).ids.size() + from.golden(i).greedy.size());
  return static_cast<std::int64_t>(longest) + 1;
}

// A prefix that attends both ways takes one step: the smallest budget is what holds the longest.
EngineSettings settings_for(GoldenRequests& from, std::int64_t chunk) {
  EngineSettings settings = settings_of(chunk);
  for (std::size_t i = 0; i < from.count(); ++i)
    settings.max_batched_tokens =
        std::max(settings.max_batched_tokens,
                 from.request(i).prompt->bidirectional_prefix + settings.max_sequences - 1);
  return settings;
}

void expect_any_chunk_and_batch(GoldenRequests& from) {
  for (const std::int64_t chunk : {16, 64, 1000}) {
    for (const std::size_t together : {1, 8}) {
      SCOPED_TRACE("chunk " + std::to_string(chunk) + " batch " + std::to_string(together));
      EngineSettings settings = settings_for(from, chunk);
      settings.steps_in_flight = together == 1 && chunk != 1000 ? 1 : 2;
      expect_goldens(from, settings, together, together == 1 ? 1 : 2);
    }
  }
}

TEST_P(FamiliesEngine, AnyChunkAndBatch) {
  GoldenRequests from(GetParam());
  expect_any_chunk_and_batch(from);
}

// The device that runs late takes long, and policies are none of its business.
bool runs_late() { return std::getenv("SACCADE_TEST_DEVICE") != nullptr; }

// "paged" caches no prefixes of models that attend to images across (docs/memory.md). A prefix that
// attends both ways is found again only where every layer still has all of it: not where windows
// let tokens go, which "paged" keeps.
bool prefixes_are_found(GoldenRequests& from, KvPolicy policy) {
  const ModelShape& shape = from.network().shape();
  if (policy == KvPolicy::kPaged) return !shape.cross_attends();
  const bool lets_go = std::ranges::any_of(shape.layers, [](const LayerShape& layer) {
    return layer.kind == LayerKind::kSlidingWindow;
  });
  for (std::size_t i = 0; i < from.count(); ++i)
    if (!lets_go || from.request(i).prompt->bidirectional_prefix == 0) return true;
  return false;
}

// Two rounds, the second of which finds the first one's pages where there are prefixes.
void expect_every_policy(GoldenRequests& from) {
  if (runs_late()) GTEST_SKIP() << "policies are tried on devices that run at once";
  for (const KvPolicy policy : test::kPolicies) {
    for (const bool prefixes : {false, true}) {
      SCOPED_TRACE(std::string(name_of(policy)) + (prefixes ? " prefixes" : ""));
      EngineSettings settings = settings_for(from, prefixes ? 40 : 100);
      settings.kv_policy = policy;
      settings.prefix_caching = prefixes;
      settings.kv_cache_bytes = std::size_t{64} << 20;
      settings.block_size = prefixes ? 16 : 8;
      settings.steps_in_flight = prefixes ? 2 : 1;
      const EngineStats stats = expect_goldens(from, settings, 8, 2);
      EXPECT_EQ(stats.prefix_cache_hits > 0, prefixes && prefixes_are_found(from, policy));
    }
  }
}

TEST_P(FamiliesEngine, EveryPolicyGivesTheReferencesTokens) {
  GoldenRequests from(GetParam());
  expect_every_policy(from);
}

// Answers stay the same when there is room for the longest golden alone, and little more.
void expect_preempted(GoldenRequests& from) {
  std::uint64_t preempted = 0;
  std::uint64_t blocked = 0;
  for (const EncoderCache cache : test::kCaches) {
    SCOPED_TRACE(name_of(cache));
    if (cache == EncoderCache::kOverlay && !overlay_fits(from.network().shape())) continue;
    EngineSettings settings = settings_for(from, 100);
    settings.encoder_cache = cache;
    settings.steps_in_flight = cache == EncoderCache::kOverlay ? 1 : 2;
    settings.prefix_caching = false;
    settings.max_model_len = longest_of(from);
    std::int64_t token_bytes = 0;
    for (const LayerShape& layer : from.network().shape().layers)
      token_bytes += 2 * layer.kv_heads * layer.head_dim * 4;
    settings.kv_cache_bytes = static_cast<std::size_t>((settings.max_model_len + 64) * token_bytes);
    const EngineStats stats = expect_goldens(from, settings, 8, 2, test::ErraticClock(1));
    preempted += stats.num_preemptions;
    blocked += stats.steps_blocked_on_memory;
  }
  // Where nothing is kept images may come so late that there is room.
  EXPECT_GT(preempted + blocked, 0u);
  // Where every layer gives back what has left its window, whoever was admitted has room to grow.
  const bool grows =
      std::ranges::any_of(from.network().shape().layers,
                          [](const LayerShape& layer) { return layer.kind == LayerKind::kFull; });
  if (grows) {
    EXPECT_GT(preempted, 0u);
  }
}

TEST_P(FamiliesEngine, PreemptedAnswersAreTheSame) {
  GoldenRequests from(GetParam());
  expect_preempted(from);
}

// Layers that attend to images keep these in a group of their own: whatever the policy, the caches
// and the size of blocks.
class AcrossEngine : public ::testing::TestWithParam<const char*> {};

const std::vector<std::string> kAcrossCases = {"text", "one_image", "three_images", "multi_turn",
                                               "first"};

TEST_P(AcrossEngine, EveryPolicyAndCacheGivesTheReferencesTokens) {
  GoldenRequests from(GetParam(), kAcrossCases);
  for (const KvPolicy policy : test::kPolicies) {
    for (const bool prefixes : {false, true}) {
      for (const EncoderCache cache : {EncoderCache::kOff, EncoderCache::kStore}) {
        SCOPED_TRACE(std::string(name_of(policy)) + (prefixes ? " prefixes " : " ") +
                     std::string(name_of(cache)));
        EngineSettings settings = settings_of(prefixes ? 7 : 64);
        settings.kv_policy = policy;
        settings.prefix_caching = prefixes;
        settings.encoder_cache = cache;
        settings.block_size = prefixes ? 16 : 4;
        settings.steps_in_flight = prefixes ? 2 : 1;
        const EngineStats stats = expect_goldens(from, settings, 8, 2);
        EXPECT_GT(stats.encoder_tokens_consumed, 0u);
      }
    }
  }
}

// Keys of images are found again by their content: a second round encodes and writes none.
TEST_P(AcrossEngine, KeysOfImagesAreMadeOnce) {
  GoldenRequests from(GetParam(), kAcrossCases);
  EngineSettings settings = settings_of(64);
  settings.max_sequences = 1;
  const EngineStats once = expect_goldens(from, settings, 1, 1);
  const EngineStats twice = expect_goldens(from, settings, 1, 2);
  EXPECT_EQ(twice.encoder_tokens_consumed, once.encoder_tokens_consumed);
  EXPECT_EQ(twice.images_encoded, once.images_encoded);
  EXPECT_GT(twice.prefix_cache_hits, once.prefix_cache_hits);
}

TEST_P(AcrossEngine, WhatCannotBeIsRefusedByName) {
  GoldenRequests from(GetParam(), {"three_images"});
  const SteadyClock clock;
  EngineSettings settings = settings_of(64);
  settings.encoder_cache = EncoderCache::kOverlay;
  const auto overlaid = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_FALSE(overlaid);
  EXPECT_NE(overlaid.error().message.find("overlay"), std::string::npos);
  settings.encoder_cache = EncoderCache::kStore;
  settings.max_model_len =
      static_cast<std::int64_t>(from.golden(0).ids.size() + from.golden(0).greedy.size());
  std::int64_t text_bytes = 0;
  for (const LayerShape& layer : from.network().shape().layers)
    if (layer.kind == LayerKind::kFull) text_bytes += 2 * layer.kv_heads * layer.head_dim * 4;
  // Room for the text alone.
  settings.kv_cache_bytes =
      static_cast<std::size_t>((settings.max_model_len + 2 * 16) * text_bytes);
  auto engine = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto submitted = (*engine)->submit(
      from.request(0), [](RequestId, Delta&&, const RequestUsage&, const RequestTimes&) {});
  ASSERT_FALSE(submitted);
  EXPECT_EQ(submitted.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(submitted.error().message.find("rows of images"), std::string::npos)
      << submitted.error().message;
  Request scored = from.request(0);
  scored.images = {};
  scored.sampling.prompt_logprobs = 0;
  const auto refused = (*engine)->submit(
      std::move(scored), [](RequestId, Delta&&, const RequestUsage&, const RequestTimes&) {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("prompt_logprobs"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, AcrossEngine,
                         ::testing::Values("mllama/quarters", "mllama/thirds"),
                         [](const auto& checkpoint) {
                           std::string name = checkpoint.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

// Families of text alone.
class TextFamiliesEngine : public ::testing::TestWithParam<const char*> {};

TEST_P(TextFamiliesEngine, AnyChunkAndBatch) {
  GoldenRequests from(GetParam(), kTextCases);
  expect_any_chunk_and_batch(from);
}

TEST_P(TextFamiliesEngine, EveryPolicyGivesTheReferencesTokens) {
  GoldenRequests from(GetParam(), kTextCases);
  expect_every_policy(from);
}

TEST_P(TextFamiliesEngine, PreemptedAnswersAreTheSame) {
  GoldenRequests from(GetParam(), kTextCases);
  expect_preempted(from);
}

// Layers that keep a state: whatever the policy, the blocks and how far apart the states are that
// later requests go on from. The longest prompt passes several of them.
class StatesEngine : public ::testing::TestWithParam<const char*> {};

TEST_P(StatesEngine, EveryPolicyAndIntervalGivesTheReferencesTokens) {
  GoldenRequests from(GetParam(), kTextCases);
  for (const KvPolicy policy : test::kPolicies) {
    for (const std::int64_t interval : {0, 16, 40, 1000}) {  // 0: none is kept
      SCOPED_TRACE(fmt::format("{} every {}", name_of(policy), interval));
      EngineSettings settings = settings_of(interval == 16 ? 7 : 64);
      settings.kv_policy = policy;
      settings.kv_cache_bytes = std::size_t{32} << 20;
      settings.prefix_caching = interval > 0;
      settings.state_interval = std::max<std::int64_t>(1, interval);
      settings.block_size = interval == 40 ? 8 : 16;
      settings.steps_in_flight = interval == 16 ? 2 : 1;
      const EngineStats stats = expect_goldens(from, settings, interval == 1000 ? 1 : 8, 2);
      if (interval == 0 || interval == 1000) {
        EXPECT_EQ(stats.prefix_cache_hits, 0u);
      } else {
        EXPECT_GT(stats.prefix_cache_hits, 0u);
      }
    }
  }
}

TEST_P(StatesEngine, AnyChunkAndBatch) {
  GoldenRequests from(GetParam(), kTextCases);
  expect_any_chunk_and_batch(from);
}

// A second round goes on from the last state that was kept of each prompt, and from no other.
TEST_P(StatesEngine, HitsEndAtKeptStates) {
  GoldenRequests from(GetParam(), {"long"});
  EngineSettings settings = settings_of(64);
  settings.state_interval = 48;
  const auto length = static_cast<std::int64_t>(from.golden(0).ids.size());
  ASSERT_GT(length, 3 * 48);
  const EngineStats stats = expect_goldens(from, settings, 1, 2);
  EXPECT_EQ(stats.prefix_cache_hits, static_cast<std::uint64_t>((length - 1) / 48 * 48));
}

TEST_P(StatesEngine, SpeculationIsRefusedByName) {
  GoldenRequests from(GetParam(), {"text"});
  EngineSettings settings = settings_of(64);
  settings.speculation.max_tokens = 2;
  const SteadyClock clock;
  const auto engine = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(engine.error().message.find("speculation"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, StatesEngine,
                         ::testing::Values("qwen3_5/odd_heads", "qwen3_5/stretched"),
                         [](const auto& checkpoint) {
                           std::string name = checkpoint.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

// Gemma 3 decodes on when its windows have let go of most of a prompt: there is not room for all
// layers of a sequence.
TEST(FamiliesEngineWindows, LongPromptsFitWithoutWhatWindowsLetGo) {
  const std::vector<std::string> cases = {"long"};
  GoldenRequests from("gemma3/text", cases);
  EngineSettings settings = settings_of(16);
  settings.block_size = 4;
  settings.prefix_caching = false;
  settings.max_model_len = longest_of(from);
  std::int64_t all = 0;
  std::int64_t full = 0;
  std::int64_t window = 0;
  for (const LayerShape& layer : from.network().shape().layers) {
    const std::int64_t bytes = 2 * layer.kv_heads * layer.head_dim * 4;
    all += bytes;
    if (layer.kind == LayerKind::kFull) full += bytes;
    window = std::max(window, layer.window);
  }
  ASSERT_GT(settings.max_model_len, 4 * window);
  // Full layers keep all tokens, the others a window, a chunk and the blocks they begin and end in.
  const std::int64_t windowed = (window + 16 + 2 * settings.block_size) * (all - full);
  const std::int64_t bytes = settings.max_model_len * full + windowed + 8 * 1024;
  ASSERT_LT(bytes, settings.max_model_len * all * 3 / 4);
  settings.kv_cache_bytes = static_cast<std::size_t>(bytes);
  expect_goldens(from, settings, 1);
}

// Videos, a span for each group of their frames: whatever the chunks, batches, caches and
// preemption.
class VideosEngine : public ::testing::TestWithParam<const char*> {};

TEST_P(VideosEngine, AnyChunkBatchAndEncoderCache) {
  GoldenRequests from(GetParam(), test::kVideoCases);
  for (const std::int64_t chunk : {7, 64, 1000}) {
    for (const EncoderCache cache : test::kCaches) {
      if (cache == EncoderCache::kOverlay && !overlay_fits(from.network().shape())) continue;
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

TEST_P(VideosEngine, EveryPolicyGivesTheReferencesTokens) {
  GoldenRequests from(GetParam(), test::kVideoCases);
  expect_every_policy(from);
}

TEST_P(VideosEngine, PreemptedAnswersAreTheSame) {
  GoldenRequests from(GetParam(), test::kVideoCases);
  expect_preempted(from);
}

// A group of frames is encoded once, whichever video and request has it.
TEST_P(VideosEngine, GroupsOfFramesAreEncodedOnce) {
  GoldenRequests from(GetParam(), test::kVideoCases);
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < from.count(); ++i) {
    const Request request = from.request(i);
    for (const RequestImage& image : *request.images)
      distinct.insert(to_hex(image.content) + image.layout.key);
  }
  EngineSettings settings = settings_of(64);
  settings.max_sequences = 1;
  const EngineStats stats = expect_goldens(from, settings, 1, 2);
  EXPECT_EQ(stats.images_encoded, distinct.size());
  EXPECT_GT(stats.prefix_cache_hits, 0u);
}

std::vector<TokenId> answer(Engine& engine, Request request) {
  std::vector<TokenId> tokens;
  bool finished = false;
  auto id = engine.submit(std::move(request),
                          [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
                            tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
                            finished = delta.finish != FinishReason::kNone;
                          });
  EXPECT_TRUE(id) << id.error().message;
  while (!finished && engine.step()) {
  }
  return tokens;
}

// Frames that are sent again at another rate stand elsewhere in time: what the prefix cache has of
// them is of no use, and their answer is what it is without a cache.
TEST(VideosAgain, TheSameFramesAtAnotherRateAreAnotherPrompt) {
  for (const char* checkpoint :
       {"qwen2_5_vl/odd_heads", "qwen3_vl/odd_heads", "qwen3_5_vl/odd_heads", "glm4v/odd_heads"}) {
    SCOPED_TRACE(checkpoint);
    GoldenRequests from(checkpoint, {"video_even"});
    Golden faster = from.golden(0);
    faster.images.front().fps *= 8;
    const SteadyClock clock;
    std::vector<std::vector<TokenId>> answers;
    for (const bool cached : {false, true}) {
      EngineSettings settings = settings_of(64);
      settings.prefix_caching = cached;
      auto engine = Engine::create(settings, from.network(), from.device(), clock);
      ASSERT_TRUE(engine) << engine.error().message;
      if (cached) {
        EXPECT_EQ(answer(**engine, from.request(0)), from.golden(0).greedy);
      }
      answers.push_back(answer(**engine, from.request(faster)));
    }
    EXPECT_EQ(answers[0], answers[1]);
    EXPECT_NE(answers[0], from.golden(0).greedy);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, VideosEngine,
                         ::testing::Values("qwen2_vl/odd_heads", "qwen2_vl/mixed_window",
                                           "qwen2_5_vl/odd_heads", "qwen2_5_vl/wide_window",
                                           "qwen3_vl/odd_heads", "qwen3_vl/wide_rows",
                                           "llava_onevision/newlines", "llava_onevision/scaled",
                                           "smolvlm2/thirds", "smolvlm2/halves", "internvl3/hf3",
                                           "glm4v/odd_heads", "glm4v/biased_tower"),
                         [](const auto& checkpoint) {
                           std::string name = checkpoint.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

INSTANTIATE_TEST_SUITE_P(Checkpoints, TextFamiliesEngine,
                         ::testing::Values("qwen3/odd_heads", "qwen3/stretched",
                                           "qwen3_moe/every_layer", "qwen3_moe/some_layers",
                                           "mistral/wide_heads", "mistral/windowed"),
                         [](const auto& checkpoint) {
                           std::string name = checkpoint.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, FamiliesEngine,
    ::testing::Values("qwen2_5_vl/odd_heads", "qwen2_5_vl/wide_window", "llava_onevision/newlines",
                      "llava_onevision/scaled", "internvl2/internlm2", "internvl2/big_tower",
                      "internvl2/current", "internvl2/phi3", "internvl3/hf3", "internvl3/own3",
                      "internvl3/hf35", "internvl3/own35", "paligemma/first", "paligemma/second",
                      "phi_3_vision/su", "phi_3_vision/longrope", "smolvlm2/thirds",
                      "smolvlm2/halves", "smolvlm2/fifths", "qwen3_vl/odd_heads",
                      "qwen3_vl/wide_rows", "qwen3_vl_moe/every_layer", "qwen3_vl_moe/some_layers",
                      "gemma3/pooled", "gemma3/classes", "mistral3/squares", "mistral3/ninths",
                      "pixtral/rows", "pixtral/short", "mllama/quarters", "mllama/thirds",
                      "glm4v/odd_heads", "glm4v/biased_tower"),
    [](const auto& checkpoint) {
      std::string name = checkpoint.param;
      std::ranges::replace(name, '/', '_');
      return name;
    });

// Checkpoints that say what few do (configurations_test.cc): however their prompts are cut and
// batched.
struct Variant {
  const char* checkpoint;
  const char* golden;
};

class VariantsEngine : public ::testing::TestWithParam<Variant> {};

TEST_P(VariantsEngine, AnyChunkAndBatchGiveTheReferencesTokens) {
  GoldenRequests from(std::string("variants/") + GetParam().checkpoint, {GetParam().golden});
  for (const std::int64_t chunk : {7, 1000}) {
    for (const std::size_t together : {1, 4}) {
      SCOPED_TRACE("chunk " + std::to_string(chunk) + " batch " + std::to_string(together));
      expect_goldens(from, settings_for(from, chunk), together, 4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, VariantsEngine,
                         ::testing::Values(Variant{"yarn", "long"}, Variant{"yarn_stated", "long"},
                                           Variant{"biased", "text"}, Variant{"two_heads", "text"},
                                           Variant{"head_alone", "text"},
                                           Variant{"llava/checkpoint", "one_image"},
                                           Variant{"qwen2_5_vl/checkpoint", "one_image"},
                                           Variant{"qwen3_vl/checkpoint", "one_image"},
                                           Variant{"internvl/checkpoint", "one_image"}),
                         [](const auto& variant) {
                           std::string name = variant.param.checkpoint;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

// Dynamic NTK, and the choice that docs/models/internvl2.md states: the frequencies of all
// sequences are those of max_model_len. The original was shown a sequence of 920 tokens ("beyond")
// and keeps its frequencies for the short one after it.
TEST(DynamicNtk, MaxModelLenSetsTheFrequencies) {
  GoldenRequests from("internvl2/internlm2", {"beyond", "after_beyond"});
  EngineSettings settings = settings_of(100);
  settings.max_model_len =
      static_cast<std::int64_t>(from.golden(0).ids.size() + from.golden(0).greedy.size());
  ASSERT_EQ(settings.max_model_len, 920);
  for (const std::int64_t chunk : {100, 1000}) {
    settings.max_batched_tokens = chunk;
    for (const std::size_t together : {1, 4}) expect_goldens(from, settings, together, 2);
  }
}

TEST(DynamicNtk, OtherLengthsHaveOtherFrequencies) {
  GoldenRequests from("internvl2/internlm2", {"after_beyond"});
  for (const std::int64_t length : {0, 512, 1024}) {  // 0: the trained length
    EngineSettings settings = settings_of(100);
    settings.max_model_len = length;
    EXPECT_NE(run_goldens(from, settings, 1).answers[0], from.golden(0).greedy) << length;
  }
  // Up to the trained length nothing is scaled, and beyond `factor` times that nothing is promised.
  GoldenRequests unscaled("internvl2/internlm2");
  for (const std::int64_t length : {0, 400, 512}) {
    EngineSettings settings = settings_of(100);
    settings.max_model_len = length;
    expect_goldens(unscaled, settings, 4);
  }
  EngineSettings settings = settings_of(100);
  settings.max_model_len = 1025;
  const SteadyClock clock;
  const auto engine = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_FALSE(engine);
  EXPECT_NE(engine.error().message.find("1025"), std::string::npos) << engine.error().message;
  EXPECT_NE(engine.error().message.find("1024"), std::string::npos) << engine.error().message;
}

}  // namespace
}  // namespace saccade
