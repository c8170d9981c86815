// Is B better than A? Per metric: the difference, its interval, and a verdict that does not mistake
// noise for news.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/metrics/metric_table.h"

namespace saccade::bench {

struct CompareSettings {
  double confidence = 0.95;
  double min_effect = 0.02;  // smaller relative differences are never called better or worse
  std::uint64_t seed = 0;    // of the bootstrap
  int resamples = 2'000;
};

enum class Verdict {
  kBetter,
  kWorse,
  kSame,        // the whole interval lies within the minimum effect
  kNoEvidence,  // neither: more runs or requests are needed
};
std::string_view name_of(Verdict verdict);

struct Comparison {
  std::string name;
  double a = 0;  // mean over runs
  double b = 0;
  double effect = 0;                 // (b - a) / a
  std::optional<Interval> interval;  // of the effect
  std::optional<double> p_value;     // adjusted over all metrics (Holm)
  Verdict verdict = Verdict::kNoEvidence;
};

struct CompareResult {
  std::vector<Comparison> rows;
  // "Welch over runs" with at least 3 runs a side, else "requests of single runs": these are not
  // independent of each other, so that its p-values are too small by an unknown amount.
  bool over_runs = false;
  std::vector<std::string> warnings;  // what differs besides what is compared
  bool any_worse = false;
};

struct Side {
  std::vector<RunLog> logs;
  std::vector<RunMetrics> metrics;  // of the same runs
};

CompareResult compare(const Side& a, const Side& b, const CompareSettings& settings = {});
std::string to_text(const CompareResult& result);

}  // namespace saccade::bench
