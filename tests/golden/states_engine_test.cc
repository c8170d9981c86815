// Layers that keep a state, beside images and videos too: engines give the reference's tokens
// whatever they cut, batch, keep, let go and begin anew. (families_engine_test.cc has the text
// alone under every policy.)
#include <set>

#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::expect_goldens;
using test::GoldenRequests;
using test::kTextCases;
using test::settings_of;

struct Stateful {
  const char* checkpoint;
  const std::vector<std::string>& cases;
  const char* name;
};

class StatefulEngine : public ::testing::TestWithParam<Stateful> {
 protected:
  GoldenRequests from_{GetParam().checkpoint, GetParam().cases};

  bool has_images() const { return &GetParam().cases != &kTextCases; }

  std::int64_t longest() {
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < from_.count(); ++i) {
      const Request request = from_.request(i);
      longest = std::max(longest, static_cast<std::int64_t>(request.prompt->ids.size()) +
                                      request.sampling.max_tokens);
    }
    return longest + 1;
  }

  // With the smallest cache, to a sixteenth, that holds the longest golden alone.
  EngineSettings barely_held(EngineSettings settings) {
    const SteadyClock clock;
    settings.max_model_len = longest();
    for (settings.kv_cache_bytes = std::size_t{16} << 10;;
         settings.kv_cache_bytes += settings.kv_cache_bytes / 16) {
      EngineSettings tried = settings;
      if (Engine::create(tried, from_.network(), from_.device(), clock)) return settings;
    }
  }
};

TEST_P(StatefulEngine, AnyChunkBatchAndEncoderCache) {
  for (const std::int64_t chunk : {7, 64, 1000}) {
    for (const EncoderCache cache : {EncoderCache::kOff, EncoderCache::kStore}) {
      if (!has_images() && cache == EncoderCache::kStore) continue;
      for (const std::size_t together : {1, 8}) {
        SCOPED_TRACE(fmt::format("{} chunk {} batch {}", name_of(cache), chunk, together));
        EngineSettings settings = settings_of(chunk);
        settings.encoder_cache = cache;
        settings.steps_in_flight = together == 1 ? 1 : 2;
        expect_goldens(from_, settings, together, together == 1 ? 1 : 2);
      }
    }
  }
}

// Whoever is preempted begins its states anew, or at one that was kept, and answers as before. A
// page of a state holds hundreds of tokens of such small models, so that who was admitted mostly
// has room to grow: these are the checkpoints where some do not.
class PreemptedStates : public StatefulEngine {};

