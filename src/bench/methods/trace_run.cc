// The replay of a peak trace with answers kept.
#include <filesystem>

#include "bench/datasets/text_file.h"
#include "bench/load/leg_runner.h"
#include "bench/methods/seed_methods.h"
#include "bench/reports/cdf_svg.h"
#include "bench/reports/genai_report.h"
#include "bench/serve_command.h"

namespace saccade::bench {
namespace {

// "7" of "7", and the file's name without its ending otherwise.
std::string trace_id(const std::string& trace) {
  return std::filesystem::path(trace).stem().string();
}

Result<void> write_cdf_file(const std::string& path, const std::string& title,
                            const std::string& axis, const Distribution& sample, double x_max) {
  const std::vector<CdfCurve> curves = {{axis, &sample}};
  return write_text_file(path,
                         cdf_svg(curves, {.title = title, .axis = axis + " (s)", .x_max = x_max}));
}

}  // namespace

Result<MethodOutcome> trace_run(const TraceRunSettings& settings, std::atomic<bool>& stop) {
  ServeSettings s = settings.serve;
  if (s.load.trace.empty())
    return fail(ErrorCode::kInvalid, "--trace-file is required: 4, 5, 7, 10 or a file");
  if (s.check.repeat != 1 || !s.load.rate_sweep.empty() || !s.load.levels.empty())
    return fail(ErrorCode::kInvalid,
                "a trace is replayed once: --repeat, --request-rate-sweep and --num-concurrency "
                "belong to bench serve");
  // A file of rows instead of the hub's dataset.
  if (s.data.name == "hf" && std::filesystem::is_regular_file(s.data.path))
    s.data.name = "sharegpt4o";
  s.load.gap_after_last = true;
  s.load.duration_s = settings.max_time_per_run_min * 60;
  if (!s.body.temperature) s.body.temperature = 0.0;
  s.output.keep_texts = true;
  TRY_DO(check(s));

  TRY(const RunLog log, run_once(s, stop));
  TRY(const MetricRules rules, metric_rules_named("genai-bench"));
  const RunMetrics metrics = compute_metrics(log, {.rules = rules});

  const std::string id = trace_id(s.load.trace);
  const std::filesystem::path folder =
      std::filesystem::path(settings.experiments) / settings.task_name;
  const std::string base = (folder / ("Trace with Peak QPS_" + id)).string();
  const GenaiReportSettings level{
      .scenario = "dataset", .iteration_type = "poisson_arrival_rate", .level = 0};
  TRY_DO(write_text_file(base + ".json", genai_json(log, metrics, level)));
  TRY_DO(write_text_file((folder / "experiment_metadata.json").string(),
                         genai_metadata_json(log, level)));
  TRY_DO(write_run_log(log, base + ".run.jsonl"));
  TRY_DO(write_outputs(s, log, "").map([](const auto&) {}));
  // The published figure ends at 3 s; ours does when everything is within it.
  const double x_max = metrics.ttft.max() <= 3 ? 3 : 0;
  TRY_DO(write_cdf_file(base + "_ttft_cdf.svg", settings.task_name, "TTFT", metrics.ttft, x_max));
  TRY_DO(write_cdf_file(base + "_e2e_cdf.svg", settings.task_name, "E2E latency", metrics.e2el, 0));

  MethodOutcome outcome;
  ReportSettings report = report_settings(s);
  report.compat = s.output.compat == "auto" ? "genai-bench" : s.output.compat;
  TRY(outcome.text, report_runs({log}, report));
  outcome.text += base + ".json\n";
  outcome.exit_code = exit_code_of(log);
  return outcome;
}

}  // namespace saccade::bench
