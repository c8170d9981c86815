#include "bench/reports/report_command.h"

#include <algorithm>
#include <filesystem>

#include "bench/datasets/text_file.h"
#include "bench/load/server/run_health.h"
#include "bench/metrics/metric_table.h"
#include "bench/reports/cdf_svg.h"
#include "bench/reports/csv_report.h"
#include "bench/reports/html_report.h"
#include "bench/reports/sglang_report.h"

namespace saccade::bench {
namespace {

std::vector<RunMetrics> metrics_of(const std::vector<RunLog>& logs, const MetricOptions& options) {
  std::vector<RunMetrics> metrics;
  for (const RunLog& log : logs) metrics.push_back(compute_metrics(log, options));
  return metrics;
}

std::string run_name(const RunLog& log, std::size_t index) {
  if (!log.header.label.empty()) return log.header.label;
  return fmt::format("run {}", index + 1);
}

std::string text_report(const RunLog& log, const RunMetrics& metrics,
                        const ReportSettings& settings) {
  std::string block = settings.compat == "sglang" ? sglang_block(log, metrics)
                                                  : vllm_block(log, metrics, settings.vllm);
  return settings.brief ? block : block + health_text(log, metrics);
}

Result<Latency> latency_named(std::string_view key) {
  std::vector<std::string_view> known;
  for (const Latency& latency : kLatencies) {
    if (latency.key == key) return latency;
    known.push_back(latency.key);
  }
  return fail(ErrorCode::kInvalid, "--svg-metric '{}' is not one of {}", key,
              fmt::join(known, ", "));
}

Result<std::string> svg_report(const std::vector<RunLog>& logs, const std::vector<RunMetrics>& runs,
                               const ReportSettings& settings) {
  TRY(const Latency latency, latency_named(settings.svg_metric));
  std::vector<CdfCurve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i)
    curves.push_back({run_name(logs[i], i), &(runs[i].*latency.sample)});
  return cdf_svg(curves, {.title = fmt::format("{} of {}", latency.name, logs.front().header.model),
                          .axis = fmt::format("{} (s)", latency.name),
                          .x_max = settings.svg_max_s});
}

std::string markdown_report(const std::vector<RunLog>& logs, const std::vector<RunMetrics>& runs) {
  std::vector<NamedRun> named;
  for (std::size_t i = 0; i < runs.size(); ++i)
    named.push_back({run_name(logs[i], i), &logs[i], &runs[i]});
  return markdown_table(named);
}

// Labels, else the files' names; a name that is taken gets a number.
std::vector<std::string> distinct_names(const std::vector<std::string>& paths,
                                        const std::vector<RunLog>& logs) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const std::string wanted = logs[i].header.label.empty()
                                   ? std::filesystem::path(paths[i]).stem().string()
                                   : logs[i].header.label;
    std::string name = wanted;
    for (int n = 2; std::find(names.begin(), names.end(), name) != names.end(); ++n)
      name = fmt::format("{} ({})", wanted, n);
    names.push_back(std::move(name));
  }
  return names;
}

Result<std::string> write_html(const std::vector<std::string>& paths,
                               const std::vector<RunLog>& logs, const ReportSettings& settings) {
  TRY(const MetricOptions options, metric_options(settings.compat, settings.goodput));
  const std::vector<std::string> names = distinct_names(paths, logs);
  const std::vector<RunMetrics> metrics = metrics_of(logs, options);
  std::vector<ReportedRun> runs;
  for (std::size_t i = 0; i < logs.size(); ++i) runs.push_back({names[i], &logs[i], &metrics[i]});
  TRY_DO(write_text_file(settings.html, html_report(runs)));
  return settings.html + "\n";
}

