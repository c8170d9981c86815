#include "engine/drafting/draft_choice.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace saccade {
namespace {

using Tokens = std::vector<TokenId>;
using Counts = std::vector<std::int64_t>;
using Candidates = std::vector<DraftChoice::Candidate>;

Counts choose(const Candidates& of, const DraftPrices& prices, std::int64_t max_rows = 64) {
  DraftChoice choice(8, max_rows);
  return choice.choose(of, prices);
}

TEST(DraftChoice, GuessesAsFarAsATokenIsWorthItsPrice) {
  // 0.7, 0.49 and 0.343 less a row's 0.05 are above the draft's step, 0.24 - 0.05 is not.
  EXPECT_EQ(choose({{0.7, 8}}, {.row = 0.05, .step = 0.2, .sequence = 0}), Counts{3});
  EXPECT_EQ(choose({{0.7, 8}}, {.row = 0.05, .step = 0.3, .sequence = 0}), Counts{2});
  EXPECT_EQ(choose({{0.7, 8}}, {.row = 0.05, .step = 0.65, .sequence = 0}), Counts{0});
  EXPECT_EQ(choose({{0.7, 8}}, {}), Counts{8});  // nobody knows what it costs
  EXPECT_EQ(choose({{0.7, 2}}, {}), Counts{2});
  EXPECT_EQ(choose({{0.7, -3}}, {}), Counts{0});
  EXPECT_EQ(choose({}, {}), Counts{});
}

// One step of the draft serves all: what is too dear for one is not for four.
TEST(DraftChoice, SequencesShareTheDraftsStep) {
  const DraftPrices prices = {.row = 0.1, .step = 0.6, .sequence = 0.02};
  EXPECT_EQ(choose({{0.6, 8}}, prices), Counts{0});
  EXPECT_EQ(choose(Candidates(4, {0.6, 8}), prices), (Counts{2, 2, 2, 2}));
  // Those whose drafts fail have no part in it.
  EXPECT_EQ(choose({{0.6, 8}, {0.05, 8}, {0.6, 8}, {0.6, 8}, {0.6, 8}}, prices),
            (Counts{2, 0, 2, 2, 2}));
  // One whose row costs as much as a token never has.
  EXPECT_EQ(choose(Candidates(4, {0.9, 8}), {.row = 0.9, .step = 0, .sequence = 0.01}),
            (Counts{0, 0, 0, 0}));
}

TEST(DraftChoice, RowsOfAllTogetherAreBounded) {
  EXPECT_EQ(choose(Candidates(3, {0.9, 8}), {}, 7), (Counts{3, 2, 2}));
  EXPECT_EQ(choose(Candidates(3, {0.9, 8}), {}, 2), (Counts{1, 1, 0}));
}

TEST(DraftChoice, BeginsLaterThanItStops) {
  DraftChoice choice(4, 64);
  const DraftPrices prices = {.row = 0, .step = 0.4, .sequence = 0};
  const auto begins = [&](double rate) {
    return choice.choose(Candidates{{rate, 4}}, prices)[0] > 0;
  };
  EXPECT_TRUE(begins(0.45));
  EXPECT_FALSE(begins(0.39));
  EXPECT_FALSE(begins(0.45));
  EXPECT_FALSE(begins(0.59));
  EXPECT_TRUE(begins(0.61));
  EXPECT_TRUE(begins(0.45));
  // Nobody to draft for is no reason to stop.
  choice.choose(Candidates{{0.9, 0}}, prices);
  choice.choose({}, prices);
  EXPECT_TRUE(begins(0.45));
}

TEST(DraftRecord, ComparesUpToTheFirstThatIsWrong) {
  AcceptanceRate all(1.0 / 64);
  DraftRecord record(0.5, 2);
  Tokens tokens = {1, 2};
  record.came(tokens, &all);
  record.proposed(Tokens{3, 4, 5});
  tokens.insert(tokens.end(), {3, 9});
  record.came(tokens, &all);  // a hit, then a miss; the third says nothing
  const double expected = (0.5 + 0.5 / 8) * (1 - 1.0 / 8);
  EXPECT_NEAR(record.rate(), expected, 1e-12);
  EXPECT_NEAR(all.rate(), (0.5 + 0.5 / 64) * (1 - 1.0 / 64), 1e-12);
  // What was drafted once is compared once.
  tokens.push_back(5);
  record.came(tokens, &all);
  EXPECT_NEAR(record.rate(), expected, 1e-12);
}

TEST(DraftRecord, ReadsAlongForAFiftiethOfWhatComes) {
  AcceptanceRate all(1.0 / 64);
  DraftRecord record(0.1, 0);
  Tokens tokens;
  double spent = 0;
  constexpr double kPrice = 0.3;
  constexpr int kTokens = 3000;
  int readings = 0;
  for (int i = 0; i < kTokens; ++i) {
    tokens.push_back(1);
    record.came(tokens, &all);
    if (!record.reads(kPrice)) continue;
    record.has_read();
    spent += kPrice;
    ++readings;
  }
  EXPECT_LE(spent, DraftRecord::kReadingShare * kTokens + 1e-9);
  EXPECT_GE(readings, 187);  // 15 tokens are worth one, or 16 where the sum is rounded down
  // One that has begun goes on, whatever it then costs, until all has been read.
  for (int i = 0; i < 16; ++i) tokens.push_back(1);
  record.came(tokens, &all);
  EXPECT_TRUE(record.reads(kPrice));
  EXPECT_TRUE(record.reads(100));
  record.has_read();
  EXPECT_FALSE(record.reads(kPrice));
}

// A sequence alone whose draft tokens are accepted at random: what a model of time says that it
// gives, against the best fixed number of draft tokens.
double tokens_a_step(double truth, const DraftPrices& prices, std::int64_t fixed) {
  Rng rng(7);
  AcceptanceRate all(1.0 / 64);
  DraftRecord record(0.5, 0);
  DraftChoice choice(8, 64);
  Tokens tokens;
  double time = 0;  // in steps of one token
  while (tokens.size() < 20000) {
    record.came(tokens, &all);
    const std::int64_t count =
        fixed >= 0 ? fixed : choice.choose(Candidates{{record.rate(), 8}}, prices)[0];
    Tokens draft;
    if (count > 0) {
      draft.assign(static_cast<std::size_t>(count), 1);
      record.has_read();
      time += prices.step * static_cast<double>(count);
    } else if (fixed < 0 && record.reads(prices.step)) {
      time += prices.step;
      record.has_read();
      // The last few tokens say how often it would have been right.
      for (int i = 0; i < 8; ++i) record.observe(rng.uniform() < truth, &all);
    }
    record.proposed(draft);
    time += 1 + prices.row * static_cast<double>(count);
    std::int64_t came = 0;
    while (came < count && rng.uniform() < truth) ++came;
    tokens.insert(tokens.end(), static_cast<std::size_t>(came), 1);
    tokens.push_back(came < count ? 2 : 1);
  }
  return static_cast<double>(tokens.size()) / time;
}

TEST(DraftChoice, GivesNearlyWhatTheBestNumberOfGuessesWould) {
  for (const double truth : {0.05, 0.2, 0.4, 0.6, 0.8, 0.95}) {
    for (const double step : {0.05, 0.15, 0.4}) {
      const DraftPrices prices = {.row = 0.04, .step = step, .sequence = 0};
      double best = 1;
      for (std::int64_t count = 0; count <= 8; ++count)
        best = std::max(best, tokens_a_step(truth, prices, count));
      const double given = tokens_a_step(truth, prices, -1);
      EXPECT_GT(given, 0.9 * best) << "truth " << truth << ", a step costs " << step;
      EXPECT_GT(given, 0.97) << "truth " << truth << ", a step costs " << step;
    }
  }
}

}  // namespace
}  // namespace saccade
