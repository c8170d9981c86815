// Sample statistics with their uncertainty: percentiles and their intervals, t-intervals, and the
// two-sample tests that `saccade bench compare` decides by. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace saccade::bench {

// Sorted once, asked many times.
class Distribution {
 public:
  Distribution() = default;
  explicit Distribution(std::vector<double> values);

  std::size_t size() const { return sorted_.size(); }
  bool empty() const { return sorted_.empty(); }
  std::span<const double> sorted() const { return sorted_; }
  // All are 0 for an empty sample, as the clients that are reproduced print it.
  double mean() const { return mean_; }
  double std_dev() const { return std_dev_; }  // of the population: divisor n
  double sum() const { return sum_; }
  double min() const { return empty() ? 0 : sorted_.front(); }
  double max() const { return empty() ? 0 : sorted_.back(); }
  double median() const { return percentile(50); }
  // percent in [0, 100]; linear between order statistics (Hyndman and Fan type 7, numpy's default).
  double percentile(double percent) const;
  // The smallest value whose cumulative share reaches percent (type 1).
  double percentile_by_rank(double percent) const;

 private:
  std::vector<double> sorted_;
  double mean_ = 0;
  double std_dev_ = 0;
  double sum_ = 0;
};

struct Interval {
  double low = 0;
  double high = 0;
};

// Distribution-free interval of the percentile between two order statistics, each tail's exact
// binomial probability at most (1 - confidence) / 2. None when the sample is too small for one.
std::optional<Interval> percentile_interval(const Distribution& sample, double percent,
                                            double confidence = 0.95);

// The smallest sample for which percentile_interval exists: 72 for p95, 368 for p99, 3688 for
// p99.9 at 95 %.
std::size_t samples_needed(double percent, double confidence = 0.95);

// Mean of few independent values (runs) with its Student t interval; none for fewer than 2.
std::optional<Interval> mean_interval(std::span<const double> values, double confidence = 0.95);

struct TwoSampleTest {
  double statistic = 0;  // t, or U of the first sample
  double degrees = 0;    // of freedom; 0 where there are none
  double p_value = 1;    // two-sided
};

// Welch's t test of means a - b, unequal variances. None for fewer than 2 values on a side. With
// no variance at all p is 1 for equal means and 0 for different ones.
std::optional<TwoSampleTest> welch_test(std::span<const double> a, std::span<const double> b);
// Interval of mean(a) - mean(b).
std::optional<Interval> welch_interval(std::span<const double> a, std::span<const double> b,
                                       double confidence = 0.95);

// Mann-Whitney U: exact for a side of at most 8 without ties, else normal with tie and continuity
// correction. None for an empty side.
std::optional<TwoSampleTest> mann_whitney_test(std::span<const double> a,
                                               std::span<const double> b);

// Percentile bootstrap of statistic(a) - statistic(b), both resampled; seeded. The p-value is twice
// the smaller share of resamples on one side of 0, at least 1 / resamples.
using Statistic = std::function<double(const Distribution&)>;
struct BootstrapResult {
  Interval interval;
  double p_value = 1;
};
std::optional<BootstrapResult> bootstrap_difference(std::span<const double> a,
                                                    std::span<const double> b,
                                                    const Statistic& statistic, std::uint64_t seed,
                                                    int resamples = 2'000,
                                                    double confidence = 0.95);

// Holm's step-down adjusted p-values, in the order given.
std::vector<double> holm_adjusted(std::span<const double> p_values);

// Values of an autocorrelated series that are worth as much as independent ones, by its lag-1
// correlation: n (1 - r) / (1 + r), at most n. `series` in time order.
double effective_samples(std::span<const double> series);

// Distribution functions behind the above.
double incomplete_beta(double a, double b, double x);  // regularised; a, b > 0, x in [0, 1]
double binomial_cdf(std::int64_t k, std::int64_t n, double p);  // P(X <= k)
double student_cdf(double t, double degrees);
double student_quantile(double p, double degrees);  // p in (0, 1)
double normal_cdf(double z);

}  // namespace saccade::bench
