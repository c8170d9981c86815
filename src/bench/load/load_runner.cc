// The run as a whole: begins, watches, stops, gathers.
#include "bench/load/load_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "bench/load/load_worker.h"

namespace saccade::bench {
namespace {

constexpr Nanos kLead = 20 * kMillisecond;  // from the start of the threads to the run's origin
constexpr Nanos kLookPeriod = 5 * kMillisecond;

using Workers = std::vector<std::unique_ptr<LoadWorker>>;

LoadProgress progress_of(const LoadRun& run, const Workers& workers, Nanos elapsed) {
  LoadProgress p;
  p.elapsed = elapsed;
  p.planned = run.requests.size() + run.follow_ups.load();
  p.due = static_cast<std::uint64_t>(
      std::upper_bound(run.arrivals.due.begin(), run.arrivals.due.end(), elapsed) -
      run.arrivals.due.begin());
  LatencyHistogram ttft;
  for (const auto& worker : workers) {
    p.ended += worker->ended.load(std::memory_order_relaxed);
    p.started += worker->started.load(std::memory_order_relaxed);
    p.failed += worker->failed.load(std::memory_order_relaxed);
    p.output_events += worker->output_events.load(std::memory_order_relaxed);
    p.output_tokens += worker->output_tokens.load(std::memory_order_relaxed);
    ttft.merge(worker->ttft);
  }
  p.ttft_p50 = ttft.quantile(0.5);
  p.ttft_p99 = ttft.quantile(0.99);
  p.draining = run.stopping;
  return p;
}

// Those that wait for a slot will not get one: they are in the log as never begun, as leaving them
// out would hide how late they already were. In a closed loop they were never due.
void give_up_waiting(LoadRun& run, Recorder& recorder) {
  for (const std::uint32_t index : run.admission.give_up()) {
    run.open.fetch_sub(1);
    if (run.arrivals.closed_loop) continue;
    RequestRecord record = record_of(index, run.requests[index]);
    record.scheduled = run.arrivals.due[index];
    record.failure = TransportFailure::kUnfinished;
    record.error = recorder.keep("the run ended before the concurrency cap let it go");
    recorder.finish(record);
  }
}

// Waits for the end, for the duration, or for the stop flag; returns the stop reason.
std::string watch(LoadRun& run, const Workers& workers, LoadControl& control, Recorder& recorder) {
  const SteadyClock clock;
  const LoadSettings& settings = run.settings;
  std::string reason = "complete";
  Nanos give_up_at = std::numeric_limits<Nanos>::max();
  Nanos next_progress = 0;
  while (!run.finished()) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLookPeriod));
    const Nanos elapsed = clock.now() - run.origin;
    if (control.stop) {
      reason = "interrupted";
      break;
    }
    if (settings.duration > 0 && elapsed >= settings.duration && !run.stopping) {
      reason = "duration";
      run.stopping = true;
      give_up_at = elapsed + settings.drain_limit;
    }
    if (run.stopping) give_up_waiting(run, recorder);
    if (elapsed >= give_up_at) break;
    if (control.on_progress && elapsed >= next_progress) {
      control.on_progress(progress_of(run, workers, elapsed));
      next_progress = elapsed + control.progress_period;
    }
  }
  // Before the flights are cancelled: each would hand its slot to a request that waits.
  run.stopping = true;
  give_up_waiting(run, recorder);
  return reason;
}

ClientLoad load_of(const Workers& workers, Nanos wall) {
  ClientLoad load;
  LatencyHistogram lag;
  load.threads = static_cast<std::int32_t>(workers.size());
  load.wall_seconds = seconds(wall);
  for (const auto& worker : workers) {
    const net::ClientCounters counters = worker->counters();
    load.cpu_seconds += seconds(counters.cpu_time);
    load.connects += counters.connects;
    load.bytes_sent += counters.bytes_sent;
    load.bytes_received += counters.bytes_received;
    lag.merge(worker->loop_lag);
  }
  load.loop_lag_p50 = lag.quantile(0.5);
  load.loop_lag_p99 = lag.quantile(0.99);
  load.loop_lag_max = lag.max();
  return load;
}

}  // namespace

std::vector<std::string> LoadSettings::problems() const {
  std::vector<std::string> found;
  constexpr int kMaxThreads = 256;
  if (threads < 1 || threads > kMaxThreads) {
    found.push_back(fmt::format("threads is {}, not 1 to {}", threads, kMaxThreads));
  }
  if (max_concurrency < 0) {
    found.push_back(fmt::format("max concurrency is {}", max_concurrency));
  }
  if (duration < 0 || drain_limit < 0) found.emplace_back("a negative duration");
  if (request_timeout <= 0) found.emplace_back("the request timeout is not positive");
  return found;
}

Result<RunLog> run_load(const LoadSettings& settings, const ArrivalPlan& arrivals,
                        const std::vector<LoadRequest>& requests, std::vector<PromptRecord> prompts,
                        RunHeader header, LoadControl& control) {
  if (const auto problems = settings.problems(); !problems.empty()) {
    return fail(ErrorCode::kInvalid, "load: {}", fmt::join(problems, "; "));
  }
  if (arrivals.due.size() != requests.size()) {
    return fail(ErrorCode::kInvalid, "load: {} arrivals for {} requests", arrivals.due.size(),
                requests.size());
  }
  if (arrivals.closed_loop && settings.max_concurrency == 0) {
    return fail(ErrorCode::kInvalid, "a closed loop needs a concurrency cap");
  }
  LoadRun run{settings, arrivals, requests, 0, Admission(settings.max_concurrency)};
  run.arrivals_left = requests.size();
  run.next_index = static_cast<std::uint32_t>(requests.size());
  Workers workers;
  const auto stride = static_cast<std::uint32_t>(settings.threads);
  for (std::uint32_t i = 0; i < stride; ++i) {
    TRY(auto worker, LoadWorker::create(run, i, stride));
    workers.push_back(std::move(worker));
  }
  run.origin = steady_now() + kLead;
  header.origin_wall_ns = wall_clock_now() + kLead;
  for (const auto& worker : workers) worker->start();
  Recorder never_begun(run.origin);
  std::string reason = watch(run, workers, control, never_begun);
  const Nanos wall = steady_now() - run.origin;
  const ClientLoad load = load_of(workers, wall);
  if (control.on_progress) control.on_progress(progress_of(run, workers, wall));

  std::vector<Recorder> recorders;
  for (const auto& worker : workers) recorders.push_back(worker->finish());
  give_up_waiting(run, never_begun);
  recorders.push_back(std::move(never_begun));
  header.arrivals = arrivals.name;
  header.arrival_hash = arrival_hash(arrivals.due);
  header.max_concurrency = settings.max_concurrency;
  header.num_prompts = static_cast<std::int64_t>(requests.size());
  RunLog log = merge(std::move(header), std::move(prompts), std::move(recorders));
  log.client = load;
  log.stop_reason = std::move(reason);
  return log;
}

}  // namespace saccade::bench
