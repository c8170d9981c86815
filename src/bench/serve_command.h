// `saccade bench serve`: datasets, load, checks and reports put together.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "bench/measured_run.h"
#include "bench/serve_settings.h"

namespace saccade::bench {

struct ServeOutcome {
  std::string text;          // for standard output
  int exit_code = 0;         // 1: failures over the limit, a warm cache, or interrupted
  std::vector<RunLog> logs;  // one a run
};

// Every run that the settings ask for (rates or levels, times repeats). Notes go to stderr. `stop`
// ends the run that goes on, and all later ones; what was measured is written and reported.
Result<ServeOutcome> serve(const ServeSettings& settings, std::atomic<bool>& stop);

// A server and what is needed to ask it: shared by `serve` and the methods of the seed documents.
struct Session {
  ServerTarget target;
  std::string model;
  ServerDescription server;
  std::unique_ptr<Tokenizer> tokenizer;  // null without one
  std::unique_ptr<TextSource> text;
};
// Waits for the server as long as the settings say, finds model and tokenizer.
Result<Session> open_session(const ServeSettings& settings);
DatasetContext dataset_context(const ServeSettings& settings, const Session& session);
RunHeader run_header(const ServeSettings& settings, const Session& session, const Dataset& dataset);

// Files of one run, by the settings' names; `suffix` tells runs apart ("-2"). Returns what was
// written.
Result<std::vector<std::string>> write_outputs(const ServeSettings& settings, const RunLog& log,
                                               const std::string& suffix);
ReportSettings report_settings(const ServeSettings& settings);

void note(std::string_view line);  // to stderr

}  // namespace saccade::bench
