// May a run be believed? Was the client what limited it, was the server overloaded, was its cache
// warm?
#pragma once

#include <string>
#include <vector>

#include "bench/metrics/metrics.h"

namespace saccade::bench {

struct ClientVerdict {
  bool limiting = false;
  std::vector<std::string> reasons;  // why it is, each with value and limit
  double lateness_p99_s = 0;
  double lateness_max_s = 0;
  double loop_lag_p99_s = 0;
  double cpu_share = 0;  // of the client's threads; 1: all of them busy all the time
};

// The queue grows for as long as requests arrive: latency is then a property of the run's length.
struct OverloadVerdict {
  bool overloaded = false;
  double in_flight_slope = 0;  // requests per second of arrivals
  double ttft_slope = 0;       // seconds of TTFT (from schedule) per second of arrivals
  std::int64_t unfinished = 0;
};

// A prefix or image cache that already knew what it was asked.
struct CacheVerdict {
  std::int64_t cached_tokens = 0;     // as usage says, over successes
  double cached_share = 0;            // of their prompt tokens
  std::int64_t repeated_prompts = 0;  // requests whose content was asked before in this run
  bool reset = false;                 // the caches were emptied before the run
  // Over a tenth of the prompt tokens were cached in requests whose content is new in this run:
  // more than a shared beginning explains. Never after a reset, nor for datasets of shared
  // prefixes.
  bool contaminated = false;
};

ClientVerdict judge_client(const RunLog& log, const RunMetrics& metrics);
OverloadVerdict judge_overload(const RunLog& log, const RunMetrics& metrics);
CacheVerdict judge_cache(const RunLog& log, const RunMetrics& metrics);

// "3 of 8 requests failed: 2 http: HTTP 400: ...; 1 empty: ...", each class with what its first
// request says, whatever the rules call a success; empty when none failed.
std::string failures_line(const RunLog& log, const RunMetrics& metrics);

// What the block does not say, for below it: errors by class, latency from the schedule,
// percentiles with n and interval, token sources, images, the three verdicts, provenance.
std::string health_text(const RunLog& log, const RunMetrics& metrics);

}  // namespace saccade::bench
