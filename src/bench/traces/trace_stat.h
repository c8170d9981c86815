// What a trace is like: rates, burstiness, peaks, lengths, reuse.
#pragma once

#include <span>
#include <string>

#include "bench/metrics/statistics.h"
#include "bench/traces/trace.h"

namespace saccade::bench {

// Arrivals in the busiest of the bins [origin + k width, origin + (k + 1) width).
std::int64_t busiest_bin(std::span<const Nanos> due, Nanos width);
// Arrivals in the busiest window [t, t + width) of any t. `due` is sorted.
std::int64_t busiest_window(std::span<const Nanos> due, Nanos width);

struct TraceStat {
  std::size_t requests = 0;
  double span_s = 0;  // first to last arrival
  double mean_rate = 0;
  double gap_mean_s = 0;
  double gap_cv = 0;  // standard deviation of the gaps over their mean; 1 for a Poisson process
  std::size_t zero_gaps = 0;
  std::size_t distinct_stamps = 0;
  double peak_bins_1s = 0;  // arrivals per second
  double peak_1s = 0;       // sliding windows from here on
  double peak_10s = 0;
  double peak_60s = 0;
  Distribution input_tokens;  // of the rows that say
  Distribution output_tokens;
  Distribution images;
  std::size_t hash_blocks = 0;
  std::size_t repeated_blocks = 0;  // occurrences of a prefix block seen before
};
TraceStat describe(const Trace& trace);

// A table for people.
std::string to_text(const TraceStat& stat);

}  // namespace saccade::bench
