// `saccade bench report` and `saccade bench compare`: everything again from run logs.
#pragma once

#include <string>
#include <vector>

#include "bench/metrics/compare.h"
#include "bench/reports/genai_report.h"
#include "bench/reports/vllm_report.h"

namespace saccade::bench {

struct ReportSettings {
  std::string compat = "saccade";  // whose definitions
  // text, vllm-json, sglang, genai-json, csv, markdown, svg, jsonl
  std::string format = "text";
  std::string output;  // a file; empty: standard output. jsonl appends to it
  std::string html;    // instead of `format`: a file with charts of all the runs
  VllmReportSettings vllm;
  GenaiReportSettings genai;
  std::vector<std::string> goodput;  // "ttft:2000"
  std::string svg_metric = "ttft";   // a key of kLatencies
  double svg_max_s = 0;
  bool brief = false;  // text: the block alone
};

// What to print. Several logs: one block each, and for text their summary as repeats of one run.
Result<std::string> report_runs(const std::vector<RunLog>& logs, const ReportSettings& settings);
Result<std::string> report_files(const std::vector<std::string>& paths,
                                 const ReportSettings& settings);

struct CompareOutcome {
  std::string text;
  bool any_worse = false;
};
// Each side is a log, a directory of logs (*.jsonl), or several separated by commas.
Result<CompareOutcome> compare_files(const std::string& a, const std::string& b,
                                     const std::string& compat,
                                     const std::vector<std::string>& goodput,
                                     const CompareSettings& settings);

// The metric options that `compat` and `goodput` mean. The current labels go with every compat but
// vllm-2024.
Result<MetricOptions> metric_options(const std::string& compat,
                                     const std::vector<std::string>& goodput);

}  // namespace saccade::bench
