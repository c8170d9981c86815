// The files that a run leaves.
#include <cmath>
#include <filesystem>

#include "bench/datasets/text_file.h"
#include "bench/reports/cdf_svg.h"
#include "bench/reports/csv_report.h"
#include "bench/reports/genai_report.h"
#include "bench/reports/html_report.h"
#include "bench/serve_command.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

// "out/run.json" with suffix "-2" is "out/run-2.json".
std::string with_suffix(const std::string& path, const std::string& suffix) {
  if (suffix.empty()) return path;
  const fs::path p(path);
  return (p.parent_path() / (p.stem().string() + suffix + p.extension().string())).string();
}

std::string result_path(const ServeSettings& settings, const RunLog& log,
                        const std::string& suffix) {
  const std::string name = settings.output.result_filename.empty()
                               ? vllm_file_name(log.header)
                               : settings.output.result_filename;
  const std::string path = (fs::path(settings.output.result_dir) / name).string();
  // Results that are appended to share one file.
  return settings.output.append_result ? path : with_suffix(path, suffix);
}

GenaiReportSettings genai_level(const ServeSettings& settings, const RunLog& log) {
  GenaiReportSettings level;
  level.scenario = settings.data.scenario.empty() ? "dataset" : settings.data.scenario;
  if (log.header.arrivals == "closed-loop") {
    level.level = log.header.max_concurrency;
  } else {
    level.iteration_type = "poisson_arrival_rate";
    level.level = std::isinf(log.header.request_rate)
                      ? 0
                      : static_cast<std::int64_t>(log.header.request_rate);
  }
  return level;
}

}  // namespace

ReportSettings report_settings(const ServeSettings& settings) {
  ReportSettings report;
  report.compat = resolved_compat(settings);
  report.vllm = settings.output.vllm;
  if (report.compat == "vllm-2024") report.vllm.labels = VllmLabels::k2024;
  report.goodput = settings.output.goodput;
  report.brief = settings.output.brief;
  return report;
}

Result<void> check_outputs(const OutputChoice& out) {
  std::vector<std::string> paths = {out.log, out.csv, out.html, out.svg, out.genai};
  if (out.save_result || out.append_result) {
    const bool named = !out.result_filename.empty();
    paths.push_back((fs::path(out.result_dir) / (named ? out.result_filename : "x.json")).string());
  }
  for (const std::string& path : paths)
    if (!path.empty()) TRY_DO(may_be_written(path));
  return {};
}

Result<std::vector<std::string>> write_outputs(const ServeSettings& settings, const RunLog& log,
                                               const std::string& suffix) {
  const OutputChoice& out = settings.output;
  std::vector<std::string> written;
  const auto write = [&](const std::string& path, const std::string& text) -> Result<void> {
    TRY_DO(write_text_file(path, text));
    written.push_back(path);
    return {};
  };
  const ReportSettings report = report_settings(settings);
  TRY(const MetricOptions options, metric_options(report.compat, out.goodput));
  const RunMetrics metrics = compute_metrics(log, options);

  std::string log_path = out.log.empty() ? "" : with_suffix(out.log, suffix);
  if (out.save_result || out.append_result) {
    const std::string path = result_path(settings, log, suffix);
    const std::string text = vllm_json(log, metrics, report.vllm);
    if (out.append_result) {
      TRY_DO(append_line(path, text));
      written.push_back(path);
    } else {
      TRY_DO(write(path, text));
    }
    if (log_path.empty())
      log_path = with_suffix(fs::path(path).replace_extension(".run.jsonl").string(),
                             out.append_result ? suffix : "");
  }
  if (!log_path.empty()) TRY_DO(write(log_path, to_text(log)));
  if (!out.csv.empty()) TRY_DO(write(with_suffix(out.csv, suffix), requests_csv(log, metrics)));
  if (!out.html.empty()) {
    const std::vector<ReportedRun> runs = {
        {log.header.label.empty() ? "run" : log.header.label, &log, &metrics}};
    TRY_DO(write(with_suffix(out.html, suffix), html_report(runs)));
  }
  if (!out.svg.empty()) {
    const std::vector<CdfCurve> curves = {{"TTFT", &metrics.ttft}};
    TRY_DO(write(with_suffix(out.svg, suffix), cdf_svg(curves, {.title = log.header.model})));
  }
  if (!out.genai.empty()) {
    TRY(const MetricRules rules, metric_rules_named("genai-bench"));
    const RunMetrics genai = compute_metrics(log, {.rules = rules});
    TRY_DO(
        write(with_suffix(out.genai, suffix), genai_json(log, genai, genai_level(settings, log))));
  }
  return written;
}

}  // namespace saccade::bench
