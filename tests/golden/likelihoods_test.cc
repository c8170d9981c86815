// Log-probabilities of prompts' own tokens, as transformers has them
// (tools/goldens/likelihoods.py): whatever the chunk budget, batch and caches, and under
// preemption.
#include <algorithm>
#include <span>

#include "base/json.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::GoldenRequests;
using test::settings_of;

struct Case {
  std::string name;
  json::array tokens;  // of the prompt but its first
};

// Of one checkpoint.
std::vector<Case> cases_of(const std::string& checkpoint) {
  std::vector<Case> cases;
  const auto tree = json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/likelihoods.json");
  EXPECT_TRUE(tree) << tree.error().message;
  for (const json::value& prompt : tree->at("prompts").as_array()) {
    if (prompt.at("checkpoint").as_string() == std::string_view(checkpoint))
      cases.push_back({std::string(prompt.at("case").as_string()), prompt.at("tokens").as_array()});
  }
  return cases;
}

std::vector<std::string> names_of(const std::vector<Case>& cases) {
  std::vector<std::string> names;
  for (const Case& each : cases) names.push_back(each.name);
  return names;
}

void expect_likelihoods(const std::vector<TokenLogprob>& got, const Golden& golden,
                        const json::array& expected) {
  ASSERT_EQ(got.size(), expected.size());
  ASSERT_EQ(got.size() + 1, golden.ids.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE("token " + std::to_string(i + 1));
    const json::value& want = expected[i];
    EXPECT_EQ(got[i].token, golden.ids[i + 1]);
    EXPECT_NEAR(got[i].logprob, want.at("logprob").to_number<double>(), 2e-3);
    EXPECT_EQ(got[i].rank, want.at("rank").to_number<int>());
    const json::array& top = want.at("top").as_array();
    ASSERT_EQ(got[i].top.size(), top.size());
    for (std::size_t k = 0; k < top.size(); ++k) {
      EXPECT_EQ(got[i].top[k].first, top[k].to_number<TokenId>());
      EXPECT_NEAR(got[i].top[k].second, want.at("top_logprobs").as_array()[k].to_number<double>(),
                  2e-3);
    }
  }
}

struct Scores {
  std::vector<std::vector<TokenLogprob>> prompts;
  std::vector<RequestUsage> usages;
  EngineStats stats;
};

// Whether a mixed run's request i is one that wants its prompt scored: each golden is, in one of
// two rounds.
bool is_scored(std::size_t i, std::size_t goldens) { return (i + i / goldens) % 2 == 0; }

// `rounds` times all goldens at once; of `mixed` ones every second one wants its answer alone.
Scores score(GoldenRequests& from, const EngineSettings& settings, std::size_t rounds, bool mixed,
             int answer_tokens = 8) {
  const SteadyClock clock;
  auto engine = Engine::create(settings, from.network(), from.device(), clock);
  EXPECT_TRUE(engine) << engine.error().message;
  const std::size_t count = rounds * from.count();
  Scores scores{
      std::vector<std::vector<TokenLogprob>>(count), std::vector<RequestUsage>(count), {}};
  std::vector<std::vector<TokenId>> answers(count);
  for (std::size_t i = 0; i < count; ++i) {
    Request request = from.request(i);
    request.sampling.max_tokens = answer_tokens;
    if (!mixed || is_scored(i, from.count())) request.sampling.prompt_logprobs = 5;
    const auto id = (*engine)->submit(
        std::move(request),
        [&, i](RequestId, Delta&& delta, const RequestUsage& usage, const RequestTimes&) {
          if (!delta.prompt_logprobs.empty()) {
            EXPECT_TRUE(answers[i].empty()) << "they come with the first token";
          }
          for (TokenLogprob& token : delta.prompt_logprobs)
            scores.prompts[i].push_back(std::move(token));
          answers[i].insert(answers[i].end(), delta.tokens.begin(), delta.tokens.end());
          scores.usages[i] = usage;
        });
    EXPECT_TRUE(id) << id.error().message;
  }
  while ((*engine)->step()) {
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::span greedy = from.golden(i).greedy;
    const auto expected = greedy.first(static_cast<std::size_t>(answer_tokens));
    EXPECT_TRUE(std::ranges::equal(answers[i], expected)) << from.name(i);
  }
  scores.stats = (*engine)->stats();
  return scores;
}

