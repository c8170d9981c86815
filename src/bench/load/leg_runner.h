// Runs of one workload against one server: the server waited for, model, tokenizer and dataset
// found once, then as many runs as are asked for.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "bench/load/measured_run.h"
#include "bench/load/server/server_process.h"
#include "bench/metrics/metrics.h"
#include "bench/serve_settings.h"

namespace saccade::bench {

// One run of a sweep.
struct Leg {
  double request_rate = 0;
  std::int64_t concurrency = 0;  // 0: no cap
  bool closed_loop = false;
};

// A server and what is needed to ask it.
struct Session {
  std::unique_ptr<ServerProcess> process;  // of --server-cmd; null without one, and once stopped
  ServerTarget target;
  std::string model;
  ServerDescription server;
  std::string tokenizer_path;            // as it was given, or where one was found
  std::unique_ptr<Tokenizer> tokenizer;  // null without one
  std::unique_ptr<TextSource> text;
};
// Starts the server when the settings have a command for it, waits for it as long as they say,
// finds model and tokenizer. kUnavailable when it is not ready in time, or ends by itself.
Result<Session> open_session(const ServeSettings& settings);
DatasetContext dataset_context(const ServeSettings& settings, const Session& session);
RunHeader run_header(const ServeSettings& settings, const Session& session, const Dataset& dataset);

void note(std::string_view line);  // to stderr
// The failed requests and what the first of each class says, when there are any.
void note_failures(const RunLog& log, const RunMetrics& metrics);
// Notes them; 1 when there are any or the run was interrupted, else 0.
int exit_code_of(const RunLog& log);

class LegRunner {
 public:
  // Both must outlive it.
  LegRunner(const ServeSettings& settings, std::atomic<bool>& stop);
  ~LegRunner();

  // Server started when the settings have a command for it, warm-up, cache reset, run; then that
  // server is stopped.
  Result<RunLog> run(const Leg& leg);
  // Of the runs so far; after the first one.
  const Dataset& dataset() const;

 private:
  class Workload;
  Result<void> load_workload();
  Result<ArrivalPlan> arrivals(const Leg& leg) const;
  Result<RunSettings> run_settings(const Leg& leg) const;
  // The first request shows whether anything can be measured, and what the server refuses.
  Result<void> get_ready(RunSettings& run);

  const ServeSettings& s_;
  std::atomic<bool>& stop_;
  std::optional<Session> session_;
  std::optional<Trace> trace_;
  std::unique_ptr<Workload> workload_;
};

}  // namespace saccade::bench
