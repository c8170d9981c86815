// Beam search over tables of probabilities: vLLM's rule, against all answers that there are.
#include "engine/step/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace saccade {
namespace {

using Likeliest = BeamSearch::Likeliest;

constexpr TokenId kEnd = 0;

// A model of `vocab` tokens whose next one depends on all before it.
Likeliest next_of(const std::vector<TokenId>& tokens, std::size_t count, int vocab,
                  std::uint64_t model) {
  std::uint64_t seed = model;
  for (const TokenId token : tokens) seed = seed * 31 + static_cast<std::uint64_t>(token) + 1;
  Rng rng(seed);
  const double sharpness = model % 2 == 0 ? 3 : 15;  // near certain: long answers can be the best
  std::vector<double> weights;
  double sum = 0;
  for (int i = 0; i < vocab; ++i) sum += weights.emplace_back(std::exp(sharpness * rng.uniform()));
  Likeliest all;
  for (int i = 0; i < vocab; ++i)
    all.emplace_back(i, static_cast<float>(std::log(weights[static_cast<std::size_t>(i)] / sum)));
  std::ranges::stable_sort(all, std::greater<>(), [](const auto& at) { return at.second; });
  all.resize(std::min(count, all.size()));
  return all;
}

BeamSettings beam_settings(std::size_t width, std::int64_t length, double penalty) {
  BeamSettings settings;
  settings.width = width;
  settings.max_tokens = length;
  settings.length_penalty = penalty;
  return settings;
}

struct Searched {
  std::vector<Beam> best;
  std::int64_t steps = 0;
};

Searched search_all(const BeamSettings& settings, int vocab, std::uint64_t model = 17) {
  BeamSearch search(settings);
  Searched run;
  while (!search.live().empty()) {
    std::vector<Likeliest> lists;
    for (const Beam& beam : search.live())
      lists.push_back(next_of(beam.tokens, search.wanted(), vocab, model));
    search.advance(lists);
    ++run.steps;
  }
  run.best = search.best();
  return run;
}

double score_of(const Beam& beam, const BeamSettings& settings) {
  return beam.logprob / std::pow(static_cast<double>(settings.prompt_tokens) +
                                     static_cast<double>(beam.tokens.size()),
                                 settings.length_penalty);
}

// Every step to the last one, nothing left out early, all complete ones kept: the rule as it is
// written.
std::vector<Beam> by_the_rule(const BeamSettings& settings, int vocab, std::uint64_t model) {
  std::vector<Beam> live(1);
  std::vector<Beam> complete;
  for (std::int64_t step = 0; step < settings.max_tokens; ++step) {
    std::vector<Beam> candidates;
    for (const Beam& beam : live) {
      for (const auto& [token, logprob] : next_of(beam.tokens, 2 * settings.width, vocab, model)) {
        Beam grown = beam;
        grown.logprob += static_cast<double>(logprob);
        const bool ends = std::ranges::count(settings.ends, token) > 0;
        if (!ends) grown.tokens.push_back(token);
        (ends ? complete : candidates).push_back(grown);
      }
    }
    std::ranges::stable_sort(candidates, std::greater<>(), &Beam::logprob);
    candidates.resize(std::min(settings.width, candidates.size()));
    live = candidates;
  }
  complete.insert(complete.end(), live.begin(), live.end());
  std::ranges::stable_sort(complete, std::greater<>(),
                           [&](const Beam& beam) { return score_of(beam, settings); });
  complete.resize(std::min(settings.width, complete.size()));
  return complete;
}

TEST(BeamSearch, FollowsTheRuleAndEndsNoLaterThanItMust) {
  std::int64_t saved = 0;
  for (const std::size_t width : {1, 2, 3, 5}) {
    for (const std::int64_t length : {1, 2, 6, 20}) {
      for (const double penalty : {-1.0, 0.0, 0.6, 1.0, 2.0}) {
        for (const std::int64_t prompt : {1, 7, 90}) {
          for (std::uint64_t model = 0; model < 4; ++model) {
            const bool ends = model % 4 != 0;
            SCOPED_TRACE(testing::Message()
                         << width << " beams, " << length << " tokens, penalty " << penalty
                         << ", prompt " << prompt << ", model " << model);
            BeamSettings settings = beam_settings(width, length, penalty);
            settings.prompt_tokens = prompt;
            if (ends) settings.ends = {kEnd, 3};
            const Searched got = search_all(settings, 9, model);
            const std::vector<Beam> expected = by_the_rule(settings, 9, model);
            saved += length - got.steps;
            ASSERT_EQ(got.best.size(), expected.size());
            for (std::size_t i = 0; i < expected.size(); ++i) {
              EXPECT_EQ(got.best[i].tokens, expected[i].tokens) << i;
              EXPECT_DOUBLE_EQ(got.best[i].logprob, expected[i].logprob) << i;
              const bool full = static_cast<std::int64_t>(got.best[i].tokens.size()) == length;
              EXPECT_EQ(got.best[i].finish, full ? FinishReason::kLength : FinishReason::kStop);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(saved, 0);
}

// As wide as there are answers, it finds the likeliest of all.
TEST(BeamSearch, WideEnoughItFindsTheLikeliest) {
  const int vocab = 5;
  const BeamSettings settings = beam_settings(125, 3, 0);
  const Searched got = search_all(settings, vocab);
  double best = -1e9;
  for (TokenId a = 0; a < vocab; ++a) {
    for (TokenId b = 0; b < vocab; ++b) {
      for (TokenId c = 0; c < vocab; ++c) {
        std::vector<TokenId> tokens;
        double sum = 0;
        for (const TokenId token : {a, b, c}) {
          for (const auto& [id, logprob] : next_of(tokens, 5, vocab, 17))
            if (id == token) sum += static_cast<double>(logprob);
          tokens.push_back(token);
        }
        best = std::max(best, sum);
      }
    }
  }
  ASSERT_EQ(got.best.size(), 125u);
  EXPECT_DOUBLE_EQ(got.best.front().logprob, best);
}

TEST(BeamSearch, TokensBringTheirLogprobsAndMayKeepTheirEnd) {
  BeamSettings settings = beam_settings(2, 12, 0);  // no premium on length: short answers win
  settings.ends = {kEnd, 1, 2};
  settings.keep_end = true;
  settings.listed = 3;
  const Searched got = search_all(settings, 6);
  bool ended = false;
  for (const Beam& beam : got.best) {
    ASSERT_EQ(beam.logprobs.size(), beam.tokens.size());
    double sum = 0;
    for (std::size_t i = 0; i < beam.tokens.size(); ++i) {
      EXPECT_EQ(beam.logprobs[i].token, beam.tokens[i]);
      EXPECT_EQ(beam.logprobs[i].top.size(), 3u);
      sum += static_cast<double>(beam.logprobs[i].logprob);
    }
    EXPECT_NEAR(sum, beam.logprob, 1e-9);
    EXPECT_EQ(beam.finish == FinishReason::kStop, beam.tokens.back() <= 2);
    ended = ended || beam.finish == FinishReason::kStop;
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace saccade
