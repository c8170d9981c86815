// A run as vLLM's client reports it: console block in the labels of 2024 or of today, and the
// result JSON with its keys.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/metrics/metrics.h"

namespace saccade::bench {

enum class VllmLabels { kCurrent, k2024 };

struct VllmReportSettings {
  VllmLabels labels = VllmLabels::kCurrent;
  // Sections: ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue.
  std::vector<std::string> percentile_metrics = {"ttft", "tpot", "itl"};
  std::vector<double> percentiles = {99};
  bool save_detailed = false;  // JSON: per-request arrays too
};

// "ttft,tpot" and "50,99.9". kInvalid names what is not known.
Result<std::vector<std::string>> parse_percentile_metrics(std::string_view text);
Result<std::vector<double>> parse_percentiles(std::string_view text);

std::string vllm_block(const RunLog& log, const RunMetrics& metrics,
                       const VllmReportSettings& settings);
std::string vllm_json(const RunLog& log, const RunMetrics& metrics,
                      const VllmReportSettings& settings);

// "{label or backend}-{rate}qps[-concurrencyN]-{model}-{YYYYmmdd-HHMMSS}.json", in UTC.
std::string vllm_file_name(const RunHeader& header);

// Frame and rows of the block, which other reports share: 50 wide, label in 40, value in 10.
std::string block_title(std::string_view title, char fill);
std::string block_row(std::string_view label, std::int64_t value);
std::string block_row(std::string_view label, double value);  // two decimals
std::string block_row(std::string_view label, std::string_view value);
// A dash for what was not measured, never a zero.
template <typename Value>
std::string block_row(std::string_view label, const std::optional<Value>& value) {
  return value ? block_row(label, *value) : block_row(label, std::string_view("-"));
}
template <typename Value>
std::optional<Value> if_known(bool known, Value value) {
  return known ? std::optional(value) : std::nullopt;
}
// A section: its title, then mean, median and percentiles in milliseconds.
struct LatencySection {
  std::string_view title;
  std::string_view name;
  const Distribution* sample;
};
std::string latency_rows(const RunMetrics& metrics, const LatencySection& section,
                         std::span<const double> percentiles);
// In milliseconds; empty for an empty sample.
std::optional<double> mean_ms(const Distribution& sample);
std::optional<double> percentile_ms(const RunMetrics& metrics, const Distribution& sample,
                                    double percent);

// "inf" or "2.5" requests per second.
std::string rate_word(double rate);
// "99" or "99.9", as labels and keys have it.
std::string percentile_word(double percent);
// "20240607-153000" of a wall clock instant, UTC.
std::string file_date(std::int64_t wall_ns);

}  // namespace saccade::bench
