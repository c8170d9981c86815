// The engine over a team of CPUs, each a rank of the model: the tokens of transformers and of one
// process, whatever the engine does with them.
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "grammar/automaton/grammar_cache.h"
#include "ops/team/team_device.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::expect_goldens;
using test::golden_folder;
using test::GoldenRequests;
using test::settings_of;

std::unique_ptr<Device> make_team(int ranks) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(*make_cpu_device(1));
  return std::make_unique<TeamDevice>(std::move(devices), make_thread_collectives(ranks));
}

struct Family {
  std::string checkpoint;
  std::vector<std::string> cases;
};

// Images, DeepStack, layers that attend to images, windows, experts, stored codes.
const std::vector<Family> kFamilies = {
    {"qwen2_5_vl/odd_heads", test::kGoldenCases},
    {"qwen3_vl/odd_heads", test::kGoldenCases},
    {"qwen3_vl_moe/every_layer", test::kGoldenCases},
    {"mllama/quarters", {"text", "one_image", "three_images", "multi_turn", "first"}},
    {"gemma3/pooled", test::kGoldenCases},
    {"internvl2/internlm2", test::kGoldenCases},
    {"quantised/gptq_order", {"text", "long"}}};

void PrintTo(const Family& family, std::ostream* out) { *out << family.checkpoint; }

class RanksEngine : public ::testing::TestWithParam<Family> {};

