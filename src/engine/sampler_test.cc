#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/rng.h"

namespace saccade {
namespace {

RowStats stats_of(std::span<const float> logits) {
  RowStats stats;
  double sum = 0;
  stats.max = logits[0];
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
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
  SamplingParams params;
  std::vector<TokenId> banned;
  std::uint64_t seed = 1;

  Sampler::Choice operator()() {
    Sampler sampler(static_cast<std::int64_t>(logits.size()));
    std::vector<float> row = logits;
    return sampler.sample(row, stats_of(logits), params, {prompt, output}, banned, seed);
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

TEST(Sampler, GreedyIsTheArgmaxAndBannedTokensAreNot) {
  Fixture f{{0.1f, 3.0f, 2.0f}, {}, {}, {}, {}};
  f.params.temperature = 0;
  EXPECT_EQ(f().token, 1);
  f.banned = {1};
  EXPECT_EQ(f().token, 2);
  f.params.logit_bias = {{0, 50.0f}};
  EXPECT_EQ(f().token, 0);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  Fixture f{{std::log(0.1f), std::log(0.2f), std::log(0.7f)}, {}, {}, {}, {}};
  const auto shares = f.shares();
  EXPECT_NEAR(shares.at(0), 0.1, 0.01);
  EXPECT_NEAR(shares.at(1), 0.2, 0.01);
  EXPECT_NEAR(shares.at(2), 0.7, 0.015);
}

TEST(Sampler, TemperatureSharpens) {
  Fixture f{{std::log(0.2f), std::log(0.8f)}, {}, {}, {}, {}};
  f.params.temperature = 0.5;  // squares the odds
  EXPECT_NEAR(f.shares().at(1), 16.0 / 17.0, 0.01);
}

TEST(Sampler, TopKTopPAndMinPCutTheTail) {
  Fixture f{{std::log(0.05f), std::log(0.15f), std::log(0.3f), std::log(0.5f)}, {}, {}, {}, {}};
  f.params.top_k = 2;
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f.params.top_k = 0;
  f.params.top_p = 0.79;  // 0.5 + 0.3 reaches it
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f.params.top_p = 0.81;
  EXPECT_EQ(f.shares(2000).size(), 3u);
  f.params.top_p = 1e-6;
  EXPECT_EQ(f.shares(200).size(), 1u);
  f.params.top_p = 1;
  f.params.min_p = 0.25;  // of 0.5: 0.125
  EXPECT_EQ(f.shares(2000).size(), 3u);
}

TEST(Sampler, TiesAtTheKthPlaceStay) {
  Fixture f{{1.0f, 1.0f, 1.0f, 0.0f}, {}, {}, {}, {}};
  f.params.top_k = 1;
  EXPECT_EQ(f.shares(2000).size(), 3u);
}

TEST(Sampler, PenaltiesAsInVllm) {
  Fixture f{{2.0f, 1.9f, -1.0f}, {0}, {}, {}, {}};
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

TEST(Sampler, LogprobsAreOfTheRawLogits) {
  Fixture f{{1.0f, 2.0f, 3.0f}, {}, {}, {}, {}};
  f.params.temperature = 0;
  f.params.logprobs = 2;
  f.params.logit_bias = {{0, 100.0f}};
  const auto choice = f();
  const float lse = stats_of(f.logits).log_sum_exp;
  EXPECT_EQ(choice.token, 0);
  EXPECT_FLOAT_EQ(choice.logprob.logprob, 1.0f - lse);
  ASSERT_EQ(choice.logprob.top.size(), 2u);
  EXPECT_EQ(choice.logprob.top[0].first, 2);
  EXPECT_FLOAT_EQ(choice.logprob.top[0].second, 3.0f - lse);
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

}  // namespace
}  // namespace saccade
