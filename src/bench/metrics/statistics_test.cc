#include "bench/metrics/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/json.h"
#include "base/rng.h"

namespace saccade::bench {
namespace {

const json::object& golden_statistics() {
  static const json::value file = [] {
    auto parsed = json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/bench/statistics.json");
    EXPECT_TRUE(parsed) << parsed.error().message;
    return parsed ? *parsed : json::value();
  }();
  return file.as_object();
}

double number(const json::value& v) { return v.to_number<double>(); }

std::vector<double> numbers(const json::value& v) {
  std::vector<double> out;
  for (const json::value& item : v.as_array()) out.push_back(number(item));
  return out;
}

void expect_close(double got, double want, const std::string& what) {
  EXPECT_NEAR(got, want, 1e-9 * std::max(1.0, std::abs(want))) << what;
}

// 7 / 100 * 100 is a little over 7, and 29 / 100 * 100 a little under 29.
TEST(Statistics, ARankIsTheOneItNames) {
  std::vector<double> values(100);
  std::iota(values.begin(), values.end(), 1.0);
  const Distribution d(values);
  for (int percent = 1; percent <= 100; ++percent)
    EXPECT_EQ(d.percentile_by_rank(percent), percent);
}

TEST(Statistics, DescribesAsNumpy) {
  for (const json::value& s : golden_statistics().at("samples").as_array()) {
    const std::string name(s.at("name").as_string());
    const Distribution d(numbers(s.at("values")));
    expect_close(d.mean(), number(s.at("mean")), name);
    expect_close(d.std_dev(), number(s.at("std")), name);
    for (const json::value& p : s.at("percentiles").as_array())
      expect_close(d.percentile(number(p.at(0))), number(p.at(1)), name);
    for (const json::value& p : s.at("by_rank").as_array())
      expect_close(d.percentile_by_rank(number(p.at(0))), number(p.at(1)), name);
    for (const json::value& p : s.at("intervals").as_array()) {
      const auto interval = percentile_interval(d, number(p.at(0)));
      ASSERT_EQ(interval.has_value(), !p.at(1).is_null()) << name << " p" << number(p.at(0));
      EXPECT_EQ(d.size() >= samples_needed(number(p.at(0))), interval.has_value());
      if (!interval) continue;
      EXPECT_EQ(interval->low, number(p.at(1).at(0))) << name;
      EXPECT_EQ(interval->high, number(p.at(1).at(1))) << name;
    }
    const auto mean = mean_interval(numbers(s.at("values")));
    const json::value* want = s.as_object().if_contains("mean_interval");
    ASSERT_EQ(mean.has_value(), want != nullptr);
    if (!mean) continue;
    expect_close(mean->low, number(want->at(0)), name);
    expect_close(mean->high, number(want->at(1)), name);
  }
}

TEST(Statistics, ComparesAsScipy) {
  for (const json::value& pair : golden_statistics().at("pairs").as_array()) {
    const std::string name(pair.at("name").as_string());
    const auto a = numbers(pair.at("a"));
    const auto b = numbers(pair.at("b"));
    const auto welch = welch_test(a, b);
    ASSERT_TRUE(welch);
    expect_close(welch->statistic, number(pair.at("welch").at(0)), name);
    expect_close(welch->degrees, number(pair.at("welch").at(1)), name);
    expect_close(welch->p_value, number(pair.at("welch").at(2)), name);
    const auto interval = welch_interval(a, b);
    expect_close(interval->low, number(pair.at("welch_interval").at(0)), name);
    expect_close(interval->high, number(pair.at("welch_interval").at(1)), name);
    const auto mann = mann_whitney_test(a, b);
    expect_close(mann->statistic, number(pair.at("mann_whitney").at(0)), name);
    expect_close(mann->p_value, number(pair.at("mann_whitney").at(1)), name);
  }
}

TEST(Statistics, DistributionFunctions) {
  for (const json::value& row : golden_statistics().at("student_quantiles").as_array())
    expect_close(student_quantile(number(row.at(0)), number(row.at(1))), number(row.at(2)), "t");
  for (const json::value& row : golden_statistics().at("binomial").as_array())
    expect_close(binomial_cdf(row.at(0).as_int64(), row.at(1).as_int64(), number(row.at(2))),
                 number(row.at(3)), "binomial");
  for (const json::value& row : golden_statistics().at("beta").as_array())
    expect_close(incomplete_beta(number(row.at(0)), number(row.at(1)), number(row.at(2))),
                 number(row.at(3)), "beta");
}

TEST(Statistics, Holm) {
  const auto adjusted = holm_adjusted(numbers(golden_statistics().at("holm").at("p")));
  const auto want = numbers(golden_statistics().at("holm").at("adjusted"));
  for (std::size_t i = 0; i < want.size(); ++i) expect_close(adjusted[i], want[i], "holm");
}

TEST(Statistics, SamplesNeededForATail) {
  EXPECT_EQ(samples_needed(95), 72u);
  EXPECT_EQ(samples_needed(99), 368u);
  EXPECT_EQ(samples_needed(99.9), 3688u);
  EXPECT_EQ(samples_needed(5), 72u);
  EXPECT_EQ(samples_needed(50), 6u);
  for (const std::size_t n : {367u, 368u}) {
    std::vector<double> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(i);
    EXPECT_EQ(percentile_interval(Distribution(values), 99).has_value(), n == 368);
  }
}

TEST(Statistics, PercentileIntervalCoversAsItSays) {
  // True p90 of uniforms is 0.9. Coverage over 2,000 samples of 100 is at least nominal, up to
  // three standard errors of the count.
  Rng rng(11);
  int covered = 0;
  for (int round = 0; round < 2'000; ++round) {
    std::vector<double> values(100);
    for (double& v : values) v = rng.uniform();
    const auto interval = percentile_interval(Distribution(std::move(values)), 90);
    covered += interval && interval->low <= 0.9 && 0.9 <= interval->high;
  }
  EXPECT_GE(covered, 2'000 * 0.95 - 3 * std::sqrt(2'000 * 0.95 * 0.05));
  EXPECT_LE(covered, 1'990);
}

TEST(Statistics, EmptyAndConstantSamples) {
  const Distribution none;
  EXPECT_EQ(none.mean(), 0);
  EXPECT_EQ(none.percentile(99), 0);
  EXPECT_EQ(none.max(), 0);
  EXPECT_FALSE(percentile_interval(none, 50));
  EXPECT_FALSE(mean_interval(std::vector<double>{1.0}));
  const std::vector<double> ones(5, 1.0);
  const std::vector<double> twos(5, 2.0);
  EXPECT_EQ(welch_test(ones, ones)->p_value, 1);
  EXPECT_EQ(welch_test(ones, twos)->p_value, 0);
  EXPECT_EQ(mann_whitney_test(ones, ones)->p_value, 1);
  EXPECT_EQ(welch_interval(twos, ones)->low, 1);
  EXPECT_FALSE(welch_test(ones, std::vector<double>{1.0}));
}

TEST(Statistics, BootstrapFindsAShiftAndIsDeterministic) {
  Rng rng(3);
  std::vector<double> a(200);
  std::vector<double> b(200);
  for (double& v : a) v = 10 + rng.uniform();
  for (double& v : b) v = 11 + rng.uniform();
  const auto median = [](const Distribution& d) { return d.median(); };
  const auto shifted = bootstrap_difference(a, b, median, 1);
  ASSERT_TRUE(shifted);
  EXPECT_LT(shifted->interval.low, -0.9);
  EXPECT_GT(shifted->interval.low, -1.2);
  EXPECT_LT(shifted->interval.high, -0.8);
  EXPECT_EQ(shifted->p_value, 1.0 / 2'000);
  EXPECT_EQ(bootstrap_difference(a, b, median, 1)->interval.low, shifted->interval.low);
  EXPECT_NE(bootstrap_difference(a, b, median, 2)->interval.low, shifted->interval.low);
  EXPECT_GT(bootstrap_difference(a, a, median, 1)->p_value, 0.5);
}

TEST(Statistics, EffectiveSamples) {
  Rng rng(5);
  std::vector<double> white(4'000);
  for (double& v : white) v = rng.uniform();
  EXPECT_NEAR(effective_samples(white), 4'000, 250);
  std::vector<double> red(4'000);  // AR(1), r = 0.8: a ninth of the values
  double last = 0;
  for (double& v : red) v = last = 0.8 * last + rng.uniform() - 0.5;
  EXPECT_NEAR(effective_samples(red), 4'000.0 / 9, 90);
}

}  // namespace
}  // namespace saccade::bench
