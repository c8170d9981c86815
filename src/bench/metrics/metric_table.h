// The metrics of a run as rows, for tables, comparisons and searches.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/metrics/metrics.h"

namespace saccade::bench {

// A latency of a run, with the key and the name that reports have for it.
struct Latency {
  std::string_view key;
  std::string_view name;
  Distribution RunMetrics::* sample;
};
constexpr std::array<Latency, 6> kLatencies = {{
    {"ttft", "TTFT", &RunMetrics::ttft},
    {"ttft_from_schedule", "TTFT from schedule", &RunMetrics::ttft_from_schedule},
    {"tpot", "TPOT", &RunMetrics::tpot},
    {"itl", "ITL", &RunMetrics::itl},
    {"e2el", "E2EL", &RunMetrics::e2el},
    {"e2el_from_schedule", "E2EL from schedule", &RunMetrics::e2el_from_schedule},
}};

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
