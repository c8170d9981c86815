// The rule's own figures.
#include "cluster/sizes/seed_size_rule.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace saccade::cluster {
namespace {

constexpr Nanos kTarget = 2 * kSecond;

TEST(SeedRule, CapacityIsOffTheLine) {
  EXPECT_EQ(seed_capacity(kTarget), 17'015);
  EXPECT_EQ(seed_capacity(kTarget, {0.1299, 15.64}), 15'276);  // an earlier profile of theirs
  EXPECT_EQ(seed_capacity(0, {0.1, 50}), 1);
}

TEST(SeedRule, BudgetsAreTheTables) {
  const std::int64_t capacity = seed_capacity(kTarget);
  for (const auto& [rate, tokens] :
       std::initializer_list<std::pair<double, std::int64_t>>{{.667, 12'754},
                                                              {1, 8'507},
                                                              {1.333, 6'382},
                                                              {2, 4'253},
                                                              {3, 2'835},
                                                              {4, 2'126},
                                                              {5, 1'701},
                                                              {7, 1'215},
                                                              {10, 850}})
    EXPECT_EQ(seed_budget(capacity, kTarget, rate), tokens) << rate;
  EXPECT_EQ(seed_budget(capacity, kTarget, 1e9), 1);
}

TEST(SeedRule, OneRequestCountsAsOneASecond) {
  VirtualClock clock;
  clock.set(100 * kSecond);
  SeedRate rate(clock);
  EXPECT_DOUBLE_EQ(rate.arrived(), 1);
  // 2.9 s later the load looks lighter than with nobody there: the budget grows.
  clock.advance(2900 * kMillisecond);
  const double second = rate.arrived();
  EXPECT_NEAR(second, 0.6897, 1e-4);
  EXPECT_EQ(seed_budget(seed_capacity(kTarget), kTarget, second), 12'335);
  clock.advance(3001 * kMillisecond);
  EXPECT_DOUBLE_EQ(rate.arrived(), 1);
}

TEST(SeedRule, CountsOverThreeSecondsAndOneAtLeast) {
  VirtualClock clock;
  SeedRate rate(clock);
  for (int i = 0; i < 5; ++i) rate.arrived();
  EXPECT_DOUBLE_EQ(rate.arrived(), 6);  // all at once: in one second
  for (int i = 0; i < 100; ++i) {
    clock.advance(250 * kMillisecond);
    rate.arrived();
  }
  EXPECT_NEAR(rate.arrived(), 14 / 3.0, 1e-9);  // 12 gaps, both ends, and this one
  clock.set(std::numeric_limits<Nanos>::max());
  EXPECT_DOUBLE_EQ(rate.arrived(), 1);
}

TEST(SeedRule, TheLongerSideIsThatOfASquare) {
  EXPECT_EQ(seed_reduced(3082, 2048, 4096), (PixelSize{1792, 1190}));
  EXPECT_EQ(seed_reduced(2048, 3082, 4096), (PixelSize{1190, 1792}));
  EXPECT_EQ(seed_reduced(2800, 2800, 4096), (PixelSize{1792, 1792}));
  // A shape of 4 to 1 has a quarter of its budget.
  const auto wide = seed_reduced(8000, 2000, 4096);
  ASSERT_TRUE(wide);
  EXPECT_EQ(*wide, (PixelSize{1792, 448}));
  EXPECT_EQ(wide->width / 28 * (wide->height / 28), 1024);
}

TEST(SeedRule, WithinItsBudgetAnImageStays) {
  EXPECT_FALSE(seed_reduced(1792, 1792, 4096));
  EXPECT_TRUE(seed_reduced(1793, 1792, 4096));
  EXPECT_FALSE(seed_reduced(28, 28, 1));
  EXPECT_EQ(seed_reduced(10'000, 3, 1), (PixelSize{28, 1}));
}

TEST(SeedLine, OfAnotherMachine) {
  EXPECT_EQ(parse_seed_line("0.1197,-36.72").value(), SeedLine{});
  EXPECT_EQ(parse_seed_line("0.29,-0.8,0.07").value(), (SeedLine{0.29, -0.8, 0.07}));
  EXPECT_EQ(parse_seed_line("0.1231,+0.06,0.0557").value(), (SeedLine{0.1231, 0.06, 0.0557}));
  for (const char* bad : {"", "1", "1,", ",1", "1,2,", "1,2,3,4", "0,1", "-1,1", "1,2,0", "1,2,-1",
                          "x,1", "1, 2", "nan,1", "1,inf"})
    EXPECT_FALSE(parse_seed_line(bad)) << bad;
}

// Ten times as fast on both sides: the same share of what fits.
TEST(SeedLine, ASecondOfATenth) {
  VirtualClock clock;
  VirtualClock fast_clock;
  SeedRate rate(clock);
  SeedRate fast(fast_clock, 0.1);
  for (int i = 0; i < 200; ++i) {
    const Nanos gap = (i * 7919 % 1000) * kMillisecond;
    clock.advance(gap);
    fast_clock.advance(gap / 10);
    EXPECT_NEAR(fast.arrived(), 10 * rate.arrived(), 1e-9) << i;
  }
}

}  // namespace
}  // namespace saccade::cluster