// One text per run.
Result<std::string> each_run(const std::vector<RunLog>& logs, const std::vector<RunMetrics>& runs,
                             const ReportSettings& settings) {
  std::string out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (settings.format == "text")
      out += text_report(logs[i], runs[i], settings);
    else if (settings.format == "sglang")
      out += sglang_block(logs[i], runs[i]);
    else if (settings.format == "vllm-json" || settings.format == "jsonl")
      out += vllm_json(logs[i], runs[i], settings.vllm) + "\n";
    else if (settings.format == "genai-json")
      out += genai_json(logs[i], runs[i], settings.genai) + "\n";
    else if (settings.format == "csv")
      out += requests_csv(logs[i], runs[i]);
    else
      return fail(ErrorCode::kInvalid,
                  "--format '{}' is not one of text, vllm-json, sglang, genai-json, csv, markdown, "
                  "svg, jsonl",
                  settings.format);
  }
  if (settings.format == "text" && runs.size() > 1) out += repeat_summary(runs);
  return out;
}

// Each path, or where it is a folder the run logs in it by name.
Result<std::vector<std::string>> logs_at(const std::vector<std::string>& paths) {
  std::vector<std::string> logs;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      logs.push_back(path);
      continue;
    }
    const auto before = static_cast<std::ptrdiff_t>(logs.size());
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".jsonl") logs.push_back(entry.path().string());
    if (before == std::ssize(logs))
      return fail(ErrorCode::kNotFound, "{}: no run log (*.jsonl) is in it", path);
    std::sort(logs.begin() + before, logs.end());
  }
  return logs;
}

Result<std::vector<RunLog>> read_logs(const std::vector<std::string>& paths) {
  std::vector<RunLog> logs;
  for (const std::string& path : paths) {
    TRY(RunLog log, read_run_log(path));
    logs.push_back(std::move(log));
  }
  return logs;
}

Result<std::vector<std::string>> logs_of(const std::string& side) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= side.size();) {
    const std::size_t comma = std::min(side.find(',', begin), side.size());
    words.push_back(side.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return logs_at(words);
}

Result<Side> read_side(const std::string& side, const MetricOptions& options) {
  TRY(const auto paths, logs_of(side));
  Side read;
  TRY(read.logs, read_logs(paths));
  read.metrics = metrics_of(read.logs, options);
  return read;
}

}  // namespace

Result<MetricOptions> metric_options(const std::string& compat,
                                     const std::vector<std::string>& goodput) {
  MetricOptions options;
  TRY(options.rules, metric_rules_named(compat));
  for (const std::string& target : goodput) {
    TRY(GoodputTarget parsed, parse_goodput_target(target));
    options.goodput.push_back(std::move(parsed));
  }
  return options;
}

Result<std::string> report_runs(const std::vector<RunLog>& logs, const ReportSettings& settings) {
  TRY(const MetricOptions options, metric_options(settings.compat, settings.goodput));
  if (logs.empty()) return fail(ErrorCode::kInvalid, "no run to report");
  const std::vector<RunMetrics> runs = metrics_of(logs, options);
  std::string text;
  if (settings.format == "markdown") {
    text = markdown_report(logs, runs);
  } else if (settings.format == "svg") {
    TRY(text, svg_report(logs, runs, settings));
  } else {
    TRY(text, each_run(logs, runs, settings));
  }
  if (settings.output.empty()) return text;
  if (settings.format == "jsonl") {
    text.pop_back();
    TRY_DO(append_line(settings.output, text));
  } else {
    TRY_DO(write_text_file(settings.output, text));
  }
  return settings.output + "\n";
}

Result<std::string> report_files(const std::vector<std::string>& asked,
                                 const ReportSettings& settings) {
  TRY(const auto paths, logs_at(asked));
  TRY(const auto logs, read_logs(paths));
  if (!settings.html.empty()) return write_html(paths, logs, settings);
  return report_runs(logs, settings);
}

Result<CompareOutcome> compare_files(const std::string& a, const std::string& b,
                                     const std::string& compat,
                                     const std::vector<std::string>& goodput,
                                     const CompareSettings& settings) {
  TRY(const MetricOptions options, metric_options(compat, goodput));
  TRY(const Side first, read_side(a, options));
  TRY(const Side second, read_side(b, options));
  const CompareResult result = compare(first, second, settings);
  return CompareOutcome{to_text(result), result.any_worse};
}

}  // namespace saccade::bench
