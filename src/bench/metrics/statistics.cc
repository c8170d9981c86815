#include "bench/metrics/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/rng.h"

namespace saccade::bench {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Divisor n - 1.
double sample_variance(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double v : values) sum += (v - mean) * (v - mean);
  return sum / static_cast<double>(values.size() - 1);
}

// Standard error of mean(a) - mean(b) and Welch's degrees of freedom.
struct WelchScale {
  double difference;
  double error;
  double degrees;
};

WelchScale welch_scale(std::span<const double> a, std::span<const double> b) {
  const double na = static_cast<double>(a.size());
  const double nb = static_cast<double>(b.size());
  const double va = sample_variance(a) / na;
  const double vb = sample_variance(b) / nb;
  // NaN without variance.
  const double degrees = (va + vb) * (va + vb) / (va * va / (na - 1) + vb * vb / (nb - 1));
  return {mean_of(a) - mean_of(b), std::sqrt(va + vb), degrees};
}

// Lentz's continued fraction for the incomplete beta function (DLMF 8.17.22).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto guarded = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1;
  double d = 1 / guarded(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= 10'000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guarded(1 + even * d);
    c = guarded(1 + even / c);
    fraction *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guarded(1 + odd * d);
    c = guarded(1 + odd / c);
    const double step = c * d;
    fraction *= step;
    if (std::abs(step - 1) < 1e-15) break;
  }
  return fraction;
}

// Ranks of the joined samples, ties averaged; `tie_term` is the sum of t^3 - t over tie groups.
struct JointRanks {
  double rank_sum_a = 0;
  double tie_term = 0;
};

JointRanks joint_ranks(std::span<const double> a, std::span<const double> b) {
  std::vector<std::pair<double, bool>> joined;  // value, of a
  joined.reserve(a.size() + b.size());
  for (const double v : a) joined.emplace_back(v, true);
  for (const double v : b) joined.emplace_back(v, false);
  std::sort(joined.begin(), joined.end());
  JointRanks ranks;
  for (std::size_t begin = 0; begin < joined.size();) {
    std::size_t end = begin;
    while (end < joined.size() && joined[end].first == joined[begin].first) ++end;
    const double rank = static_cast<double>(begin + end + 1) / 2;
    const double ties = static_cast<double>(end - begin);
    ranks.tie_term += ties * ties * ties - ties;
    for (; begin < end; ++begin)
      if (joined[begin].second) ranks.rank_sum_a += rank;
  }
  return ranks;
}

// P(U >= u) for sample sizes m and n without ties: counts of arrangements by dynamic programming,
// as shares so that nothing overflows.
double exact_upper_tail(std::size_t m, std::size_t n, double u) {
  // counts[i][s]: subsets of size i of {1..k} with rank sum s, built up over k = 1..m+n.
  const std::size_t most = m * n + m * (m + 1) / 2;
  std::vector<std::vector<double>> counts(m + 1, std::vector<double>(most + 1, 0));
  counts[0][0] = 1;
  for (std::size_t k = 1; k <= m + n; ++k)
    for (std::size_t i = std::min(k, m); i >= 1; --i)
      for (std::size_t s = most; s >= k; --s) counts[i][s] += counts[i - 1][s - k];
  double total = 0;
  double tail = 0;
  for (std::size_t s = 0; s <= most; ++s) {
    total += counts[m][s];
    if (static_cast<double>(s) - static_cast<double>(m * (m + 1)) / 2 >= u) tail += counts[m][s];
  }
  return tail / total;
}

}  // namespace

Distribution::Distribution(std::vector<double> values) : sorted_(std::move(values)) {
  std::sort(sorted_.begin(), sorted_.end());
  if (sorted_.empty()) return;
  sum_ = std::accumulate(sorted_.begin(), sorted_.end(), 0.0);
  mean_ = sum_ / static_cast<double>(sorted_.size());
  double squares = 0;
  for (const double v : sorted_) squares += (v - mean_) * (v - mean_);
  std_dev_ = std::sqrt(squares / static_cast<double>(sorted_.size()));
}

