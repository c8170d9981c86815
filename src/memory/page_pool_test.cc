#include "memory/page_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace saccade {
namespace {

PagePlan plan_with_ratios(std::initializer_list<std::int64_t> ratios) {
  PagePlan plan;
  plan.large_bytes = 60;
  for (const std::int64_t ratio : ratios) {
    GroupPlan& group = plan.groups.emplace_back();
    group.ratio = ratio;
    group.page_bytes = group.used_bytes = 60 / ratio;
  }
  return plan;
}

PageId take(PagePool& pool, int group, OwnerId owner, std::int64_t quota = 1) {
  return pool.take(group, owner, &quota);
}

TEST(PagePool, PagesOfOneOwnerShareALargePage) {
  PagePool pool(plan_with_ratios({3, 1}), 4, 2);
  const PageId first = take(pool, 0, 0);
  const PageId other = take(pool, 0, 1);
  EXPECT_EQ(pool.large_of(0, take(pool, 0, 0)), pool.large_of(0, first));
  EXPECT_NE(pool.large_of(0, other), pool.large_of(0, first));
  EXPECT_EQ(pool.own_stray(0, 0), 1);
  EXPECT_EQ(pool.own_stray(0, 1), 2);
  EXPECT_EQ(pool.stray(0), 3);
  EXPECT_EQ(pool.free_large(), 2);
  pool.check();
}

TEST(PagePool, TheLastPageReturnsTheLargePage) {
  PagePool pool(plan_with_ratios({2, 1}), 2, 1);
  const PageId first = take(pool, 0, 0);
  const PageId second = take(pool, 0, 0);
  pool.give_back(0, first);
  EXPECT_EQ(pool.free_large(), 1);
  pool.give_back(0, second);
  EXPECT_EQ(pool.free_large(), 2);
  EXPECT_NE(take(pool, 1, 0), kNoPage);  // and another group may have it
  pool.check();
}

TEST(PagePool, WithoutQuotaOrphansAreAdoptedThenOthersStolenFrom) {
  PagePool pool(plan_with_ratios({3}), 2, 3);
  const PageId kept = take(pool, 0, 0);
  const PageId lived = take(pool, 0, 1);
  pool.end_owner(0);
  // Owner 2 adopts what owner 0 left, all of it.
  EXPECT_EQ(pool.large_of(0, take(pool, 0, 2, 0)), pool.large_of(0, kept));
  EXPECT_EQ(pool.own_stray(0, 2), 1);
  EXPECT_EQ(pool.large_of(0, take(pool, 0, 2, 0)), pool.large_of(0, kept));
  // Then it steals from owner 1, whose large page stays its own.
  EXPECT_EQ(pool.large_of(0, take(pool, 0, 2, 0)), pool.large_of(0, lived));
  EXPECT_EQ(pool.own_stray(0, 1), 1);
  EXPECT_EQ(pool.own_stray(0, 2), 0);
  EXPECT_NE(take(pool, 0, 2, 0), kNoPage);
  EXPECT_EQ(take(pool, 0, 2, 0), kNoPage);
  pool.check();
}

TEST(PagePool, AReusedOwnerIdOwnsNothingOfItsPredecessor) {
  PagePool pool(plan_with_ratios({2}), 2, 1);
  const PageId first = take(pool, 0, 0);
  take(pool, 0, 0);
  pool.end_owner(0);  // the large page is full: in no list
  pool.give_back(0, first);
  EXPECT_EQ(pool.own_stray(0, 0), 0);
  EXPECT_EQ(pool.stray(0), 1);
  pool.check();
}

TEST(PagePool, CapsAndReservesAreKept) {
  PagePlan plan = plan_with_ratios({1, 1});
  plan.groups[0].share = 0.5;
  plan.groups[1].reserved = 1;
  PagePool pool(plan, 4, 1);
  EXPECT_EQ(pool.available_large(0), 2);
  EXPECT_EQ(pool.available_large(1), 4);
  EXPECT_EQ(pool.reserved_large(), 1);
  take(pool, 0, 0);
  take(pool, 0, 0);
  EXPECT_EQ(take(pool, 0, 0), kNoPage);
  EXPECT_EQ(pool.available_large(1), 2);
  EXPECT_NE(take(pool, 1, 0), kNoPage);
  EXPECT_EQ(pool.reserved_large(), 0);
  pool.check();
}

TEST(PagePool, ParkedPagesAreOutOfReach) {
  PagePool pool(plan_with_ratios({3}), 1, 2);
  const PageId page = take(pool, 0, 0);
  pool.park(pool.large_of(0, page));
  EXPECT_EQ(pool.stray(0), 0);
  EXPECT_EQ(take(pool, 0, 0), kNoPage);
  pool.check();
  pool.unpark(pool.large_of(0, page));
  EXPECT_NE(take(pool, 0, 1, 0), kNoPage);
  pool.check();
}

TEST(PagePool, RandomWalkNeverGivesAPageTwice) {
  Rng rng(3);
  PagePool pool(plan_with_ratios({5, 2, 1}), 12, 4);
  std::vector<std::pair<int, PageId>> taken;
  std::set<std::pair<int, PageId>> owned;
  for (int step = 0; step < 20000; ++step) {
    const auto owner = static_cast<OwnerId>(rng.below(4));
    const std::uint64_t action = rng.below(10);
    if (action < 5) {
      const int group = static_cast<int>(rng.below(3));
      const PageId page = take(pool, group, owner, static_cast<std::int64_t>(rng.below(2)));
      if (page != kNoPage) {
        ASSERT_TRUE(owned.insert({group, page}).second);
        taken.push_back({group, page});
      }
    } else if (action < 9 && !taken.empty()) {
      const std::size_t which = rng.below(taken.size());
      pool.give_back(taken[which].first, taken[which].second);
      owned.erase(taken[which]);
      taken[which] = taken.back();
      taken.pop_back();
    } else {
      pool.end_owner(owner);
    }
    if (step % 50 == 0) pool.check();
  }
  for (const auto& [group, page] : taken) pool.give_back(group, page);
  pool.check();
  EXPECT_EQ(pool.free_large(), 12);
}

}  // namespace
}  // namespace saccade
