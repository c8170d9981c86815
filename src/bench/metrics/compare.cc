#include "bench/metrics/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace saccade::bench {
namespace {

constexpr std::size_t kRunsForWelch = 3;
constexpr std::size_t kMaxResampled = 20'000;  // requests; beyond, the bootstrap thins

// One metric on both sides.
struct Paired {
  MetricRow first;  // of A's first run: name and direction
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> requests_a;  // pooled samples in seconds, for statistics of requests
  std::vector<double> requests_b;
};

void append_sample(const MetricRow& row, std::vector<double>& to) {
  if (row.sample == nullptr) return;
  const auto values = row.sample->sorted();
  to.insert(to.end(), values.begin(), values.end());
}

// Few metrics, for the more there are the more each must prove: rates, and mean and P99 of
// latencies from the start.
bool is_compared(const MetricRow& row) {
  if (row.key.find("from_schedule") != std::string::npos) return false;
  return row.sample == nullptr || row.percentile < 0 || row.percentile == 99;
}

std::vector<Paired> pair_up(const Side& a, const Side& b) {
  std::vector<Paired> paired;
  std::map<std::string, std::size_t> place;
  for (const MetricRow& row : metric_table(a.metrics.front())) {
    if (!is_compared(row)) continue;
    place[row.key] = paired.size();
    paired.push_back({.first = row, .a = {}, .b = {}, .requests_a = {}, .requests_b = {}});
  }
  const auto gather = [&](const Side& side, bool is_a) {
    for (const RunMetrics& run : side.metrics) {
      for (const MetricRow& row : metric_table(run)) {
        const auto at = place.find(row.key);
        if (at == place.end()) continue;
        Paired& pair = paired[at->second];
        (is_a ? pair.a : pair.b).push_back(row.value);
        append_sample(row, is_a ? pair.requests_a : pair.requests_b);
      }
    }
  };
  gather(a, true);
  gather(b, false);
  // A metric must be known in every run.
  std::erase_if(paired, [&](const Paired& pair) {
    return pair.a.size() != a.metrics.size() || pair.b.size() != b.metrics.size();
  });
  return paired;
}

std::vector<double> thinned(std::vector<double> values) {
  if (values.size() <= kMaxResampled) return values;
  std::sort(values.begin(), values.end());
  std::vector<double> kept;
  for (std::size_t i = 0; i < kMaxResampled; ++i)
    kept.push_back(values[i * values.size() / kMaxResampled]);
  return kept;
}

Comparison compare_metric(const Paired& pair, bool over_runs, const CompareSettings& settings) {
  Comparison row;
  row.name = pair.first.name;
  row.a = Distribution(pair.a).mean();
  row.b = Distribution(pair.b).mean();
  if (row.a == 0) {
    row.effect = row.b == 0 ? 0 : std::copysign(INFINITY, row.b);
  } else {
    row.effect = (row.b - row.a) / std::abs(row.a);
  }
  std::optional<Interval> difference;
  if (over_runs) {
    difference = welch_interval(pair.b, pair.a, settings.confidence);
    row.p_value = welch_test(pair.b, pair.a)->p_value;
  } else if (!pair.requests_a.empty() && !pair.requests_b.empty()) {
    const double percentile = pair.first.percentile;
    const auto statistic = [percentile](const Distribution& d) {
      return (percentile < 0 ? d.mean() : d.percentile(percentile)) * 1e3;
    };
    const auto a = thinned(pair.requests_a);
    const auto b = thinned(pair.requests_b);
    const auto bootstrap = bootstrap_difference(b, a, statistic, settings.seed, settings.resamples,
                                                settings.confidence);
    difference = bootstrap->interval;
    // Mann-Whitney sees a shift of the whole sample, which says nothing of a percentile alone.
    row.p_value = percentile < 0 ? mann_whitney_test(b, a)->p_value : bootstrap->p_value;
  }
  if (difference && row.a != 0)
    row.interval = Interval{difference->low / std::abs(row.a), difference->high / std::abs(row.a)};
  return row;
}

Verdict judge(const Comparison& row, bool higher_is_better, const CompareSettings& settings) {
  if (!row.p_value || !row.interval) {
    // No spread to judge by, but nothing changed from or to zero either.
    return row.a == row.b ? Verdict::kSame : Verdict::kNoEvidence;
  }
  const bool apart = row.interval->low > 0 || row.interval->high < 0;
  if (*row.p_value < 1 - settings.confidence && apart &&
      std::abs(row.effect) >= settings.min_effect)
    return (row.effect > 0) == higher_is_better ? Verdict::kBetter : Verdict::kWorse;
  const bool within =
      row.interval->low >= -settings.min_effect && row.interval->high <= settings.min_effect;
  return within ? Verdict::kSame : Verdict::kNoEvidence;
}

std::vector<std::string> differences(const Side& a, const Side& b) {
  std::vector<std::string> warnings;
  const RunHeader& first = a.logs.front().header;
  const auto differs = [&](std::string_view what, auto member) {
    for (const Side* side : {&a, &b}) {
      for (const RunLog& log : side->logs) {
        if (log.header.*member == first.*member) continue;
        warnings.push_back(fmt::format("the runs differ in their {}", what));
        return;
      }
    }
  };
  differs("dataset", &RunHeader::dataset_hash);
  differs("request rate", &RunHeader::request_rate);
  differs("concurrency cap", &RunHeader::max_concurrency);
  differs("endpoint", &RunHeader::endpoint);
  differs("number of prompts", &RunHeader::num_prompts);
  for (const Side* side : {&a, &b})
    for (std::size_t i = 0; i < side->logs.size(); ++i)
      if (side->metrics[i].failed > 0)
        warnings.push_back(fmt::format("run {} of {} has {} failed requests", i + 1,
                                       side == &a ? "A" : "B", side->metrics[i].failed));
  return warnings;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"better", "WORSE", "same", "no evidence"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

CompareResult compare(const Side& a, const Side& b, const CompareSettings& settings) {
  CompareResult result;
  if (a.metrics.empty() || b.metrics.empty()) return result;
  result.over_runs = a.metrics.size() >= kRunsForWelch && b.metrics.size() >= kRunsForWelch;
  const std::vector<Paired> paired = pair_up(a, b);
  std::vector<double> p_values;
  for (const Paired& pair : paired) {
    result.rows.push_back(compare_metric(pair, result.over_runs, settings));
    if (result.rows.back().p_value) p_values.push_back(*result.rows.back().p_value);
  }
  const std::vector<double> adjusted = holm_adjusted(p_values);
  std::size_t next = 0;
  for (std::size_t i = 0; i < paired.size(); ++i) {
    Comparison& row = result.rows[i];
    if (row.p_value) row.p_value = adjusted[next++];
    row.verdict = judge(row, paired[i].first.higher_is_better, settings);
    result.any_worse = result.any_worse || row.verdict == Verdict::kWorse;
  }
  result.warnings = differences(a, b);
  return result;
}

std::string to_text(const CompareResult& result) {
  std::string out = fmt::format("{:<30} {:>12} {:>12} {:>9} {:>22} {:>9}  {}\n", "metric", "A", "B",
                                "effect", "interval", "p (Holm)", "verdict");
  for (const Comparison& row : result.rows) {
    const std::string interval =
        row.interval ? fmt::format("[{:+.1f} %, {:+.1f} %]", row.interval->low * 100,
                                   row.interval->high * 100)
                     : "-";
    out +=
        fmt::format("{:<30} {:>12.2f} {:>12.2f} {:>+8.1f}% {:>22} {:>9}  {}\n", row.name, row.a,
                    row.b, row.effect * 100, interval,
                    row.p_value ? fmt::format("{:.4f}", *row.p_value) : "-", name_of(row.verdict));
  }
  out += result.over_runs
             ? "Welch's t test over runs\n"
             : "Fewer than 3 runs a side: bootstrap and Mann-Whitney over requests, which are not "
               "independent; rates have no interval. Repeat the runs (--repeat) to be sure.\n";
  for (const std::string& warning : result.warnings) out += "warning: " + warning + "\n";
  return out;
}

}  // namespace saccade::bench
