#include "bench/load/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace saccade::bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Regularised lower incomplete gamma function P(a, x) by its series (DLMF 8.11.4).
double gamma_cdf(double a, double x) {
  if (x <= 0) return 0;
  double term = 1 / a;
  double sum = term;
  for (double n = a + 1; term > sum * 1e-15; ++n) sum += term *= x / n;
  return std::min(1.0, sum * std::exp(-x + a * std::log(x) - std::lgamma(a)));
}

// p-value of the one-sample Kolmogorov-Smirnov test (asymptotic, Stephens' correction).
double ks_p_value(std::vector<double> values, const std::function<double(double)>& cdf) {
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double f = cdf(values[i]);
    distance =
        std::max({distance, f - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - f});
  }
  const double scaled = (std::sqrt(n) + 0.12 + 0.11 / std::sqrt(n)) * distance;
  double p = 0;
  for (int k = 1; k < 100; ++k)
    p += (k % 2 == 1 ? 2 : -2) * std::exp(-2.0 * k * k * scaled * scaled);
  return std::clamp(p, 0.0, 1.0);
}

std::vector<double> gaps_of(const ArrivalPlan& plan) {
  std::vector<double> gaps;
  Nanos before = 0;
  for (const Nanos due : plan.due) gaps.push_back(seconds(due - std::exchange(before, due)));
  return gaps;
}