TEST_P(PreemptedStates, AnswersAreTheSame) {
  for (const bool prefixes : {false, true}) {
    SCOPED_TRACE(prefixes ? "states are kept" : "no state is kept");
    std::uint64_t preempted = 0;
    EngineSettings least = settings_of(100);
    least.prefix_caching = prefixes;
    least.state_interval = 48;
    least = barely_held(least);
    for (const std::size_t eighths : {2, 5, 8, 12, 16, 24}) {
      EngineSettings settings = least;
      settings.kv_cache_bytes += least.kv_cache_bytes * eighths / 8;
      settings.steps_in_flight = eighths % 2 == 0 ? 1 : 2;
      preempted += expect_goldens(from_, settings, 8, 2).num_preemptions;
    }
    EXPECT_GT(preempted, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, PreemptedStates,
                         ::testing::Values(Stateful{"qwen3_5/stretched", kTextCases,
                                                    "qwen3_5_stretched"},
                                           Stateful{"qwen3_5_vl/odd_heads", test::kGoldenCases,
                                                    "qwen3_5_images_odd_heads"},
                                           Stateful{"qwen3_5_vl/odd_heads", test::kVideoCases,
                                                    "qwen3_5_videos_odd_heads"}),
                         [](const auto& of) { return of.param.name; });

// The same where a page holds more tokens than a golden has: answers go on until they need another.
class LongAnswers : public StatefulEngine {};

TEST_P(LongAnswers, ArePreemptedAndTheSame) {
  from_.answer_up_to(400);
  EngineSettings roomy = settings_of(100);
  roomy.kv_cache_bytes = std::size_t{256} << 20;
  roomy.prefix_caching = false;
  const test::GoldenRun alone = test::run_goldens(from_, roomy, 1);
  for (std::size_t i = 0; i < from_.count(); ++i) {
    SCOPED_TRACE(from_.name(i));
    const std::vector<TokenId>& begins = from_.golden(i).greedy;
    ASSERT_GE(alone.answers[i].size(), 400u);
    EXPECT_TRUE(std::ranges::equal(
        begins, std::span<const TokenId>(alone.answers[i]).first(begins.size())));
  }
  std::uint64_t preempted = 0;
  for (const bool prefixes : {false, true}) {
    SCOPED_TRACE(prefixes ? "states are kept" : "no state is kept");
    EngineSettings least = settings_of(100);
    least.prefix_caching = prefixes;
    least.state_interval = 48;
    least = barely_held(least);
    for (const std::size_t eighths : {5, 8, 12}) {
      EngineSettings settings = least;
      settings.kv_cache_bytes += least.kv_cache_bytes * eighths / 8;
      settings.steps_in_flight = eighths % 2 == 0 ? 1 : 2;
      const test::GoldenRun together = test::run_goldens(from_, settings, 8, 2);
      for (std::size_t i = 0; i < together.answers.size(); ++i)
        EXPECT_EQ(together.answers[i], alone.answers[i % from_.count()]) << from_.name(i);
      preempted += together.stats.num_preemptions;
    }
  }
  EXPECT_GT(preempted, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, LongAnswers,
    ::testing::Values(Stateful{"minicpmv/slices", test::kGoldenCases, "minicpmv_images_slices"},
                      Stateful{"minicpmv/fine", test::kGoldenCases, "minicpmv_images_fine"},
                      Stateful{"minicpmv/plain", test::kVideoCases, "minicpmv_videos_plain"}),
    [](const auto& of) { return of.param.name; });

// Whatever the policy and the caches of embeddings, with kept states and without.
class StatefulPolicies : public StatefulEngine {};

TEST_P(StatefulPolicies, EachGivesTheReferencesTokens) {
  for (const KvPolicy policy : test::kPolicies) {
    for (const EncoderCache cache : test::kCaches) {
      if (cache == EncoderCache::kOverlay && !test::overlay_fits(from_.network().shape())) continue;
      for (const bool prefixes : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} {}{}", name_of(policy), name_of(cache), prefixes ? " prefixes" : ""));
        EngineSettings settings = settings_of(prefixes ? 7 : 64);
        settings.kv_policy = policy;
        settings.kv_cache_bytes = std::size_t{64} << 20;
        settings.encoder_cache = cache;
        settings.prefix_caching = prefixes;
        settings.state_interval = 16;
        settings.block_size = prefixes ? 16 : 8;
        settings.steps_in_flight = prefixes ? 2 : 1;
        const EngineStats stats = expect_goldens(from_, settings, 8, 2);
        EXPECT_GT(stats.encoder_tokens_consumed, 0u);
        EXPECT_EQ(stats.prefix_cache_hits > 0, prefixes);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, StatefulPolicies,
    ::testing::Values(Stateful{"qwen3_5_vl/odd_heads", test::kGoldenCases,
                               "qwen3_5_images_odd_heads"},
                      Stateful{"minicpmv/slices", test::kGoldenCases, "minicpmv_images_slices"},
                      Stateful{"minicpmv/fine", test::kGoldenCases, "minicpmv_images_fine"},
                      Stateful{"minicpmv/plain", test::kVideoCases, "minicpmv_videos_plain"}),
    [](const auto& of) { return of.param.name; });

// In bytes a row's numbers are its own, too: no cut and no batch changes an answer. (How near it is
// to that of numbers: int8_test.cc.)
TEST(StatefulEngineInBytes, AnyChunkAndBatch) {
  LoadOptions bytes{.compute = DType::kF32, .kv = {}};
  bytes.text_layers = DType::kI8;
  GoldenRequests from("qwen3_5/odd_heads", kTextCases, engine_device(""), bytes);
  const test::GoldenRun alone = test::run_goldens(from, settings_of(1000), 1);
  int others = 0;
  for (std::size_t i = 0; i < from.count(); ++i)
    others += alone.answers[i] != from.golden(i).greedy ? 1 : 0;
  EXPECT_GT(others, 0) << "bytes were not multiplied";
  for (const std::int64_t chunk : {7, 64}) {
    SCOPED_TRACE(chunk);
    EngineSettings settings = settings_of(chunk);
    settings.state_interval = 48;
    settings.steps_in_flight = 2;
    EXPECT_EQ(test::run_goldens(from, settings, 8).answers, alone.answers);
  }
}

// A second round goes on from states that were kept, behind images and between them.
TEST_P(StatefulEngine, LaterRoundsGoOnFromKeptStates) {
  for (const std::int64_t interval : {16, 40}) {
    SCOPED_TRACE(interval);
    EngineSettings settings = settings_of(64);
    settings.kv_cache_bytes = std::size_t{64} << 20;
    settings.state_interval = interval;
    settings.max_sequences = 1;
    const EngineStats once = expect_goldens(from_, settings, 1, 1);
    const EngineStats twice = expect_goldens(from_, settings, 1, 2);
    std::uint64_t reached = 0;
    for (std::size_t i = 0; i < from_.count(); ++i) {
      const std::int64_t step =
          (interval + settings.block_size - 1) / settings.block_size * settings.block_size;
      reached += static_cast<std::uint64_t>(
          (static_cast<std::int64_t>(from_.golden(i).ids.size()) - 1) / step * step);
    }
    EXPECT_EQ(twice.prefix_cache_hits - once.prefix_cache_hits, reached);
    EXPECT_GT(reached, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, StatefulEngine,
    ::testing::Values(
        Stateful{"qwen3_5/odd_heads", kTextCases, "qwen3_5_odd_heads"},
        Stateful{"qwen3_5/stretched", kTextCases, "qwen3_5_stretched"},
        Stateful{"qwen3_5_vl/odd_heads", test::kGoldenCases, "qwen3_5_images_odd_heads"},
        Stateful{"qwen3_5_vl/wide_rows", test::kGoldenCases, "qwen3_5_images_wide_rows"},
        Stateful{"qwen3_5_vl/odd_heads", test::kVideoCases, "qwen3_5_videos_odd_heads"},
        Stateful{"qwen3_5_vl/wide_rows", test::kVideoCases, "qwen3_5_videos_wide_rows"},
        Stateful{"minicpmv/slices", test::kGoldenCases, "minicpmv_images_slices"},
        Stateful{"minicpmv/plain", test::kGoldenCases, "minicpmv_images_plain"},
        Stateful{"minicpmv/slices", test::kVideoCases, "minicpmv_videos_slices"},
        Stateful{"minicpmv/fine", test::kGoldenCases, "minicpmv_images_fine"},
        Stateful{"minicpmv/plain", test::kVideoCases, "minicpmv_videos_plain"}),
    [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace saccade
