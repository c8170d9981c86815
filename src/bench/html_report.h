// One HTML file that shows one or several runs: no network, charts drawn by the script inside
// (web/src/report.js).
#pragma once

#include <span>
#include <string>

#include "bench/metrics.h"
#include "bench/run_log.h"

namespace saccade::bench {

struct ReportedRun {
  std::string name;  // the label, or the file's name: distinct
  const RunLog* log = nullptr;
  const RunMetrics* metrics = nullptr;
};

// The data that the script reads, and the whole page. Times are seconds and milliseconds since the
// run's first request.
std::string report_json(std::span<const ReportedRun> runs);
std::string html_report(std::span<const ReportedRun> runs);

}  // namespace saccade::bench