double Distribution::percentile(double percent) const {
  CHECK(percent >= 0 && percent <= 100, "percentile {}", percent);
  if (empty()) return 0;
  const double position = percent / 100 * static_cast<double>(size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= size()) return sorted_.back();
  const double share = position - static_cast<double>(below);
  const double gap = sorted_[below + 1] - sorted_[below];
  // As numpy's lerp: from the nearer end, so that equal neighbours give themselves exactly.
  return share < 0.5 ? sorted_[below] + gap * share : sorted_[below + 1] - gap * (1 - share);
}

double Distribution::percentile_by_rank(double percent) const {
  CHECK(percent >= 0 && percent <= 100, "percentile {}", percent);
  if (empty()) return 0;
  // The slack keeps percentiles such as 95 of 20 on the rank they name, whatever 0.95 * 20 rounds
  // to.
  const double rank = std::ceil(percent / 100 * static_cast<double>(size()) - 1e-9);
  return sorted_[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

std::optional<Interval> percentile_interval(const Distribution& sample, double percent,
                                            double confidence) {
  const double q = percent / 100;
  const double tail = (1 - confidence) / 2;
  const auto n = static_cast<std::int64_t>(sample.size());
  if (n == 0 || q <= 0 || q >= 1) return std::nullopt;
  // Ranks from 1. low: the largest l with P(B <= l - 1) <= tail; high: the smallest u with
  // P(B >= u) <= tail, B binomial(n, q). Both by bisection: the tails are monotone.
  const auto cdf = [&](std::int64_t k) { return binomial_cdf(k, n, q); };
  if (cdf(0) > tail || 1 - cdf(n - 1) > tail) return std::nullopt;
  std::int64_t low = 1;
  for (std::int64_t beyond = n + 1; beyond - low > 1;) {
    const std::int64_t middle = low + (beyond - low) / 2;
    (cdf(middle - 1) <= tail ? low : beyond) = middle;
  }
  std::int64_t high = n;
  for (std::int64_t below = 0; high - below > 1;) {
    const std::int64_t middle = below + (high - below) / 2;
    (1 - cdf(middle - 1) <= tail ? high : below) = middle;
  }
  const auto values = sample.sorted();
  return Interval{values[static_cast<std::size_t>(low - 1)],
                  values[static_cast<std::size_t>(high - 1)]};
}

std::size_t samples_needed(double percent, double confidence) {
  const double q = percent / 100;
  if (q <= 0 || q >= 1) return std::numeric_limits<std::size_t>::max();
  const double tail = (1 - confidence) / 2;
  const double rarer = std::max(q, 1 - q);  // the side that is harder to bracket
  return static_cast<std::size_t>(std::ceil(std::log(tail) / std::log(rarer) - 1e-9));
}

std::optional<Interval> mean_interval(std::span<const double> values, double confidence) {
  if (values.size() < 2) return std::nullopt;
  const double n = static_cast<double>(values.size());
  const double half =
      student_quantile((1 + confidence) / 2, n - 1) * std::sqrt(sample_variance(values) / n);
  const double mean = mean_of(values);
  return Interval{mean - half, mean + half};
}

std::optional<TwoSampleTest> welch_test(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  const auto [difference, error, degrees] = welch_scale(a, b);
  if (error == 0) {
    const double infinite = std::numeric_limits<double>::infinity();
    if (difference == 0) return TwoSampleTest{0, 0, 1};
    return TwoSampleTest{std::copysign(infinite, difference), 0, 0};
  }
  const double t = difference / error;
  return TwoSampleTest{t, degrees, 2 * student_cdf(-std::abs(t), degrees)};
}

std::optional<Interval> welch_interval(std::span<const double> a, std::span<const double> b,
                                       double confidence) {
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  const auto [difference, error, degrees] = welch_scale(a, b);
  if (error == 0) return Interval{difference, difference};
  const double half = student_quantile((1 + confidence) / 2, degrees) * error;
  return Interval{difference - half, difference + half};
}

std::optional<TwoSampleTest> mann_whitney_test(std::span<const double> a,
                                               std::span<const double> b) {
  if (a.empty() || b.empty()) return std::nullopt;
  const double m = static_cast<double>(a.size());
  const double n = static_cast<double>(b.size());
  const auto [rank_sum, tie_term] = joint_ranks(a, b);
  const double u = rank_sum - m * (m + 1) / 2;
  const double larger = std::max(u, m * n - u);
  if (tie_term == 0 && std::min(a.size(), b.size()) <= 8 && a.size() + b.size() <= 400) {
    // The tail is symmetric: counting subsets of the smaller side is enough.
    const std::size_t few = std::min(a.size(), b.size());
    const std::size_t many = std::max(a.size(), b.size());
    return TwoSampleTest{u, 0, std::min(1.0, 2 * exact_upper_tail(few, many, larger))};
  }
  const double all = m + n;
  const double variance = m * n / 12 * (all + 1 - tie_term / (all * (all - 1)));
  if (variance <= 0) return TwoSampleTest{u, 0, 1};
  const double z = (larger - m * n / 2 - 0.5) / std::sqrt(variance);
  return TwoSampleTest{u, 0, std::min(1.0, 2 * normal_cdf(-z))};
}

std::optional<BootstrapResult> bootstrap_difference(std::span<const double> a,
                                                    std::span<const double> b,
                                                    const Statistic& statistic, std::uint64_t seed,
                                                    int resamples, double confidence) {
  if (a.empty() || b.empty()) return std::nullopt;
  Rng rng(seed);
  const auto resampled = [&](std::span<const double> from) {
    std::vector<double> values(from.size());
    for (double& v : values) v = from[rng.below(from.size())];
    return statistic(Distribution(std::move(values)));
  };
  std::vector<double> differences(static_cast<std::size_t>(resamples));
  for (double& difference : differences) {
    const double first = resampled(a);
    difference = first - resampled(b);
  }
  const auto not_above = std::count_if(differences.begin(), differences.end(),
                                       [](double difference) { return difference <= 0; });
  const auto not_below = std::count_if(differences.begin(), differences.end(),
                                       [](double difference) { return difference >= 0; });
  const double one_side = static_cast<double>(std::min(not_above, not_below)) / resamples;
  const Distribution drawn(std::move(differences));
  const double tail = 50 * (1 - confidence);
  return BootstrapResult{{drawn.percentile(tail), drawn.percentile(100 - tail)},
                         std::clamp(2 * one_side, 1.0 / resamples, 1.0)};
}

std::vector<double> holm_adjusted(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return p_values[x] < p_values[y]; });
  std::vector<double> adjusted(p_values.size());
  double running = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double scaled = p_values[order[i]] * static_cast<double>(order.size() - i);
    running = std::max(running, std::min(1.0, scaled));
    adjusted[order[i]] = running;
  }
  return adjusted;
}

