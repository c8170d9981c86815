// Keys and values in bytes (--kv-cache-dtype int8, fp8) through the engine: whatever the chunks,
// the batch, the policy and the caches, with preemption and with tokens guessed ahead, every
// request gets the tokens that its sequence says alone with the same kind of cache.
#include <gmock/gmock.h>

#include <map>
#include <tuple>

#include "engine/admission/kv_pool.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::GoldenRequests;
using test::run_goldens;
using test::settings_of;

// Full attention and images; windows of several sizes; layers that attend to images; states beside
// keys and values.
const std::map<std::string, std::vector<std::string>> kCases = {
    {"qwen2_vl/odd_heads", test::kGoldenCases},
    {"gemma3/pooled", test::kGoldenCases},
    {"mllama/quarters", {"text", "one_image", "three_images", "multi_turn", "first"}},
    {"qwen3_5/odd_heads", {"text", "multi_turn", "long"}}};

class CodedCache : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  CodedCache() : from_(requests({.compute = DType::kF32, .kv = std::get<1>(GetParam())})) {
    for (std::size_t i = 0; i < from_.count(); ++i) solo_.push_back(from_.solo(i));
  }

  static GoldenRequests requests(const LoadOptions& options) {
    const std::string& checkpoint = std::get<0>(GetParam());
    return GoldenRequests(checkpoint, kCases.at(checkpoint), engine_device(""), options);
  }

  EngineStats expect_solo(const EngineSettings& settings, std::size_t together,
                          std::size_t rounds = 1) {
    return expect_solo(from_, solo_, settings, together, rounds);
  }
  static EngineStats expect_solo(GoldenRequests& from,
                                 const std::vector<GoldenRequests::Solo>& solo,
                                 const EngineSettings& settings, std::size_t together,
                                 std::size_t rounds) {
    const auto run = run_goldens(from, settings, together, rounds);
    for (std::size_t i = 0; i < run.answers.size(); ++i)
      EXPECT_EQ(run.answers[i], solo[i % solo.size()].tokens) << from.name(i);
    return run.stats;
  }

  // A step holds what sees each other both ways.
  EngineSettings settings_for(std::int64_t chunk) {
    EngineSettings settings = settings_of(chunk);
    for (std::size_t i = 0; i < from_.count(); ++i)
      settings.max_batched_tokens =
          std::max(settings.max_batched_tokens,
                   least_step_tokens(*from_.request(i).prompt) + settings.max_sequences - 1);
    return settings;
  }

  // A pool for the longest sequence alone and little more, the rows of images that layers attend to
  // counted as if all layers kept them.
  EngineSettings tight(EngineSettings settings) {
    std::int64_t longest = 0;
    std::int64_t rows = 0;
    for (std::size_t i = 0; i < from_.count(); ++i) {
      const Golden& golden = from_.golden(i);
      longest = std::max(longest, std::ssize(golden.ids) + std::ssize(golden.greedy) + 1);
      if (!from_.network().shape().cross_attends()) continue;
      std::int64_t of_images = 0;
      const Request request = from_.request(i);
      for (const RequestImage& image : *request.images)
        of_images += image.layout.tokens + settings.block_size;
      rows = std::max(rows, of_images);
    }
    settings.max_model_len = longest;
    std::int64_t token_bytes = 0;
    for (const LayerSpec& layer : layer_specs(from_.network().shape()))
      token_bytes += layer.token_bytes();
    settings.kv_cache_bytes = static_cast<std::size_t>((longest + rows + 64) * token_bytes);
    // Fixed shares, states and images need a larger pool for the same sequence.
    const SteadyClock clock;
    while (!Engine::create(settings, from_.network(), from_.device(), clock) &&
           settings.kv_cache_bytes < std::size_t{1} << 30)
      settings.kv_cache_bytes += settings.kv_cache_bytes / 8;
    return settings;
  }

  GoldenRequests from_;
  std::vector<GoldenRequests::Solo> solo_;
};

// The same sequence with keys and values as numbers has other logits, near these.
TEST_P(CodedCache, RoundsAndRoundsLittle) {
  const ModelShape& shape = from_.network().shape();
  EXPECT_EQ(shape.cache_dtype, std::get<1>(GetParam()));
  EXPECT_EQ(shape.embedding_dtype, DType::kF32);
  GoldenRequests numbers = requests({.compute = DType::kF32, .kv = DType::kF32});
  // Embeddings are those of any other process: they may share them.
  EXPECT_EQ(shape.tower_fingerprint, numbers.network().shape().tower_fingerprint);
  for (std::size_t i = 0; i < from_.count(); ++i) {
    const std::vector<float> want = numbers.solo(i).logits;
    double largest = 0;
    double error = 0;
    for (std::size_t at = 0; at < want.size(); ++at) {
      largest = std::max<double>(largest, std::abs(want[at]));
      error = std::max<double>(error, std::abs(want[at] - solo_[i].logits[at]));
    }
    EXPECT_GT(error, 1e-5 * largest) << from_.name(i);
    EXPECT_LT(error, 0.25 * largest) << from_.name(i);
  }
}

