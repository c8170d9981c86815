#include "engine/step/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>

#include "base/rng.h"
#include "engine/step/sampling_lane.h"

namespace saccade {
namespace {

// One row of logits through SamplerState and the device's sample(), on the CPU and on its slow
// twin.
class SamplerTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Device> device_ = GetParam() == std::string("reference")
                                        ? make_reference_device()
                                        : std::move(make_cpu_device(2, GetParam()).value());
};

float log_sum_exp(std::span<const float> logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return static_cast<float>(std::log(sum));
}

struct Fixture {
  Device* device = nullptr;
  std::vector<float> logits;
  SamplingParams params = {};
  std::vector<TokenId> prompt = {};
  std::vector<TokenId> output = {};  // what has been generated before
  std::vector<TokenId> end_tokens = {};
  std::uint64_t seed = 1;

  Sampled operator()() const { return run({seed}).front(); }
  // Share of each token over many seeds.
  std::map<TokenId, double> shares(int draws = 20000) {
    std::vector<std::uint64_t> seeds(static_cast<std::size_t>(draws));
    std::iota(seeds.begin(), seeds.end(), 0);
    std::map<TokenId, double> counts;
    for (const Sampled& sampled : run(seeds)) counts[sampled.token] += 1.0 / draws;
    return counts;
  }

 private:
  std::vector<Sampled> run(const std::vector<std::uint64_t>& seeds) const {
    Stream& stream = device->lane(Lane::kStep);
    auto lane =
        SamplingLane::create(*device, static_cast<std::int64_t>(seeds.size()), 8, 1).value();
    const auto vocab = static_cast<std::int64_t>(logits.size());
    auto held = device->allocate(logits.size() * sizeof(float)).value();
    const View row = held.view(DType::kF32, 1, vocab);
    stream.upload(View(const_cast<float*>(logits.data()), DType::kF32, 1, vocab), row);
    std::vector<std::unique_ptr<SamplerState>> states;
    std::vector<SamplingRow> rows(seeds.size());
    for (const std::uint64_t of : seeds) {
      states.push_back(std::make_unique<SamplerState>(params, prompt, end_tokens, of, *device));
    }
    // What came before is generated again: nothing else is allowed.
    std::vector<TokenId> generated;
    for (const TokenId token : output) {
      std::vector<std::uint32_t> only(logits.size() / 32 + 1);
      only[static_cast<std::size_t>(token) / 32] |= 1u << token % 32;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i] = states[i]->row(static_cast<std::int64_t>(generated.size()), generated);
        rows[i].masked = {};
        rows[i].allowed = only;
      }
      for (const Sampled& sampled : lane.read(lane.launch(stream, row, rows))) {
        EXPECT_EQ(sampled.token, token);
      }
      generated.push_back(token);
    }
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] = states[i]->row(static_cast<std::int64_t>(generated.size()), generated);
    return lane.read(lane.launch(stream, row, rows));
  }
};

TEST_P(SamplerTest, GreedyTakesTheLargest) {
  Fixture f{device_.get(), {0.1f, 3.0f, 2.0f, 3.0f}};
  f.params.temperature = 0;
  EXPECT_EQ(f().token, 1);
  // Ids outside the vocabulary have no logit.
  f.params.logit_bias = std::vector<TokenBias>{{2, 50.0f}, {99, 1.0f}};
  EXPECT_EQ(f().token, 2);
}

