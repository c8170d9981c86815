// Reports against tests/golden/bench, which a second implementation made from the same log
// (tools/goldens/bench_reports.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "bench/datasets/text_file.h"
#include "bench/metrics/metric_table.h"
#include "bench/reports/csv_report.h"
#include "bench/reports/genai_report.h"
#include "bench/reports/sglang_report.h"
#include "bench/reports/vllm_report.h"
#include "tests/support/hand_log.h"

namespace saccade::bench {
namespace {

std::string golden_report(const std::string& name) {
  auto text = read_text_file(SACCADE_SOURCE_DIR "/tests/golden/bench/" + name);
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("");
}

const RunLog& golden_run() {
  static const RunLog log = [] {
    auto read = parse_run_log(golden_report("run.jsonl"));
    EXPECT_TRUE(read) << read.error().message;
    return read.value_or(RunLog());
  }();
  return log;
}

RunMetrics metrics_by(const char* rules) {
  return compute_metrics(golden_run(), {.rules = *metric_rules_named(rules)});
}

// Same members in the same order; numbers within 1e-9 of each other.
void expect_same(const json::value& got, const json::value& want, const std::string& where) {
  if (want.is_object()) {
    ASSERT_TRUE(got.is_object()) << where;
    std::string got_keys;
    std::string want_keys;
    for (const auto& member : got.get_object()) got_keys += std::string(member.key()) + " ";
    for (const auto& member : want.get_object()) want_keys += std::string(member.key()) + " ";
    ASSERT_EQ(got_keys, want_keys) << where;
    for (const auto& member : want.get_object())
      expect_same(got.at(member.key()), member.value(), where + "." + std::string(member.key()));
  } else if (want.is_array()) {
    ASSERT_TRUE(got.is_array()) << where;
    ASSERT_EQ(got.get_array().size(), want.get_array().size()) << where;
    for (std::size_t i = 0; i < want.get_array().size(); ++i)
      expect_same(got.at(i), want.at(i), fmt::format("{}[{}]", where, i));
  } else if (want.is_number()) {
    ASSERT_TRUE(got.is_number()) << where;
    const double number = want.to_number<double>();
    EXPECT_NEAR(got.to_number<double>(), number, 1e-9 * std::max(1.0, std::abs(number))) << where;
    EXPECT_EQ(got.is_double(), want.is_double()) << where;
  } else {
    EXPECT_EQ(got, want) << where;
  }
}

VllmReportSettings settings(VllmLabels labels) {
  return {.labels = labels,
          .percentile_metrics = *parse_percentile_metrics("ttft,tpot,itl,e2el"),
          .percentiles = *parse_percentiles("99,99.9"),
          .save_detailed = true};
}

TEST(Reports, VllmBlocksByteForByte) {
  EXPECT_EQ(vllm_block(golden_run(), metrics_by("vllm"), settings(VllmLabels::kCurrent)),
            golden_report("vllm_block.txt"));
  EXPECT_EQ(vllm_block(golden_run(), metrics_by("vllm-2024"), settings(VllmLabels::k2024)),
            golden_report("vllm_2024_block.txt"));
}

TEST(Reports, VllmJsonKeysAndValues) {
  for (const auto& [labels, rules, file] :
       {std::tuple{VllmLabels::kCurrent, "vllm", "vllm.json"},
        std::tuple{VllmLabels::k2024, "vllm-2024", "vllm_2024.json"}}) {
    const auto got = json::parse(vllm_json(golden_run(), metrics_by(rules), settings(labels)));
    ASSERT_TRUE(got) << got.error().message;
    expect_same(*got, *json::parse(golden_report(file)), rules);
  }
}

TEST(Reports, VllmJsonWithoutDetails) {
  VllmReportSettings brief = settings(VllmLabels::kCurrent);
  brief.save_detailed = false;
  const auto got = json::parse(vllm_json(golden_run(), metrics_by("vllm"), brief));
  ASSERT_TRUE(got);
  for (const char* key :
       {"input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors"})
    EXPECT_FALSE(got->as_object().contains(key)) << key;
  EXPECT_TRUE(got->as_object().contains("latencies"));
}

TEST(Reports, VllmFileNames) {
  EXPECT_EQ(vllm_file_name(golden_run().header),
            "openai-chat-8.0qps-concurrency16-tiny-vl-20240607-153000.json");
  RunHeader header = golden_run().header;
  header.label = "night";
  header.request_rate = std::numeric_limits<double>::infinity();
  header.max_concurrency = 0;
  EXPECT_EQ(vllm_file_name(header), "night-infqps-tiny-vl-20240607-153000.json");
}

TEST(Reports, SelectionsAreChecked) {
  EXPECT_FALSE(parse_percentile_metrics("ttft,speed"));
  EXPECT_FALSE(parse_percentile_metrics(""));
  EXPECT_FALSE(parse_percentiles("99,x"));
  EXPECT_FALSE(parse_percentiles("101"));
  EXPECT_FALSE(parse_percentiles("-1"));
  EXPECT_FALSE(parse_percentiles("nan"));
  EXPECT_EQ(percentile_word(99), "99");
  EXPECT_EQ(percentile_word(99.9), "99.9");
}

TEST(Reports, SglangBlockByteForByte) {
  EXPECT_EQ(sglang_block(golden_run(), metrics_by("sglang")), golden_report("sglang_block.txt"));
}

TEST(Reports, GenaiJson) {
  const GenaiReportSettings level{.scenario = "I(224,224)", .level = 16};
  const RunMetrics metrics = metrics_by("genai-bench");
  const auto got = json::parse(genai_json(golden_run(), metrics, level));
  ASSERT_TRUE(got) << got.error().message;
  expect_same(*got, *json::parse(golden_report("genai.json")), "genai");
  EXPECT_TRUE(json::parse(genai_metadata_json(golden_run(), level)));
}

TEST(Reports, RequestsCsvByteForByte) {
  EXPECT_EQ(requests_csv(golden_run(), metrics_by("saccade")), golden_report("requests.csv"));
}

TEST(Reports, MarkdownTableByteForByte) {
  const RunMetrics metrics = metrics_by("saccade");
  const std::vector<NamedRun> runs = {{"run 1", &golden_run(), &metrics}};
  EXPECT_EQ(markdown_table(runs), golden_report("runs.md"));
}

TEST(Reports, EmptyRuns) {
  RunLog log = merge({}, {PromptRecord{}}, {});
  const RunMetrics none = compute_metrics(log);
  EXPECT_NE(vllm_block(log, none, {}).find(fmt::format("{:<40} {:<10}\n", "Mean TTFT (ms):", "-")),
            std::string::npos);
  EXPECT_TRUE(json::parse(vllm_json(log, none, settings(VllmLabels::kCurrent))));
  EXPECT_TRUE(json::parse(genai_json(log, none, {})));
  EXPECT_FALSE(sglang_block(log, none).empty());
}

// One whole answer without usage: no first token, no gaps, no token counts. A dash, never a zero.
TEST(Reports, WhatWasNotMeasuredIsADash) {
  const RunLog log = hand_log({{.end_ms = 5,
                                .events = {{5, kContentEvent | kChoicesEvent | kFinishEvent}},
                                .streamed = false}});
  const RunMetrics metrics = compute_metrics(log);
  for (const std::string& block :
       {vllm_block(log, metrics, {.percentile_metrics = {"ttft", "tpot", "itl", "e2el"}}),
        sglang_block(log, metrics)}) {
    for (const char* name :
         {"Total input tokens:", "Total generated tokens:", "Output token throughput (tok/s):",
          "Total token throughput (tok/s):", "Mean TTFT (ms):", "P99 TTFT (ms):",
          "Median TPOT (ms):", "P99 ITL (ms):"})
      EXPECT_NE(block.find(fmt::format("{:<40} {:<10}\n", name, "-")), std::string::npos)
          << name << "\n"
          << block;
    EXPECT_EQ(block.find(" 0.00 "), std::string::npos) << block;
  }
  const auto tree = json::parse(vllm_json(log, metrics, {}));
  ASSERT_TRUE(tree);
  for (const char* key : {"mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p99_ttft_ms"})
    EXPECT_TRUE(tree->at(key).is_null()) << key;
  const NamedRun run{"run", &log, &metrics};
  EXPECT_NE(markdown_table({&run, 1}).find("| - | - | - | - | 5.00 / 5.00 |"), std::string::npos)
      << markdown_table({&run, 1});
}

}  // namespace
}  // namespace saccade::bench