TEST_P(CodedCache, AnyPolicyPrefixCacheChunkAndBatch) {
  std::uint64_t hits = 0;
  for (const KvPolicy policy : test::kPolicies) {
    for (const bool prefixes : {false, true}) {
      for (const std::int64_t chunk : {7, 64, 1000}) {
        SCOPED_TRACE(
            fmt::format("{}{} chunk {}", name_of(policy), prefixes ? " prefixes" : "", chunk));
        EngineSettings settings = settings_for(chunk);
        settings.kv_policy = policy;
        settings.prefix_caching = prefixes;
        settings.encoder_cache = chunk == 64 ? EncoderCache::kOff : EncoderCache::kStore;
        settings.block_size = chunk == 7 ? 4 : 16;
        settings.steps_in_flight = chunk == 7 ? 1 : 2;
        if (prefixes) settings.state_interval = 16;
        const EngineStats stats = expect_solo(settings, chunk == 1000 ? 1 : 8, 2);
        hits += stats.prefix_cache_hits;
        if (!prefixes) {
          EXPECT_EQ(stats.prefix_cache_hits, 0u);
        }
      }
    }
  }
  EXPECT_GT(hits, 0u);
}

TEST_P(CodedCache, PreemptedAnswersAreTheSame) {
  std::uint64_t preempted = 0;
  for (const KvPolicy policy : test::kPolicies) {
    for (const bool prefixes : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", name_of(policy), prefixes ? " prefixes" : ""));
      EngineSettings settings = settings_for(100);
      settings.kv_policy = policy;
      settings.prefix_caching = prefixes;
      preempted += expect_solo(tight(settings), 8, 2).num_preemptions;
    }
  }
  EXPECT_GT(preempted, 0u);
}

TEST_P(CodedCache, TokensGuessedAhead) {
  if (from_.network().shape().keeps_state()) GTEST_SKIP() << "a state cannot be taken back";
  std::uint64_t guessed = 0;
  for (const std::int64_t chunk : {16, 1000}) {
    EngineSettings settings = settings_for(chunk);
    settings.speculation = {.max_tokens = 4, .shortest = 1, .longest = 3};
    guessed += expect_solo(settings, 8, 2).spec_decode_num_draft_tokens;
  }
  EXPECT_GT(guessed, 0u);
}

// A page is what its rows and their scales take, and a pool of some bytes holds as much more.
TEST_P(CodedCache, PoolsHoldWhatTheBytesSay) {
  const auto held = [](GoldenRequests& from) -> std::int64_t {
    EngineSettings settings = settings_of(64);
    const SteadyClock clock;
    const auto engine = Engine::create(settings, from.network(), from.device(), clock);
    EXPECT_TRUE(engine) << engine.error().message;
    if (!engine) return 0;
    const PagePlan& plan = static_cast<const LocalEngine&>(**engine).parts().kv->plan();
    std::int64_t bytes = 0;  // of a token in all layers
    for (const LayerSpec& layer : plan.layers) bytes += layer.token_bytes();
    std::int64_t block = 0;  // of all tables
    for (const GroupPlan& group : plan.groups)
      if (group.kind != CacheKind::kState) block += group.used_bytes * group.tables;
    EXPECT_EQ(block, bytes * settings.block_size);
    return bytes;
  };
  GoldenRequests halves = requests({.compute = DType::kF32, .kv = DType::kBf16});
  std::int64_t of_halves = 0;
  std::int64_t of_bytes = 0;
  for (const LayerShape& layer : from_.network().shape().layers) {
    of_halves += 2 * layer.kv_heads * layer.head_dim * 2;
    of_bytes += 2 * layer.kv_heads * (layer.head_dim + 4);
  }
  EXPECT_EQ(held(halves), of_halves);
  EXPECT_EQ(held(from_), of_bytes);
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<std::string, DType>>& info) {
  std::string name =
      std::get<0>(info.param) + "_" + std::string(saccade::name_of(std::get<1>(info.param)));
  std::ranges::replace(name, '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CodedCache,
                         ::testing::Combine(::testing::Values("qwen2_vl/odd_heads", "gemma3/pooled",
                                                              "mllama/quarters",
                                                              "qwen3_5/odd_heads"),
                                            ::testing::Values(DType::kI8, DType::kE4m3)),
                         name_of_case);

// Embeddings lie in the places of keys and values until these are there. Of 192 codes a token,
// whose bytes are those of the 96 elements that an embedding has in 16 bits.
TEST(CodedCacheOverlay, EmbeddingsLieWhereCodesWillBe) {
  for (const DType cache : {DType::kI8, DType::kE4m3}) {
    GoldenRequests from("qwen2_vl/odd_heads", test::kGoldenCases, engine_device(""),
                        {.compute = DType::kBf16, .kv = cache});
    EXPECT_EQ(from.network().shape().embedding_dtype, DType::kBf16);
    std::vector<std::vector<TokenId>> solo;
    for (std::size_t i = 0; i < from.count(); ++i) solo.push_back(from.solo(i).tokens);
    for (const std::int64_t chunk : {16, 1000}) {
      EngineSettings settings = settings_of(chunk);
      settings.encoder_cache = EncoderCache::kOverlay;
      const auto run = run_goldens(from, settings, 8, 2);
      for (std::size_t i = 0; i < run.answers.size(); ++i)
        EXPECT_EQ(run.answers[i], solo[i % solo.size()]) << from.name(i);
    }
  }
}

TEST(CodedCacheOverlay, WhereTheyAreTooLargeItIsRefusedByName) {
  GoldenRequests from("qwen2_vl/odd_heads", test::kGoldenCases, engine_device(""),
                      {.compute = DType::kF32, .kv = DType::kI8});
  EngineSettings settings = settings_of(64);
  settings.encoder_cache = EncoderCache::kOverlay;
  const SteadyClock clock;
  const auto engine = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_FALSE(engine);
  EXPECT_THAT(engine.error().message, ::testing::HasSubstr("overlay"));
}

}  // namespace
}  // namespace saccade
