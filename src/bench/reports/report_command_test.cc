#include "bench/reports/report_command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "bench/datasets/text_file.h"

namespace saccade::bench {
namespace {

const std::string kRun = SACCADE_SOURCE_DIR "/tests/golden/bench/run.jsonl";

TEST(ReportCommand, EveryFormat) {
  for (const char* format :
       {"text", "vllm-json", "sglang", "genai-json", "csv", "markdown", "svg", "jsonl"}) {
    ReportSettings settings;
    settings.format = format;
    const auto text = report_files({kRun, kRun}, settings);
    ASSERT_TRUE(text) << format << ": " << text.error().message;
    EXPECT_FALSE(text->empty()) << format;
  }
  ReportSettings bad;
  bad.format = "pdf";
  EXPECT_FALSE(report_files({kRun}, bad));
  bad.format = "text";
  bad.compat = "wrk";
  EXPECT_FALSE(report_files({kRun}, bad));
  bad.compat = "vllm";
  bad.goodput = {"ttft"};
  EXPECT_FALSE(report_files({kRun}, bad));
  EXPECT_FALSE(report_files({"/nonexistent"}, {}));
  EXPECT_FALSE(report_files({SACCADE_SOURCE_DIR "/README.md"}, {}));
  EXPECT_FALSE(report_runs({}, {}));
}

TEST(ReportCommand, CsvHasALineARequest) {
  ReportSettings settings;
  settings.format = "csv";
  const std::string csv = *report_files({kRun}, settings);
  const auto columns = [](std::string_view line) {
    return std::count(line.begin(), line.end(), ',');
  };
  std::size_t lines = 0;
  for (std::size_t at = 0; at < csv.size(); ++lines) {
    const std::size_t end = csv.find('\n', at);
    EXPECT_EQ(columns(std::string_view(csv).substr(at, end - at)), 30);
    at = end + 1;
  }
  EXPECT_EQ(lines, 39u);  // a header and the 38 requests that are not warm-up
}

TEST(ReportCommand, RepeatsAreSummarised) {
  const std::string text = *report_files({kRun, kRun, kRun}, {});
  EXPECT_NE(text.find(" 3 runs "), std::string::npos);
  EXPECT_NE(text.find("Requests/s                             6.7"), std::string::npos);
  EXPECT_NE(text.find("[95 % t-interval]"), std::string::npos);
}

TEST(ReportCommand, AppendsLinesOfJson) {
  const std::string path = testing::TempDir() + "/report_command_test/results.jsonl";
  std::filesystem::remove(path);
  ReportSettings settings;
  settings.format = "jsonl";
  settings.output = path;
  ASSERT_TRUE(report_files({kRun}, settings));
  ASSERT_TRUE(report_files({kRun}, settings));
  const std::string text = *read_text_file(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_TRUE(json::parse(text.substr(0, text.find('\n'))));
  std::filesystem::remove_all(testing::TempDir() + "/report_command_test");
}

TEST(ReportCommand, SvgDrawsEveryRun) {
  ReportSettings settings;
  settings.format = "svg";
  const std::string svg = *report_files({kRun, kRun}, settings);
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* mark : {"P50 ", "P90 ", "P95 ", "P99 ", "run 1 (n ", "run 2 (n "})
    EXPECT_NE(svg.find(mark), std::string::npos) << mark;
  EXPECT_EQ(svg.find("http", 60), std::string::npos);  // nothing but the namespace
  settings.svg_metric = "e2el";
  EXPECT_NE(report_files({kRun}, settings)->find(">E2EL of "), std::string::npos);
  settings.svg_metric = "speed";
  const auto unknown = report_files({kRun}, settings);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message,
            "--svg-metric 'speed' is not one of ttft, ttft_from_schedule, tpot, itl, e2el, "
            "e2el_from_schedule");
}

TEST(ReportCommand, ComparesFilesListsAndDirectories) {
  const std::string dir = SACCADE_SOURCE_DIR "/tests/golden/bench";
  const auto outcome = compare_files(kRun + "," + kRun, dir, "saccade", {}, {});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_FALSE(outcome->any_worse);
  EXPECT_FALSE(compare_files(kRun, "/nonexistent", "saccade", {}, {}));
  EXPECT_FALSE(compare_files(kRun, SACCADE_SOURCE_DIR "/cmake", "saccade", {}, {}));
  EXPECT_FALSE(compare_files(kRun, kRun, "nobody", {}, {}));
}

}  // namespace
}  // namespace saccade::bench