TEST_P(SamplerTest, PenaltiesAndTemperaturesOfAnySizeLeaveAToken) {
  for (const double penalty : {1e-320, 1e-38, 1e-30, 1e38, 1e300}) {
    for (const double temperature : {0.0, 1e-4, 1.0, 1e300}) {
      Fixture f{device_.get(), {3.0f, -2.0f, 0.0f, 1.0f, 2.0f}};
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

TEST_P(SamplerTest, EndTokensAreMaskedUntilMinTokens) {
  Fixture f{device_.get(), {0.1f, 3.0f, 2.0f}};
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

TEST_P(SamplerTest, DrawsFollowTheDistribution) {
  Fixture f{device_.get(), {std::log(0.1f), std::log(0.2f), std::log(0.7f)}};
  const auto shares = f.shares();
  EXPECT_NEAR(shares.at(0), 0.1, 0.01);
  EXPECT_NEAR(shares.at(1), 0.2, 0.01);
  EXPECT_NEAR(shares.at(2), 0.7, 0.015);
}

TEST_P(SamplerTest, TemperatureSharpens) {
  Fixture f{device_.get(), {std::log(0.2f), std::log(0.8f)}};
  f.params.temperature = 0.5;  // squares the odds
  EXPECT_NEAR(f.shares().at(1), 16.0 / 17.0, 0.01);
  f.params.temperature = 0.001;  // raised to 0.01, and still nearly certain
  EXPECT_EQ(f.shares(1000).size(), 1u);
}

TEST_P(SamplerTest, TopKTopPAndMinPCutTheTail) {
  Fixture f{device_.get(), {std::log(0.05f), std::log(0.15f), std::log(0.3f), std::log(0.5f)}};
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
TEST_P(SamplerTest, CutsAtTheBoundary) {
  Fixture f{device_.get(), {0.0f, 0.0f, 0.0f, 0.0f}};
  f.params.top_p = 0.5;
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f = Fixture{device_.get(),
              {0.0f, static_cast<float>(std::log(0.25)), static_cast<float>(std::log(0.24))}};
  f.params.min_p = 0.25;
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f.params.top_p = 0.999999;
  EXPECT_EQ(f.shares(2000).size(), 2u);
  f.params.top_p = 1;
  f.params.top_k = 3;  // of three: no cut by rank
  EXPECT_EQ(f.shares(2000).size(), 2u);
}

TEST_P(SamplerTest, TiesAtTheKthPlaceStay) {
  Fixture f{device_.get(), {1.0f, 1.0f, 1.0f, 0.0f}};
  f.params.top_k = 1;
  EXPECT_EQ(f.shares(2000).size(), 3u);
}

// Against full sorts, over vocabularies large enough for the shortcuts.
TEST_P(SamplerTest, CutsAgreeWithSorting) {
  Rng rng(9);
  for (int round = 0; round < 60; ++round) {
    Fixture f{device_.get(), {}};
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

TEST_P(SamplerTest, AMaskedTokenIsNeverDrawn) {
  Fixture f{device_.get(), {0.0f, 0.0f, 0.0f}};
  f.params.min_tokens = 1;
  f.end_tokens = {0, 2};
  EXPECT_EQ(f.shares(2000).size(), 1u);
  f.params.top_k = 2;
  EXPECT_EQ(f.shares(2000).size(), 1u);
  f.end_tokens = {0, 1, 2};
  EXPECT_TRUE(f().failed);
}

TEST_P(SamplerTest, PenaltiesAsInVllm) {
  Fixture f{device_.get(), {2.0f, 1.9f, -1.0f}};
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

TEST_P(SamplerTest, PenaltiesCountOnce) {
  Fixture f{device_.get(), {2.0f, 1.5f}};
  f.params.temperature = 0;
  f.params.repetition_penalty = 1.2;  // 1.67; twice it would be 1.39
  f.prompt = {0};
  f.output = {0, 0};
  EXPECT_EQ(f().token, 0);
  f.params.repetition_penalty = 1;
  f.params.presence_penalty = 0.3;  // 1.7, however often
  EXPECT_EQ(f().token, 0);
  // A negative logit is multiplied: it must not rise.
  f = Fixture{device_.get(), {-1.0f, -1.5f}};
  f.params.temperature = 0;
  f.params.repetition_penalty = 2;
  f.prompt = {0};
  EXPECT_EQ(f().token, 1);
}

TEST_P(SamplerTest, BiasComesBeforePenalties) {
  Fixture f{device_.get(), {-1.0f, 0.6f}};
  f.params.temperature = 0;
  f.prompt = {0};
  f.params.logit_bias = std::vector<TokenBias>{{0, 2.0f}};
  f.params.repetition_penalty = 2;  // (-1 + 2) / 2, not -1 * 2 + 2
  EXPECT_EQ(f().token, 1);
  f.logits[1] = 0.4f;
  EXPECT_EQ(f().token, 0);
}

TEST_P(SamplerTest, LogprobsAreOfTheRawLogits) {
  Fixture f{device_.get(), {1.0f, 2.0f, 3.0f}};
  f.params.temperature = 0;
  f.params.logprobs = 2;
  f.params.logit_bias = std::vector<TokenBias>{{0, 100.0f}};
  const Sampled sampled = f();
  const float lse = log_sum_exp(f.logits);
  EXPECT_EQ(sampled.token, 0);
  EXPECT_EQ(sampled.logprob.token, 0);
  EXPECT_NEAR(sampled.logprob.logprob, 1.0f - lse, 1e-6f);
  ASSERT_EQ(sampled.logprob.top.size(), 2u);
  EXPECT_EQ(sampled.logprob.top[0].first, 2);
  EXPECT_NEAR(sampled.logprob.top[0].second, 3.0f - lse, 1e-6f);
  f.params.logprobs = 0;
  EXPECT_TRUE(f().logprob.top.empty());
}

TEST_P(SamplerTest, SameSeedAndIndexSameToken) {
  Rng rng(5);
  Fixture f{device_.get(), {}};
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

TEST_P(SamplerTest, LogitsThatAreNoNumbersFail) {
  Fixture f{device_.get(), {0.0f, NAN}};
  EXPECT_TRUE(f().failed);
}

TEST_P(SamplerTest, OnlyWhatIsAllowedComes) {
  Rng rng(8);
  Fixture f{device_.get(), {}};
  for (int i = 0; i < 100; ++i) f.logits.push_back(static_cast<float>(rng.uniform() * 4));
  f.output = {99, 64, 3};  // each was the only token allowed
  f.params.temperature = 0;
  f.params.presence_penalty = 0.5;
  EXPECT_GE(f().token, 0);
}

TEST_P(SamplerTest, OnlyAllowedTokensCome) {
  Fixture f{device_.get(), {}};
  for (int i = 0; i < 70; ++i) f.logits.push_back(static_cast<float>(i));
  f.params.temperature = 0;
  f.params.allowed_tokens = std::vector<std::uint32_t>{1u << 5, 1u << 2 | 1u << 7};
  EXPECT_EQ(f().token, 39);
  // Less bits than tokens: what has none may not come.
  f.params.allowed_tokens = std::vector<std::uint32_t>{1u << 5};
  EXPECT_EQ(f().token, 5);
  f.params.bad_words = std::vector<std::vector<TokenId>>{{5}};
  EXPECT_TRUE(f().failed);
}

TEST_P(SamplerTest, BadWordsAreNotCompleted) {
  Fixture f{device_.get(), {0.0f, 1.0f, 2.0f, 3.0f}};
  f.params.temperature = 0;
  f.params.bad_words = std::vector<std::vector<TokenId>>{{3}, {1, 2, 2}, {0, 1}};
  EXPECT_TRUE(f.params.looks_back());
  EXPECT_EQ(f().token, 2);
  f.output = {1, 2};
  EXPECT_EQ(f().token, 1);
  f.output = {2, 2};  // begun otherwise
  EXPECT_EQ(f().token, 2);
  f.output = {0};
  EXPECT_EQ(f().token, 2);
  f.params.logit_bias = std::vector<TokenBias>{{1, 50.0f}};
  EXPECT_EQ(f().token, 2);  // masked whatever is added
  f.output = {};
  EXPECT_EQ(f().token, 1);
  f.params.bad_words = std::vector<std::vector<TokenId>>{{1}};
  EXPECT_FALSE(f.params.looks_back());
  EXPECT_EQ(f().token, 3);
}

// The grammar's tokens are those of the request, and bad words stay bad under it.
TEST_P(SamplerTest, AGrammarAllowsWhatTheRequestAllows) {
  SamplingParams params;
  params.allowed_tokens = std::vector<std::uint32_t>{0b0111};
  params.bad_words = std::vector<std::vector<TokenId>>{{1}};
  params.min_tokens = 1;
  SamplerState state(params, {}, {2}, 1, *device_);
  const std::vector<std::uint32_t> grammar = {0b1110, 0b1};
  SamplingRow row = state.row(0, {});
  state.hold(row, grammar);
  ASSERT_EQ(row.allowed.size(), 1u);
  EXPECT_EQ(row.allowed[0], 0b0110u);
  // 1 is bad and 2 ends too early: the end comes, the bad word does not.
  EXPECT_TRUE(row.masked[0].empty());
  EXPECT_EQ(row.masked[1].size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Devices, SamplerTest, ::testing::Values("portable", "reference"),
                         [](const auto& device) { return std::string(device.param); });

}  // namespace
}  // namespace saccade