class Likelihoods : public ::testing::TestWithParam<const char*> {};

TEST_P(Likelihoods, AnyChunkAndBatchGiveTransformersNumbers) {
  const std::vector<Case> cases = cases_of(GetParam());
  ASSERT_FALSE(cases.empty());
  GoldenRequests from(GetParam(), names_of(cases));
  for (const std::int64_t chunk : {16, 48, 1000}) {
    for (const int steps : {1, 2}) {
      SCOPED_TRACE("chunk " + std::to_string(chunk) + " steps " + std::to_string(steps));
      EngineSettings settings = settings_of(chunk);
      settings.steps_in_flight = steps;
      const Scores scores = score(from, settings, 2, true);
      for (std::size_t i = 0; i < scores.prompts.size(); ++i) {
        SCOPED_TRACE(from.name(i));
        if (!is_scored(i, from.count())) {
          EXPECT_TRUE(scores.prompts[i].empty());
          continue;
        }
        // All rows are computed for them, even of a prompt that is cached.
        EXPECT_EQ(scores.usages[i].cached_tokens, 0);
        expect_likelihoods(scores.prompts[i], from.golden(i), cases[i % cases.size()].tokens);
      }
    }
  }
}

// Who is preempted in the middle of its prompt goes on where it was.
TEST_P(Likelihoods, PreemptedPromptsAreScoredOnce) {
  const std::vector<Case> cases = cases_of(GetParam());
  GoldenRequests from(GetParam(), names_of(cases));
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < from.count(); ++i)
    longest = std::max(longest, static_cast<std::int64_t>(from.golden(i).ids.size()));
  // Two prompts have room beside each other, and not their answers.
  constexpr int kAnswer = 60;
  std::uint64_t preempted = 0;
  for (const bool prefix_caching : {false, true}) {
    EngineSettings settings = settings_of(48);
    settings.prefix_caching = prefix_caching;
    settings.max_model_len = longest + kAnswer;
    const LayerShape& layer = from.network().shape().layers.front();
    settings.kv_cache_bytes =
        static_cast<std::size_t>((2 * longest + 24) * 2 * layer.kv_heads * layer.head_dim * 4 *
                                 static_cast<std::int64_t>(from.network().shape().layers.size()));
    const Scores scores = score(from, settings, 4, false, kAnswer);
    preempted += scores.stats.num_preemptions;
    for (std::size_t i = 0; i < scores.prompts.size(); ++i)
      expect_likelihoods(scores.prompts[i], from.golden(i), cases[i % cases.size()].tokens);
  }
  EXPECT_GT(preempted, 0u);
}

TEST(LikelihoodsEngine, RefusesMoreThanItListsAndScoresAPromptOfOneToken) {
  GoldenRequests from("llama3/plain", {"text"});
  EngineSettings settings = settings_of(64);
  settings.max_logprobs = 3;
  const SteadyClock clock;
  auto engine = Engine::create(settings, from.network(), from.device(), clock);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto ignore = [](RequestId, Delta&&, const RequestUsage&, const RequestTimes&) {};
  Request request = from.request(0);
  request.sampling.prompt_logprobs = 4;
  const auto refused = (*engine)->submit(request, ignore);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "prompt_logprobs is 4, the engine is set up for 3");
  Prompt one = *request.prompt;
  one.ids.resize(1);
  for (auto& axis : one.positions) axis.resize(1);
  request.prompt = std::move(one);
  request.sampling.prompt_logprobs = 3;
  request.sampling.max_tokens = 1;
  bool ended = false;
  const auto id = (*engine)->submit(
      request, [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
        EXPECT_TRUE(delta.prompt_logprobs.empty());
        EXPECT_EQ(delta.finish, FinishReason::kLength);
        ended = true;
      });
  ASSERT_TRUE(id);
  while ((*engine)->step()) {
  }
  EXPECT_TRUE(ended);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Likelihoods,
                         ::testing::Values("llama3/plain", "qwen2/odd_heads", "qwen2_vl/odd_heads"),
                         [](const auto& of) {
                           std::string name = of.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace saccade
