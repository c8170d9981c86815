#include "memory/prefix/evictor.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "base/rng.h"

namespace saccade {
namespace {

TEST(Evictor, OldestThenDeepestFirstAndWindowLeftoversBeforeAll) {
  EvictionQueue queue(4);
  queue.add(0, {false, 5, 16});
  queue.add(1, {false, 5, 32});
  queue.add(2, {false, 4, 16});
  queue.add(3, {true, 9, 16});
  for (const std::int32_t expected : {3, 2, 1, 0}) {
    EXPECT_EQ(queue.oldest(), expected);
    queue.remove(expected);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(Evictor, GroupsShareOneOrder) {
  Evictor evictor({4, 4});
  evictor.queue(0).add(1, {false, 8, 0});
  evictor.queue(1).add(2, {false, 7, 0});
  const auto any = [](int) { return true; };
  EXPECT_EQ(evictor.oldest(any)->group, 1);
  EXPECT_EQ(evictor.oldest([](int group) { return group == 0; })->id, 1);
  evictor.queue(1).remove(2);
  evictor.queue(0).remove(1);
  EXPECT_FALSE(evictor.oldest(any).has_value());
}

// A prefix that every request hits is cached and taken again at every turn, and never evicted.
TEST(Evictor, WhatIsTakenAgainAndAgainLeavesNothingBehind) {
  EvictionQueue queue(200);
  queue.add(199, {false, 0, 16});
  for (std::int64_t turn = 1; turn <= 1000; ++turn) {
    for (std::int32_t id = 0; id < 100; ++id) queue.add(id, {false, turn, 1600 - 16 * id});
    EXPECT_LE(queue.stored(), 2 * queue.size() + 1024);
    for (std::int32_t id = 0; id < 100; ++id) queue.remove(id);
    EXPECT_LE(queue.stored(), 2 * queue.size() + 1024);
  }
  EXPECT_EQ(queue.oldest(), 199);
}

TEST(Evictor, WhatEndsInOneTurnGoesDeepestFirstInWhateverOrderItCame) {
  constexpr std::int32_t kIds = 3000;
  EvictionQueue queue(kIds);
  for (std::int32_t id = 0; id < kIds; ++id) queue.add(id, {false, 7, 16 * (id % 1000)});
  for (std::int32_t place = 0; place < kIds; ++place) {
    EXPECT_EQ(queue.oldest(), 999 - place / 3 + 1000 * (place % 3));
    queue.remove(queue.oldest());
  }
}

TEST(Evictor, AgreesWithASortedSet) {
  using Order = std::tuple<bool, std::int64_t, std::int64_t, std::int32_t>;
  Rng rng(4);
  EvictionQueue queue(64);
  std::set<Order> oracle;
  std::vector<EvictionKey> keys(64);
  const auto order = [&](std::int32_t id) {
    const EvictionKey& key = keys[static_cast<std::size_t>(id)];
    return Order{!key.early, key.stamp, -key.depth, id};
  };
  for (int step = 0; step < 50000; ++step) {
    const auto id = static_cast<std::int32_t>(rng.below(64));
    if (queue.contains(id)) {
      oracle.erase(order(id));
      queue.remove(id);
    } else {
      keys[static_cast<std::size_t>(id)] = {rng.below(4) == 0,
                                            static_cast<std::int64_t>(rng.below(8)),
                                            static_cast<std::int64_t>(rng.below(4))};
      oracle.insert(order(id));
      queue.add(id, keys[static_cast<std::size_t>(id)]);
    }
    ASSERT_EQ(queue.size(), static_cast<std::int64_t>(oracle.size()));
    if (!oracle.empty()) {
      ASSERT_EQ(queue.oldest(), std::get<3>(*oracle.begin()));
    }
  }
}

}  // namespace
}  // namespace saccade