TEST(Arrivals, GapsAreGammaDistributed) {
  for (const double burstiness : {0.25, 0.5, 1.0, 2.0, 7.5}) {
    for (const double rate : {0.4, 50.0}) {
      const auto plan = plan_arrivals({.request_rate = rate, .burstiness = burstiness}, 20'000, 7);
      ASSERT_TRUE(plan);
      const auto cdf = [&](double gap) { return gamma_cdf(burstiness, gap * rate * burstiness); };
      EXPECT_GT(ks_p_value(gaps_of(*plan), cdf), 0.001) << burstiness << " " << rate;
      // The test has power: a shape 10 % off is rejected.
      const auto off = [&](double gap) {
        return gamma_cdf(burstiness * 1.1, gap * rate * burstiness * 1.1);
      };
      EXPECT_LT(ks_p_value(gaps_of(*plan), off), 0.001) << burstiness << " " << rate;
    }
  }
}

TEST(Arrivals, SortedSeededAndNamed) {
  const auto plan = plan_arrivals({.request_rate = 10}, 1'000, 1);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->name, "poisson");
  EXPECT_TRUE(std::is_sorted(plan->due.begin(), plan->due.end()));
  EXPECT_EQ(plan_arrivals({.request_rate = 10}, 1'000, 1)->due, plan->due);
  EXPECT_NE(plan_arrivals({.request_rate = 10}, 1'000, 2)->due, plan->due);
  EXPECT_EQ(arrival_hash(plan->due),
            arrival_hash(plan_arrivals({.request_rate = 10}, 1'000, 1)->due));
  // A longer plan begins as a shorter one does.
  const auto longer = plan_arrivals({.request_rate = 10}, 1'500, 1);
  EXPECT_TRUE(std::equal(plan->due.begin(), plan->due.end(), longer->due.begin()));
  EXPECT_EQ(plan_arrivals({.request_rate = 5, .burstiness = 0.5}, 1, 1)->name, "gamma");
  EXPECT_EQ(closed_loop_arrivals(3).due, (std::vector<Nanos>{0, 0, 0}));
}

TEST(Arrivals, InfiniteAndConstantRates) {
  const auto all = plan_arrivals({}, 4, 0);
  EXPECT_EQ(all->due, (std::vector<Nanos>{0, 0, 0, 0}));
  EXPECT_EQ(all->name, "inf");
  const auto even = plan_arrivals({.request_rate = 4, .burstiness = kInfinity}, 4, 0);
  EXPECT_EQ(even->due, (std::vector<Nanos>{250'000'000, 500'000'000, 750'000'000, 1'000'000'000}));
  EXPECT_EQ(even->name, "constant");
  const auto at_once =
      plan_arrivals({.request_rate = 4, .burstiness = kInfinity, .first_at_zero = true}, 3, 0);
  EXPECT_EQ(at_once->due, (std::vector<Nanos>{0, 250'000'000, 500'000'000}));
}

TEST(Arrivals, RealisedRateOverAMinute) {
  // 10,000 requests/s for 60 s: the count is within four standard deviations (0.5 %), and constant
  // arrivals are exact.
  ArrivalSettings settings{.request_rate = 10'000};
  settings.duration = 60 * kSecond;
  const auto poisson = plan_arrivals(settings, 700'000, 3);
  EXPECT_NEAR(static_cast<double>(poisson->due.size()), 600'000, 4 * std::sqrt(600'000.0));
  settings.burstiness = kInfinity;
  EXPECT_EQ(plan_arrivals(settings, 700'000, 3)->due.size(), 600'000u);
}

TEST(Arrivals, RescalingEndsAtCountOverRate) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto plan =
        plan_arrivals({.request_rate = 2, .burstiness = 0.5, .rescale = true}, 200, seed);
    EXPECT_EQ(plan->due.back(), 100 * kSecond);
  }
  EXPECT_NE(plan_arrivals({.request_rate = 2}, 200, 0)->due.back(), 100 * kSecond);
}

TEST(Arrivals, RampsRaiseTheRate) {
  ArrivalSettings ramp{.burstiness = kInfinity, .ramp_up = RampUp::kLinear};
  ramp.ramp_up_start_rps = 1;
  ramp.ramp_up_end_rps = 5;
  const auto linear = plan_arrivals(ramp, 5, 0);  // gaps 1, 1/2, 1/3, 1/4, 1/5
  EXPECT_NEAR(seconds(linear->due.back()), 1 + 0.5 + 1.0 / 3 + 0.25 + 0.2, 1e-8);
  ramp.ramp_up = RampUp::kExponential;
  ramp.ramp_up_end_rps = 16;
  const auto steep = plan_arrivals(ramp, 5, 0);  // rates 1, 2, 4, 8, 16
  EXPECT_NEAR(seconds(steep->due.back()), 1.9375, 1e-8);
  ramp.ramp_up = RampUp::kLinear;
  ramp.ramp_up_start_rps = 0;
  const auto from_zero = plan_arrivals(ramp, 5, 0);  // the first gap as the second: rate 4
  EXPECT_NEAR(seconds(from_zero->due.front()), 0.25, 1e-8);
}

TEST(Arrivals, DurationCuts) {
  ArrivalSettings settings{.request_rate = 100};
  settings.duration = kSecond;
  const auto plan = plan_arrivals(settings, 10'000, 9);
  EXPECT_LT(plan->due.size(), 160u);
  EXPECT_GT(plan->due.size(), 50u);
  EXPECT_LE(plan->due.back(), kSecond);
}

TEST(Arrivals, EveryProblemIsListed) {
  ArrivalSettings settings{.request_rate = -1, .burstiness = 0};
  const auto plan = plan_arrivals(settings, 1, 0);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("--request-rate is -1"), std::string::npos);
  EXPECT_NE(plan.error().message.find("--burstiness is 0"), std::string::npos);
  EXPECT_FALSE(plan_arrivals({.request_rate = std::nan("")}, 1, 0));
  EXPECT_FALSE(plan_arrivals({.request_rate = 1e-300}, 1, 0));
  EXPECT_FALSE(plan_arrivals({.ramp_up = RampUp::kExponential, .ramp_up_end_rps = 2}, 1, 0));
}

TEST(Arrivals, RateSweeps) {
  const auto sweep = parse_rate_sweep("0.2:4.0:0.2");
  ASSERT_TRUE(sweep);
  EXPECT_EQ(sweep->size(), 20u);
  EXPECT_EQ((*sweep)[2], 0.6);
  EXPECT_EQ(sweep->back(), 4.0);
  EXPECT_EQ(*parse_rate_sweep("1:1:1"), std::vector<double>{1});
  for (const char* bad : {"", "1", "1:2", "1:2:0", "2:1:1", "0:1:1", "1:2:3:4", "a:b:c", "1:inf:1",
                          "1:1e9:1e-9", "1:2:1 "})
    EXPECT_FALSE(parse_rate_sweep(bad)) << bad;
}

}  // namespace
}  // namespace saccade::bench
