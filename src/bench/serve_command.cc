#include "bench/serve_command.h"

#include <limits>

#include "bench/load/server/run_health.h"

namespace saccade::bench {
namespace {

bool same_prefixes_are_meant(const Dataset& dataset) {
  return dataset.name.find("prefix") != std::string::npos || dataset.name == "multi-turn";
}

class Serve {
 public:
  Serve(const ServeSettings& settings, std::atomic<bool>& stop)
      : s_(settings), stop_(stop), runner_(settings, stop) {}

  Result<ServeOutcome> run() {
    TRY_DO(check(s_));
    TRY(const std::vector<Leg> legs, legs_of(s_.load));
    TRY_DO(check_outputs(s_.output));
    for (const Leg& leg : legs) {
      for (int round = 0; round < s_.check.repeat && !stop_.load(); ++round) {
        auto log = runner_.run(leg);
        if (!log) {
          // What was measured before is on disk and is reported; the error ends the sweep.
          if (outcome_.logs.empty()) return fail(std::move(log).error());
          note(log.error().message);
          outcome_.exit_code = 1;
          return std::move(outcome_);
        }
        TRY_DO(report(*std::move(log), legs.size() * static_cast<std::size_t>(s_.check.repeat)));
      }
    }
    TRY_DO(summarise(legs.size()));
    return std::move(outcome_);
  }

 private:
  Result<void> report(RunLog log, std::size_t runs) {
    const std::string suffix = runs > 1 ? fmt::format("-{}", outcome_.logs.size() + 1) : "";
    TRY(const auto written, write_outputs(s_, log, suffix));
    for (const std::string& path : written) note("written: " + path);
    TRY(const std::string text, report_runs({log}, report_settings(s_)));
    outcome_.text += text;
    judge(log);
    outcome_.logs.push_back(std::move(log));
    return {};
  }

  void judge(const RunLog& log) {
    const RunMetrics metrics = compute_metrics(log);
    const double limit = s_.check.max_failures < 1
                             ? s_.check.max_failures * static_cast<double>(metrics.requests.size())
                             : s_.check.max_failures;
    note_failures(log, metrics);
    if (static_cast<double>(metrics.failed) > limit) outcome_.exit_code = 1;
    if (log.stop_reason == "interrupted") outcome_.exit_code = 1;
    if (s_.check.require_cold && !same_prefixes_are_meant(runner_.dataset()) &&
        judge_cache(log, metrics).contaminated) {
      note("--require-cold: the server's cache knew the prompts");
      outcome_.exit_code = 1;
    }
  }

  Result<void> summarise(std::size_t legs) {
    if (outcome_.logs.size() < 2) return {};
    ReportSettings table = report_settings(s_);
    table.format = "markdown";
    TRY(const std::string markdown, report_runs(outcome_.logs, table));
    outcome_.text += markdown;
    if (legs > 1) return {};
    TRY(const MetricOptions options, metric_options(resolved_compat(s_), s_.output.goodput));
    std::vector<RunMetrics> runs;
    for (const RunLog& log : outcome_.logs) runs.push_back(compute_metrics(log, options));
    outcome_.text += repeat_summary(runs);
    return {};
  }

  const ServeSettings& s_;
  std::atomic<bool>& stop_;
  LegRunner runner_;
  ServeOutcome outcome_;
};

}  // namespace

Result<std::vector<Leg>> legs_of(const LoadChoice& load) {
  const Leg plain{load.arrivals.request_rate, load.max_concurrency, load.closed_loop};
  std::vector<Leg> legs;
  for (const std::int64_t level : load.levels)
    legs.push_back({std::numeric_limits<double>::infinity(), level, true});
  if (!load.rate_sweep.empty()) {
    TRY(const auto rates, parse_rate_sweep(load.rate_sweep));
    for (const double rate : rates) legs.push_back({rate, load.max_concurrency, false});
  }
  if (legs.empty()) legs.push_back(plain);
  return legs;
}

Result<RunLog> run_once(const ServeSettings& settings, std::atomic<bool>& stop) {
  LegRunner runner(settings, stop);
  TRY(const auto legs, legs_of(settings.load));
  return runner.run(legs.front());
}

Result<ServeOutcome> serve(const ServeSettings& settings, std::atomic<bool>& stop) {
  return Serve(settings, stop).run();
}

}  // namespace saccade::bench
