#include "bench/load/rate_search.h"

#include <gtest/gtest.h>

namespace saccade::bench {
namespace {

// A server that holds every rate up to `capacity`, with seed `unlucky` up to nine tenths of it.
auto server_of(double capacity, std::uint64_t unlucky = ~0ULL) {
  return [=](double rate, std::uint64_t seed) -> Result<SearchStep> {
    SearchStep step;
    step.rate = rate;
    step.holds = rate <= (seed == unlucky ? 0.9 * capacity : capacity);
    return step;
  };
}

TEST(RateSearch, BracketsTheCapacityFromBothSides) {
  for (const double first : {0.01, 1.0, 30.0, 5000.0}) {
    const auto found = search_rate({.serve = {}, .first_rate = first}, server_of(37.5)).value();
    EXPECT_TRUE(found.confirmed) << first;
    EXPECT_LE(found.rate, 37.5) << first;
    EXPECT_GT(found.above, 37.5) << first;
    EXPECT_LE(found.above / found.rate, 1.05 * 1.0001) << first;
  }
}

TEST(RateSearch, ARateThatIsNotConfirmedIsLowered) {
  const auto found =
      search_rate({.serve = {}, .first_rate = 1, .max_runs = 60}, server_of(40, 2)).value();
  EXPECT_TRUE(found.confirmed);
  EXPECT_LE(found.rate, 36);
  EXPECT_GT(found.above, found.rate);
}

TEST(RateSearch, SaysWhenThereIsNone) {
  const auto nothing = search_rate({.serve = {}}, server_of(0)).value();
  EXPECT_EQ(nothing.rate, 0);
  EXPECT_FALSE(nothing.confirmed);
  // No bound within the runs that are allowed.
  const auto endless = search_rate({.serve = {}, .max_runs = 5}, server_of(1e12)).value();
  EXPECT_EQ(endless.above, 0);
  EXPECT_EQ(endless.rate, 16);
  EXPECT_FALSE(endless.confirmed);
  EXPECT_EQ(endless.steps.size(), 5U);
}

TEST(RateSearch, AnErrorEndsIt) {
  EXPECT_FALSE(search_rate({.serve = {}}, [](double, std::uint64_t) -> Result<SearchStep> {
    return fail(ErrorCode::kUnavailable, "gone");
  }));
  EXPECT_FALSE(search_rate({.serve = {}, .first_rate = 0}, server_of(1)));
}

// Values of the closed form, computed by hand: 8 of 10 is [0.4902, 0.9433].
TEST(RateSearch, WilsonInterval) {
  const Interval some = share_interval(8, 10);
  EXPECT_NEAR(some.low, 0.4902, 5e-5);
  EXPECT_NEAR(some.high, 0.9433, 5e-5);
  EXPECT_EQ(share_interval(20, 20).high, 1);
  EXPECT_NEAR(share_interval(20, 20).low, 0.8389, 5e-5);
  EXPECT_EQ(share_interval(0, 0).low, 0);
}

}  // namespace
}  // namespace saccade::bench