TEST_P(RanksEngine, AnyChunkAndBatchGiveTheReferencesTokens) {
  GoldenRequests from(GetParam().checkpoint, GetParam().cases, make_team(2));
  for (const std::int64_t chunk : {16, 1000}) {
    for (const std::size_t together : {1, 8}) {
      SCOPED_TRACE("chunk " + std::to_string(chunk) + " batch " + std::to_string(together));
      EngineSettings settings = settings_of(chunk);
      settings.steps_in_flight = together == 1 ? 1 : 2;
      const EngineStats stats = expect_goldens(from, settings, together, 2);
      if (together == 1) {
        EXPECT_GT(stats.prefix_cache_hits, 0u);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, RanksEngine, ::testing::ValuesIn(kFamilies),
                         [](const auto& family) {
                           std::string name = family.param.checkpoint;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

// Room for the longest alone and little more, with every way to keep images.
TEST(RanksEngineMemory, PreemptedAnswersAreTheSame) {
  GoldenRequests from("qwen2_5_vl/odd_heads", test::kGoldenCases, make_team(2));
  const ModelShape& shape = from.network().shape();
  ASSERT_EQ(shape.layers.front().kv_heads, 1);  // a rank's
  std::int64_t token_bytes = 0;
  for (const LayerShape& layer : shape.layers)
    token_bytes += 2 * layer.kv_heads * layer.head_dim * 4;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < from.count(); ++i)
    longest = std::max(longest, from.golden(i).ids.size() + from.golden(i).greedy.size() + 1);
  std::uint64_t preempted = 0;
  for (const EncoderCache cache : {EncoderCache::kOff, EncoderCache::kStore}) {
    SCOPED_TRACE(name_of(cache));
    EngineSettings settings = settings_of(100);
    settings.encoder_cache = cache;
    settings.steps_in_flight = 2;
    settings.prefix_caching = false;
    settings.max_model_len = static_cast<std::int64_t>(longest);
    settings.kv_cache_bytes = static_cast<std::size_t>((settings.max_model_len + 64) * token_bytes);
    preempted += expect_goldens(from, settings, 8, 2).num_preemptions;
  }
  EXPECT_GT(preempted, 0u);
}

// Embeddings in the place of their tokens' keys and values, of which a rank has half.
TEST(RanksEngineMemory, OverlaidImages) {
  GoldenRequests from("qwen2_5_vl/odd_heads", test::kGoldenCases, make_team(2));
  const ModelShape& shape = from.network().shape();
  std::int64_t values = 0;
  for (const LayerShape& layer : shape.layers) values += 2 * layer.kv_heads * layer.head_dim;
  EngineSettings settings = settings_of(64);
  settings.encoder_cache = EncoderCache::kOverlay;
  if (values >= shape.embedding_width()) {
    expect_goldens(from, settings, 8, 2);
    return;
  }
  const SteadyClock clock;
  const auto engine = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_FALSE(engine);
  EXPECT_THAT(engine.error().message, ::testing::HasSubstr("smaller than an embedding"));
}

TEST(RanksEngineSteps, GuessedTokensGiveTheSameAnswers) {
  GoldenRequests from("qwen2_5_vl/odd_heads", test::kGoldenCases, make_team(2));
  EngineSettings settings = settings_of(64);
  settings.speculation = {.max_tokens = 4, .shortest = 1, .longest = 3};
  const EngineStats stats = expect_goldens(from, settings, 4, 2);
  EXPECT_GT(stats.spec_decode_num_draft_tokens, 0u);
}

TEST(RanksEngineSteps, GuessesOfADraftModelGiveTheSameAnswers) {
  GoldenRequests from("qwen2_5_vl/odd_heads", test::kGoldenCases, make_team(2));
  const auto draft = test::load(golden_folder("qwen2_5_vl/odd_heads"), from.device(),
                                {.compute = DType::kF32, .kv = {}, .parts = Parts::kText});
  EngineSettings settings = settings_of(64);
  settings.draft = draft->network.get();
  settings.speculation.max_tokens = 4;
  const EngineStats stats = expect_goldens(from, settings, 4, 2);
  EXPECT_GT(stats.spec_decode_num_draft_tokens, 0u);
  EXPECT_GT(stats.spec_decode_num_accepted_tokens, 0u);
}

// What requests ask for beside greedy tokens: draws, penalties, bias, masks, grammars, and the
// probabilities of their prompts.
std::vector<Request> various(GoldenRequests& from, const std::string& checkpoint) {
  const ModelShape& shape = from.network().shape();
  const std::shared_ptr<const Tokenizer> tokenizer = *load_tokenizer(golden_folder(checkpoint));
  grammar::GrammarCache grammars(
      std::make_shared<const grammar::Vocabulary>(*tokenizer, shape.vocab, shape.eos),
      std::size_t{64} << 20);
  const auto words = grammars.find({grammar::GrammarSpec::Kind::kRegex, "[a-z ]{40,}", {}, {}});
  EXPECT_TRUE(words) << words.error().message;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < from.count(); ++i) {
    Request& drawn = requests.emplace_back(from.request(i));
    drawn.sampling.temperature = 0.9;
    drawn.sampling.top_p = 0.95;
    drawn.sampling.top_k = 40;
    drawn.sampling.seed = 11 + i;
    drawn.sampling.logprobs = 3;
    Request& penalised = requests.emplace_back(from.request(i));
    penalised.sampling.temperature = i % 2 == 0 ? 0 : 0.7;
    penalised.sampling.seed = 5;
    penalised.sampling.repetition_penalty = 1.3;
    penalised.sampling.frequency_penalty = 0.4;
    penalised.sampling.presence_penalty = 0.2;
    penalised.sampling.logit_bias = std::vector<TokenBias>{{3, 2.5F}, {9, -4.0F}};
    Request& masked = requests.emplace_back(from.request(i));
    masked.sampling.temperature = 0.8;
    masked.sampling.seed = 3;
    std::vector<std::uint32_t> every_other(static_cast<std::size_t>((shape.vocab + 31) / 32),
                                           0x55555555U);
    masked.sampling.allowed_tokens = every_other;
    Request& held = requests.emplace_back(from.request(i));
    held.sampling.temperature = i % 2 == 0 ? 0.8 : 0;
    held.sampling.seed = 8;
    held.sampling.grammar = words.value_or(nullptr);
    held.tokenizer = tokenizer;
    if (!requests.back().images->empty()) continue;
    requests.emplace_back(from.request(i)).sampling.prompt_logprobs = 2;
  }
  return requests;
}

std::vector<std::vector<TokenId>> answers_of(GoldenRequests& from, const std::string& checkpoint,
                                             int steps_in_flight) {
  EngineSettings settings = settings_of(48);
  settings.steps_in_flight = steps_in_flight;
  settings.max_logprobs = 5;
  const SteadyClock clock;
  auto engine = Engine::create(settings, from.network(), from.device(), clock);
  EXPECT_TRUE(engine) << engine.error().message;
  std::vector<Request> requests = various(from, checkpoint);
  std::vector<std::vector<TokenId>> answers(requests.size());
  std::size_t unfinished = requests.size();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto id = (*engine)->submit(
        std::move(requests[i]),
        [&, i](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
          EXPECT_NE(delta.finish, FinishReason::kError) << delta.error;
          answers[i].insert(answers[i].end(), delta.tokens.begin(), delta.tokens.end());
          for (const TokenLogprob& scored : delta.prompt_logprobs)
            answers[i].push_back(scored.top.empty() ? -1 : scored.top.front().first);
          if (delta.finish != FinishReason::kNone) --unfinished;
        });
    EXPECT_TRUE(id) << id.error().message;
  }
  while (unfinished > 0 && (*engine)->step()) {
  }
  EXPECT_EQ(unfinished, 0u);
  return answers;
}

TEST(RanksEngineSteps, SampledTokensAreThoseOfOneProcess) {
  const std::string checkpoint = "qwen2_5_vl/odd_heads";
  GoldenRequests whole(checkpoint, test::kGoldenCases, *make_cpu_device(1));
  GoldenRequests split(checkpoint, test::kGoldenCases, make_team(2));
  const auto want = answers_of(whole, checkpoint, 1);
  EXPECT_EQ(answers_of(split, checkpoint, 1), want);
  EXPECT_EQ(answers_of(split, checkpoint, 2), want);
}

// A rank ends in the middle of a run: everybody is told, nobody waits, and nothing more is taken.
TEST(RanksEngineFailures, EverybodyIsToldWhenARankGivesUp) {
  for (const int steps_in_flight : {1, 2}) {
    SCOPED_TRACE(steps_in_flight);
    auto made = make_team(2);
    auto& team = static_cast<TeamDevice&>(*made).team();
    GoldenRequests from("qwen2_5_vl/odd_heads", test::kGoldenCases, std::move(made));
    EngineSettings settings = settings_of(64);
    settings.steps_in_flight = steps_in_flight;
    const SteadyClock clock;
    auto engine = Engine::create(settings, from.network(), from.device(), clock);
    ASSERT_TRUE(engine) << engine.error().message;
    std::size_t tokens = 0;
    std::vector<std::string> ends;
    const auto sink = [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
      tokens += delta.tokens.size();
      // From another thread, as where somebody watches over the ranks.
      if (tokens > 20)
        std::thread([&] {
          team.collective(1).abort({ErrorCode::kUnavailable, "rank 1 has no power", {}});
        }).join();
      if (delta.finish == FinishReason::kNone) return;
      EXPECT_EQ(delta.finish, FinishReason::kError);
      EXPECT_EQ(delta.error_code, ErrorCode::kUnavailable);
      ends.push_back(delta.error);
    };
    for (std::size_t i = 0; i < from.count(); ++i) {
      Request request = from.request(i);
      request.sampling.max_tokens = 100'000;
      ASSERT_TRUE((*engine)->submit(std::move(request), sink));
    }
    std::string thrown;
    try {
      (*engine)->run();
    } catch (const RanksFailed& failed) {
      thrown = failed.what();
    }
    EXPECT_EQ(thrown, "rank 1 has no power");
    EXPECT_EQ(ends,
              std::vector<std::string>(from.count(), "the engine has stopped: the server ends"));
    const auto refused = (*engine)->submit(from.request(0), sink);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  }
}

// What cannot be shared, and what ranks do not do, is said by name.
TEST(RanksEngineRefusals, AreByName) {
  const auto device = make_team(2);
  const auto load = [&](const std::string& checkpoint) {
    const auto opened = open_checkpoint(golden_folder(checkpoint));
    EXPECT_TRUE(opened) << checkpoint;
    const auto model = load_model(*opened, *device);
    return model ? std::string() : model.error().message;
  };
  const auto sentences =
      load_encoder(*open_checkpoint(golden_folder("minilm/mean_short")), *device);
  ASSERT_FALSE(sentences);
  EXPECT_THAT(sentences.error().message, ::testing::HasSubstr("is not split over ranks"));
  EXPECT_THAT(load("llama3/plain"),
              ::testing::HasSubstr("num_attention_heads is 3, 2 ranks cannot share it evenly"));
  EXPECT_THAT(load("qwen3_5/odd_heads"), ::testing::HasSubstr("layers that keep a state"));
  GoldenRequests from("qwen2_5_vl/odd_heads", {"text"}, make_team(2));
  EngineSettings settings = settings_of(64);
  settings.max_loras = 1;
  const SteadyClock clock;
  const auto engine = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_FALSE(engine);
  EXPECT_THAT(engine.error().message, ::testing::HasSubstr("takes no adapters here"));
}

// A rank's share of the weights; what is counted for the tower's embeddings is one process's.
TEST(RanksEngineShape, IsARanks) {
  GoldenRequests whole("qwen2_5_vl/odd_heads", {"text"}, *make_cpu_device(1));
  GoldenRequests split("qwen2_5_vl/odd_heads", {"text"}, make_team(2));
  const ModelShape& all = whole.network().shape();
  const ModelShape& share = split.network().shape();
  EXPECT_EQ(share.layers.front().kv_heads * 2, all.layers.front().kv_heads);
  EXPECT_LT(share.weight_bytes, all.weight_bytes);
  EXPECT_EQ(share.tower_fingerprint, all.tower_fingerprint);
  EXPECT_EQ(share.vocab, all.vocab);
}

}  // namespace
}  // namespace saccade
