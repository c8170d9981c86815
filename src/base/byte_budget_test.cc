#include "base/byte_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace saccade {
namespace {

TEST(ByteBudget, GivesUpToItsLimitAndTakesBack) {
  const ByteBudget budget(100);
  auto first = budget.reserve(60);
  ASSERT_TRUE(first);
  EXPECT_FALSE(budget.reserve(41));
  EXPECT_EQ(budget.used(), 60u);
  EXPECT_TRUE(first->grow(40));
  EXPECT_FALSE(first->grow(1));
  EXPECT_FALSE(first->grow(SIZE_MAX));
  EXPECT_EQ(first->bytes(), 100u);
  first->shrink_to(10);
  first->shrink_to(50);
  EXPECT_EQ(budget.used(), 10u);
  ByteReservation moved = std::move(*first);
  first.reset();
  EXPECT_EQ(budget.used(), 10u);
  moved = *budget.reserve(3);
  EXPECT_EQ(budget.used(), 3u);
  moved = {};
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_FALSE(moved.grow(1));
}

TEST(ByteBudget, ReservationsMayOutliveIt) {
  ByteReservation left;
  {
    const ByteBudget budget(10);
    left = *budget.reserve(5);
  }
  EXPECT_TRUE(left.grow(5));
  EXPECT_FALSE(left.grow(1));
}

TEST(ByteBudget, ThreadsNeverHoldMoreThanTheLimit) {
  const ByteBudget budget(7);
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < 20'000; ++i) {
        auto held = budget.reserve(1 + i % 3);
        if (held && i % 2 == 0 && !held->grow(2)) held->shrink_to(1);
        if (budget.used() > budget.limit()) over = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(over);
  EXPECT_EQ(budget.used(), 0u);
}

}  // namespace
}  // namespace saccade
