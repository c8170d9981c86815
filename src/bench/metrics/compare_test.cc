#include "bench/metrics/compare.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/support/hand_log.h"

namespace saccade::bench {
namespace {

// A run of 300 requests whose TTFT is 50 to 100 ms times `slower`.
RunLog run(std::uint64_t seed, double slower) {
  Rng rng(seed);
  std::vector<HandRequest> requests;
  for (int i = 0; i < 300; ++i) {
    const double start = i * 20.0;
    const double first = start + (50 + 50 * rng.uniform()) * slower;
    const double last = first + 90 + 20 * rng.uniform();
    requests.push_back({.scheduled_ms = start,
                        .start_ms = start,
                        .end_ms = last,
                        .events = {{first, kContentEvent | kChoicesEvent},
                                   {last, kContentEvent | kChoicesEvent | kFinishEvent}},
                        .completion_tokens = 2});
  }
  return hand_log(requests);
}

Side side(int runs, std::uint64_t seed, double slower) {
  Side s;
  for (int i = 0; i < runs; ++i) {
    s.logs.push_back(run(seed + static_cast<std::uint64_t>(i), slower));
    s.metrics.push_back(compute_metrics(s.logs.back()));
  }
  return s;
}

const Comparison& row(const CompareResult& result, const std::string& name) {
  for (const Comparison& r : result.rows)
    if (r.name == name) return r;
  ADD_FAILURE() << "no row " << name;
  static const Comparison none;
  return none;
}

TEST(Compare, FindsWhatIsSlower) {
  for (const int runs : {1, 3, 5}) {
    const CompareResult result = compare(side(runs, 1, 1.0), side(runs, 100, 1.2));
    EXPECT_EQ(result.over_runs, runs >= 3);
    EXPECT_EQ(row(result, "Mean TTFT (ms)").verdict, Verdict::kWorse) << runs;
    EXPECT_NEAR(row(result, "Mean TTFT (ms)").effect, 0.2, 0.03);
    EXPECT_EQ(row(result, "P99 TTFT (ms)").verdict, Verdict::kWorse) << runs;
    EXPECT_NE(row(result, "Mean TPOT (ms)").verdict, Verdict::kWorse) << runs;
    EXPECT_TRUE(result.any_worse);
    const CompareResult reverse = compare(side(runs, 100, 1.2), side(runs, 1, 1.0));
    EXPECT_EQ(row(reverse, "Mean TTFT (ms)").verdict, Verdict::kBetter);
    EXPECT_FALSE(reverse.any_worse);
  }
}

TEST(Compare, NoiseIsNotNews) {
  // 60 comparisons of equal servers: at most 5 % may cry wolf in any metric, with slack for the
  // count's own spread (mean 3, 3 sigma 5).
  int worse = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    Side a = side(1, 2 * i * 1'000, 1.0);
    Side b = side(1, (2 * i + 1) * 1'000, 1.0);
    worse += compare(a, b, {.min_effect = 0, .resamples = 100}).any_worse;
  }
  EXPECT_LE(worse, 8);
}

TEST(Compare, SmallDifferencesAreTheSame) {
  const CompareResult result = compare(side(5, 1, 1.0), side(5, 50, 1.001), {.min_effect = 0.05});
  EXPECT_EQ(row(result, "Mean TTFT (ms)").verdict, Verdict::kSame);
  EXPECT_FALSE(result.any_worse);
}

TEST(Compare, OneRunSaysNothingOfRates) {
  const CompareResult result = compare(side(1, 1, 1.0), side(1, 2, 1.0));
  EXPECT_FALSE(row(result, "Requests/s").interval);
  EXPECT_EQ(row(result, "Requests/s").verdict, Verdict::kNoEvidence);
}

TEST(Compare, WarnsOfWhatElseDiffers) {
  Side a = side(1, 1, 1.0);
  Side b = side(1, 2, 1.0);
  b.logs[0].header.dataset_hash = "other";
  b.metrics[0].failed = 2;
  const CompareResult result = compare(a, b);
  ASSERT_EQ(result.warnings.size(), 2u);
  EXPECT_NE(result.warnings[0].find("dataset"), std::string::npos);
  EXPECT_NE(to_text(result).find("2 failed requests"), std::string::npos);
  EXPECT_TRUE(compare({}, b).rows.empty());
}

}  // namespace
}  // namespace saccade::bench
