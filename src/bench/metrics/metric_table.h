// The metrics of a run as rows, for tables, comparisons and searches.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/metrics/metrics.h"

namespace saccade::bench {

struct MetricRow {
  std::string key;   // "p99_ttft_ms", as the JSON reports have it
  std::string name;  // "P99 TTFT (ms)"
  bool higher_is_better = false;
  double value = 0;
  // The sample and how to reduce it, for metrics that are statistics of requests; null for rates.
  const Distribution* sample = nullptr;  // in seconds; of the RunMetrics given
  double percentile = -1;                // -1: the mean
};

// Rates first, then mean, median, P90, P99 of each latency that was measured.
std::vector<MetricRow> metric_table(const RunMetrics& metrics);

// One run a row: label, load, counts, rates, latencies.
struct NamedRun {
  std::string name;
  const RunLog* log = nullptr;
  const RunMetrics* metrics = nullptr;
};
std::string markdown_table(std::span<const NamedRun> runs);

// Several runs of one configuration: mean over runs with its 95 % t-interval, per metric.
std::string repeat_summary(std::span<const RunMetrics> runs);

}  // namespace saccade::bench
