#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/rng.h"

namespace saccade {
namespace {

RowStats stats_of(std::span<const float> logits) {
  RowStats stats;
  stats.max = logits[0];
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum += std::exp(static_cast<double>(logits[i]));
    if (logits[i] > stats.max) {
      stats.max = logits[i];
      stats.argmax = static_cast<std::int32_t>(i);
    }
  }
  stats.log_sum_exp = static_cast<float>(std::log(sum));
  return stats;
}

struct Fixture {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
  std::vector<TokenId> end_tokens;
  std::uint64_t seed = 1;

  Sampled operator()() const {
    SamplerState state(params, prompt, end_tokens, seed);
    for (const TokenId token : output) state.append(token);
    return Sampler(static_cast<std::int64_t>(logits.size())).pick(logits, stats_of(logits), state);
  }
  // Share of each token over many seeds.
  std::map<TokenId, double> shares(int draws = 20000) {
    std::map<TokenId, double> counts;
    for (int i = 0; i < draws; ++i) {
      seed = static_cast<std::uint64_t>(i);
      counts[(*this)().token] += 1.0 / draws;
    }
    return counts;
  }
};

Fixture with_logits(std::vector<float> logits) {
  Fixture fixture;
  fixture.logits = std::move(logits);
  return fixture;
}

TEST(Sampler, GreedyTakesTheLargest) {
  Fixture f = with_logits({0.1f, 3.0f, 2.0f, 3.0f});
  f.params.temperature = 0;
  EXPECT_EQ(f().token, 1);
  f.params.logit_bias =
      std::vector<TokenBias>{{2, 50.0f}, {99, 1.0f}};  // ids outside the vocabulary have no logit
  EXPECT_EQ(f().token, 2);
}

TEST(Sampler, PenaltiesAndTemperaturesOfAnySizeLeaveAToken) {
  for (const double penalty : {1e-320, 1e-38, 1e-30, 1e38, 1e300}) {
    for (const double temperature : {0.0, 1e-4, 1.0, 1e300}) {
      Fixture f = with_logits({3.0f, -2.0f, 0.0f, 1.0f, 2.0f});
      f.params.temperature = temperature;
      f.params.repetition_penalty = penalty;
      f.params.min_tokens = 100;
      f.end_tokens = {4};
      f.prompt = {0, 1, 2, 4};
      f.output = {0, 3};
      for (int seed = 0; seed < 20; ++seed) {
        f.seed = static_cast<std::uint64_t>(seed);
        const Sampled sampled = f();
        EXPECT_FALSE(sampled.failed) << penalty << " " << temperature;
        EXPECT_NE(sampled.token, 4) << penalty << " " << temperature;  // masked stays masked
      }
    }
  }
}

TEST(Sampler, EndTokensAreMaskedUntilMinTokens) {
  Fixture f = with_logits({0.1f, 3.0f, 2.0f});
  f.params.temperature = 0;
  f.params.min_tokens = 2;
  f.end_tokens = {1};
  EXPECT_EQ(f().token, 2);
  f.output = {0, 0};
  EXPECT_EQ(f().token, 1);
  f.params.logit_bias = std::vector<TokenBias>{{0, 0.0f}};  // no longer the plain case
  EXPECT_EQ(f().token, 1);
  f.output = {0};
  EXPECT_EQ(f().token, 2);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  Fixture f = with_logits({std::log(0.1f), std::log(0.2f), std::log(0.7f)});
  const auto shares = f.shares();
  EXPECT_NEAR(shares.at(0), 0.1, 0.01);
  EXPECT_NEAR(shares.at(1), 0.2, 0.01);
  EXPECT_NEAR(shares.at(2), 0.7, 0.015);
}

TEST(Sampler, TemperatureSharpens) {
  Fixture f = with_logits({std::log(0.2f), std::log(0.8f)});
  f.params.temperature = 0.5;  // squares the odds
  EXPECT_NEAR(f.shares().at(1), 16.0 / 17.0, 0.01);
  f.params.temperature = 0.001;  // raised to 0.01, and still nearly certain
  EXPECT_EQ(f.shares(1000).size(), 1u);
}

TEST(Sampler, TopKTopPAndMinPCutTheTail) {
  Fixture f = with_logits({std::log(0.05f), std::log(0.15f), std::log(0.3f), std::log(0.5f)});
  f.params.top_k = 2;
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f.params.top_k = -1;
  f.params.top_p = 0.79;  // 0.5 + 0.3 reaches it
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f.params.top_p = 0.81;
  EXPECT_EQ(f.shares(2000).size(), 3u);
  f.params.top_p = 1e-6;
  EXPECT_EQ(f.shares(200).size(), 1u);
  f.params.top_p = 1;
  f.params.min_p = 0.25;  // of 0.5: 0.125
  EXPECT_EQ(f.shares(2000).size(), 3u);
  // min_p comes before top_p, which is then of what is left: 0.5 of 0.95 is 0.53.
  f.params.top_p = 0.52;
  EXPECT_EQ(f.shares(2000).size(), 1u);
  f.params.min_p = 0;
  EXPECT_EQ(f.shares(2000).size(), 2u);
}

// What reaches top_p exactly is enough, what is min_p exactly stays.
TEST(Sampler, CutsAtTheBoundary) {
  Fixture f = with_logits({0.0f, 0.0f, 0.0f, 0.0f});
  f.params.top_p = 0.5;
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f = with_logits({0.0f, static_cast<float>(std::log(0.25)), static_cast<float>(std::log(0.24))});
  f.params.min_p = 0.25;
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f.params.top_p = 0.999999;
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f.params.top_p = 1;
  f.params.top_k = 3;  // of three: no cut by rank
  EXPECT_EQ(f.shares(2000).size(), 2u);
}

TEST(Sampler, TiesAtTheKthPlaceStay) {
  Fixture f = with_logits({1.0f, 1.0f, 1.0f, 0.0f});
  f.params.top_k = 1;
  EXPECT_EQ(f.shares(2000).size(), 3u);
}

// Against full sorts, over vocabularies large enough for the shortcuts.
TEST(Sampler, CutsAgreeWithSorting) {
  Rng rng(9);
  for (int round = 0; round < 60; ++round) {
    Fixture f;
    const bool ties = round % 3 == 0;
    for (int i = 0; i < 3000; ++i) {
      const double value = rng.uniform() * 8;
      f.logits.push_back(static_cast<float>(ties ? std::floor(value) : value));
    }
    f.params.top_k = round % 2 == 0 ? static_cast<std::int64_t>(1 + rng.below(700)) : 0;
    f.params.top_p = rng.below(2) == 0 ? 1.0 : 0.05 + 0.9 * rng.uniform();
    f.params.min_p = rng.below(2) == 0 ? 0.0 : 0.2 * rng.uniform();
    std::vector<float> sorted = f.logits;
    std::sort(sorted.rbegin(), sorted.rend());
    const double top = sorted.front();
    std::erase_if(sorted, [&](float x) {
      return f.params.min_p > 0 && std::exp(x - top) < f.params.min_p * (1 - 1e-6);
    });
    if (f.params.top_k > 0 && f.params.top_k < static_cast<std::int64_t>(sorted.size())) {
      const float least = sorted[static_cast<std::size_t>(f.params.top_k - 1)];
      std::erase_if(sorted, [&](float x) { return x < least; });
    }
    double total = 0;
    for (const float x : sorted) total += std::exp(x - top);
    double sum = 0;
    std::size_t kept = 0;
    while (kept < sorted.size() && (kept == 0 || sum < f.params.top_p * total * (1 + 1e-6))) {
      sum += std::exp(sorted[kept++] - top);
    }
    const float least = sorted[kept - 1];
    for (const auto& [token, share] : f.shares(200)) {
      ASSERT_GE(f.logits[static_cast<std::size_t>(token)], least) << "round " << round;
    }
  }
}

TEST(Sampler, AMaskedTokenIsNeverDrawn) {
  Fixture f = with_logits({0.0f, 0.0f, 0.0f});
  f.params.min_tokens = 1;
  f.end_tokens = {0, 2};
  EXPECT_EQ(f.shares(2000).size(), 1u);
  f.params.top_k = 2;
  EXPECT_EQ(f.shares(2000).size(), 1u);
  f.end_tokens = {0, 1, 2};
  EXPECT_TRUE(f().failed);
}

TEST(Sampler, PenaltiesAsInVllm) {
  Fixture f = with_logits({2.0f, 1.9f, -1.0f});
  f.prompt = {0, 0};
  f.params.temperature = 0;
  f.params.repetition_penalty = 1.2;  // 2.0 / 1.2 = 1.67
  EXPECT_EQ(f().token, 1);
  f.params.repetition_penalty = 1;
  f.params.presence_penalty = 0.5;  // counts output alone
  EXPECT_EQ(f().token, 0);
  f.output = {0};
  EXPECT_EQ(f().token, 1);
  f.params.presence_penalty = 0;
  f.params.frequency_penalty = 0.06;
  EXPECT_EQ(f().token, 0);
  f.output = {0, 0};
  EXPECT_EQ(f().token, 1);
}

TEST(Sampler, PenaltiesCountOnce) {
  Fixture f = with_logits({2.0f, 1.5f});
  f.params.temperature = 0;
  f.params.repetition_penalty = 1.2;  // 1.67; twice it would be 1.39
  f.prompt = {0};
  f.output = {0, 0};
  EXPECT_EQ(f().token, 0);
  f.params.repetition_penalty = 1;
  f.params.presence_penalty = 0.3;  // 1.7, however often
  EXPECT_EQ(f().token, 0);
  // A negative logit is multiplied: it must not rise.
  f = with_logits({-1.0f, -1.5f});
  f.params.temperature = 0;
  f.params.repetition_penalty = 2;
  f.prompt = {0};
  EXPECT_EQ(f().token, 1);
}

TEST(Sampler, BiasComesBeforePenalties) {
  Fixture f = with_logits({-1.0f, 0.6f});
  f.params.temperature = 0;
  f.prompt = {0};
  f.params.logit_bias = std::vector<TokenBias>{{0, 2.0f}};
  f.params.repetition_penalty = 2;  // (-1 + 2) / 2, not -1 * 2 + 2
  EXPECT_EQ(f().token, 1);
  f.logits[1] = 0.4f;
  EXPECT_EQ(f().token, 0);
}

TEST(Sampler, LogprobsAreOfTheRawLogits) {
  Fixture f = with_logits({1.0f, 2.0f, 3.0f});
  f.params.temperature = 0;
  f.params.logprobs = 2;
  f.params.logit_bias = std::vector<TokenBias>{{0, 100.0f}};
  const Sampled sampled = f();
  const float lse = stats_of(f.logits).log_sum_exp;
  EXPECT_EQ(sampled.token, 0);
  EXPECT_EQ(sampled.logprob.token, 0);
  EXPECT_FLOAT_EQ(sampled.logprob.logprob, 1.0f - lse);
  ASSERT_EQ(sampled.logprob.top.size(), 2u);
  EXPECT_EQ(sampled.logprob.top[0].first, 2);
  EXPECT_FLOAT_EQ(sampled.logprob.top[0].second, 3.0f - lse);
  f.params.logprobs = 0;
  EXPECT_TRUE(f().logprob.top.empty());
}

TEST(Sampler, SameSeedAndIndexSameToken) {
  Rng rng(5);
  Fixture f;
  for (int i = 0; i < 1000; ++i) f.logits.push_back(static_cast<float>(rng.uniform() * 4));
  f.params.top_p = 0.9;
  f.params.top_k = 300;
  f.output = {7, 8};
  f.seed = 11;
  const TokenId token = f().token;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(f().token, token);
  std::map<TokenId, int> seen;
  for (int i = 0; i < 30; ++i) {
    f.output.push_back(1);
    ++seen[f().token];
  }
  EXPECT_GT(seen.size(), 10u);
}

TEST(Sampler, LogitsThatAreNoNumbersFail) {
  Fixture f = with_logits({0.0f, NAN});
  SamplerState state(f.params, {}, {}, 1);
  EXPECT_TRUE(Sampler(2).pick(f.logits, {0, NAN, NAN}, state).failed);
}

}  // namespace
}  // namespace saccade
