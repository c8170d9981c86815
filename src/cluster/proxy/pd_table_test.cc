// Who gets a request, who is left out, and how many retries there are.
#include "cluster/proxy/pd_table.h"

#include <gtest/gtest.h>

#include <map>

#include "base/hash.h"
#include "base/rng.h"

namespace saccade::cluster {
namespace {

PdRequest request(std::int64_t prompt, std::uint64_t affinity = 0) {
  return {prompt, prompt, affinity};
}

TEST(PdTable, TheLeastWorkGetsTheNext) {
  PdTable table({"a", "b", "c"});
  table.given(0, request(500));
  table.given(1, request(100));
  table.given(2, request(300));
  EXPECT_EQ(table.choose(request(10)), 1u);
  table.given(1, request(1000));
  EXPECT_EQ(table.choose(request(10)), 2u);
  table.done(0, request(500));
  EXPECT_EQ(table.choose(request(10)), 0u);
}

TEST(PdTable, EqualsTakeTurns) {
  PdTable table({"a", "b", "c"});
  std::map<std::size_t, int> chosen;
  for (int i = 0; i < 30; ++i) ++chosen[*table.choose(request(10))];
  for (const auto& [pd, times] : chosen) EXPECT_EQ(times, 10) << pd;
  EXPECT_EQ(chosen.size(), 3u);
}

TEST(PdTable, RequestsThatBeginAlikeStayTogetherWhileThatPays) {
  PdTable table({"a", "b", "c"});
  const PdRequest alike = request(1000, 42);
  const std::size_t home = *table.choose(alike);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(table.choose(alike), home);
  // It may have as much more work as it saves, and not a token more.
  table.given(home, request(1000));
  EXPECT_EQ(table.choose(alike), home);
  table.given(home, request(1));
  EXPECT_NE(table.choose(alike), home);
}

TEST(PdTable, ManyConversationsAreSpread) {
  PdTable table({"a", "b", "c", "d"});
  std::map<std::size_t, int> chosen;
  for (std::uint64_t i = 1; i <= 4000; ++i) ++chosen[*table.choose(request(100, mix64(i)))];
  for (std::size_t pd = 0; pd < 4; ++pd) {
    EXPECT_GT(chosen[pd], 850) << pd;
    EXPECT_LT(chosen[pd], 1150) << pd;
  }
}

TEST(PdTable, OnlyWhatWasItsOwnMovesWhenAServerLeaves) {
  PdTable table({"a", "b", "c", "d"});
  std::map<std::uint64_t, std::size_t> before;
  for (std::uint64_t i = 1; i <= 500; ++i) before[i] = *table.choose(request(100, mix64(i)));
  table.failed(2);
  table.failed(2);
  for (const auto& [i, pd] : before) {
    const std::size_t now = *table.choose(request(100, mix64(i)));
    EXPECT_NE(now, 2u);
    if (pd != 2) {
      EXPECT_EQ(now, pd);
    }
  }
}

TEST(PdTable, TwoFailuresInARowAndItIsOut) {
  PdTable table({"a", "b"});
  table.failed(0);
  EXPECT_EQ(table.usable(), 2u);
  table.answered(0);
  table.failed(0);
  EXPECT_EQ(table.usable(), 2u);
  table.failed(0);
  EXPECT_EQ(table.at(0).state, PdState::kOut);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(table.choose(request(1)), 1u);
  table.failed(1);
  table.failed(1);
  EXPECT_FALSE(table.choose(request(1)));
}

TEST(PdTable, ThreeAnswersToProbesAndItIsInAgain) {
  PdTable table({"a", "b"});
  table.failed(0);
  table.failed(0);
  table.probed(0, true, false);
  table.probed(0, true, false);
  EXPECT_EQ(table.at(0).state, PdState::kOut);
  table.probed(0, false, false);  // and once more from the beginning
  table.probed(0, true, false);
  table.probed(0, true, false);
  EXPECT_EQ(table.at(0).state, PdState::kOut);
  table.probed(0, true, false);
  EXPECT_EQ(table.at(0).state, PdState::kUsable);
  // One lost answer later is no end.
  table.failed(0);
  EXPECT_EQ(table.at(0).state, PdState::kUsable);
}

TEST(PdTable, WhoDrainsGetsNothingNew) {
  PdTable table({"a", "b"});
  table.probed(0, true, true);
  EXPECT_EQ(table.at(0).state, PdState::kDraining);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(table.choose(request(1)), 1u);
  table.probed(0, true, false);
  EXPECT_EQ(table.usable(), 2u);
}

// It is idle because it refuses: without this it would be given everything.
TEST(PdTable, WhoRefusesIsAskedLastUntilAProbe) {
  PdTable table({"a", "b"});
  table.given(1, request(1000));
  EXPECT_EQ(table.choose(request(10)), 0u);
  table.refused(0);
  EXPECT_EQ(table.choose(request(10)), 1u);
  EXPECT_EQ(table.choose(request(10), {false, true}), 0u);  // better than nobody
  table.refused(1);
  EXPECT_EQ(table.choose(request(10)), 0u);
  table.probed(0, true, false);
  table.probed(1, true, false);
  EXPECT_EQ(table.choose(request(10)), 0u);
  table.given(0, request(2000));
  EXPECT_EQ(table.choose(request(10)), 1u);
}

TEST(PdTable, WhoWasTriedIsNotTriedAgain) {
  PdTable table({"a", "b"});
  EXPECT_EQ(table.choose(request(1, 9), {true, false}), 1u);
  EXPECT_EQ(table.choose(request(1, 9), {false, true}), 0u);
  EXPECT_FALSE(table.choose(request(1, 9), {true, true}));
  EXPECT_FALSE(PdTable({}).choose(request(1)));
}

// However requests end, what was given comes back.
TEST(PdTable, AccountsEndAtZero) {
  PdTable table({"a", "b", "c"});
  Rng rng(3);
  std::vector<std::pair<std::size_t, PdRequest>> open;
  for (int i = 0; i < 5000; ++i) {
    if (open.empty() || rng() % 2 == 0) {
      const PdRequest one = request(static_cast<std::int64_t>(rng() % 1000), rng() % 5);
      const auto pd = table.choose(one);
      if (!pd) continue;
      table.given(*pd, one);
      open.emplace_back(*pd, one);
    } else {
      const std::size_t at = rng() % open.size();
      table.done(open[at].first, open[at].second);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  for (const auto& [pd, one] : open) table.done(pd, one);
  for (std::size_t pd = 0; pd < 3; ++pd) {
    EXPECT_EQ(table.at(pd).work, 0);
    EXPECT_EQ(table.at(pd).requests, 0);
  }
}

TEST(PdTable, ServersComeAndGo) {
  PdTable table({"a"});
  EXPECT_EQ(table.add("b"), 1u);
  EXPECT_EQ(table.present(), 2u);
  const PdRequest one = request(10, 1);
  table.given(1, one);
  table.remove(1);
  EXPECT_EQ(table.present(), 1u);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(table.choose(request(10, static_cast<std::uint64_t>(i))), 0u);
  // Nothing that is heard of it brings it back, and its place is its own while it has a request.
  table.probed(1, true, false);
  table.failed(1);
  EXPECT_EQ(table.at(1).state, PdState::kGone);
  EXPECT_EQ(table.add("c"), 2u);
  table.done(1, one);
  EXPECT_EQ(table.add("d"), 1u);
  EXPECT_EQ(table.at(1).work, 0);
  EXPECT_EQ(table.at(1).state, PdState::kUsable);
}

TEST(RetryBudget, IsATenthOfTheRequests) {
  RetryBudget budget;
  int first = 0;
  while (budget.take()) ++first;
  EXPECT_EQ(first, 10);
  int taken = 0;
  for (int i = 0; i < 1000; ++i) {
    budget.requested();
    taken += budget.take() ? 1 : 0;
  }
  EXPECT_NEAR(taken, 100, 1);
  for (int i = 0; i < 100'000; ++i) budget.requested();
  EXPECT_LE(budget.left(), 10);
}

}  // namespace
}  // namespace saccade::cluster
