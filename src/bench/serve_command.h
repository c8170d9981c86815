// `saccade bench serve`: datasets, load, checks and reports put together.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "bench/load/leg_runner.h"

namespace saccade::bench {

struct ServeOutcome {
  std::string text;          // for standard output
  int exit_code = 0;         // 1: failures over the limit, a warm cache, or interrupted
  std::vector<RunLog> logs;  // one a run
};

// Every run that the settings ask for (rates or levels, times repeats). Notes go to stderr. `stop`
// ends the run that goes on, and all later ones; what was measured is written and reported.
Result<ServeOutcome> serve(const ServeSettings& settings, std::atomic<bool>& stop);

// The runs that the settings ask for: levels, a sweep of rates, or one.
Result<std::vector<Leg>> legs_of(const LoadChoice& load);
// The first of them.
Result<RunLog> run_once(const ServeSettings& settings, std::atomic<bool>& stop);

// Files of one run, by the settings' names; `suffix` tells runs apart ("-2"). Returns what was
// written.
Result<std::vector<std::string>> write_outputs(const ServeSettings& settings, const RunLog& log,
                                               const std::string& suffix);
// Whether they can be written: before anything is measured.
Result<void> check_outputs(const OutputChoice& out);
ReportSettings report_settings(const ServeSettings& settings);

}  // namespace saccade::bench