double effective_samples(std::span<const double> series) {
  const double n = static_cast<double>(series.size());
  if (series.size() < 3) return n;
  const double mean = mean_of(series);
  double variance = 0;
  double covariance = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    variance += (series[i] - mean) * (series[i] - mean);
    if (i > 0) covariance += (series[i] - mean) * (series[i - 1] - mean);
  }
  if (variance == 0) return n;
  const double r = covariance / variance;
  return std::min(n, n * (1 - r) / (1 + r));
}

double incomplete_beta(double a, double b, double x) {
  CHECK(a > 0 && b > 0 && x >= 0 && x <= 1, "I({}, {}, {})", a, b, x);
  if (x == 0 || x == 1) return x;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  // The fraction converges fast on the near side of the mean; the other side is its complement.
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double binomial_cdf(std::int64_t k, std::int64_t n, double p) {
  if (k < 0) return 0;
  if (k >= n) return 1;
  return incomplete_beta(static_cast<double>(n - k), static_cast<double>(k + 1), 1 - p);
}

double student_cdf(double t, double degrees) {
  const double tail = 0.5 * incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
  return t < 0 ? tail : 1 - tail;
}

double student_quantile(double p, double degrees) {
  CHECK(p > 0 && p < 1, "quantile {}", p);
  if (p < 0.5) return -student_quantile(1 - p, degrees);
  double high = 1;
  while (student_cdf(high, degrees) < p) high *= 2;
  double low = 0;
  for (int i = 0; i < 200 && high - low > 1e-14 * high; ++i) {
    const double middle = (low + high) / 2;
    (student_cdf(middle, degrees) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

}  // namespace saccade::bench
