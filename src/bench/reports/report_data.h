// What the HTML report shows, as JSON for its script (web/src/).
#pragma once

#include <span>
#include <string>

#include "bench/log/run_log.h"
#include "bench/metrics/metrics.h"

namespace saccade::bench {

struct ReportedRun {
  std::string name;  // the label, or the file's name: distinct
  const RunLog* log = nullptr;
  const RunMetrics* metrics = nullptr;
};

// {"generator", "runs": [...]}. Instants are seconds since the run's origin, latencies
// milliseconds, bytes bytes. Every run after the first says how it differs from the first. Long
// runs are thinned: distributions to 2,000 points, series to 600, requests to 4,000 and stages to
// 400 of them.
std::string report_json(std::span<const ReportedRun> runs);

// The run's settings and surroundings, for people; empty values left out.
StringPairs configuration_of(const RunLog& log);

}  // namespace saccade::bench
