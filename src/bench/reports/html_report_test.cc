// Stages of a request, and the HTML page around hostile labels, failures and empty runs.
#include "bench/reports/html_report.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "bench/load/request_stages.h"
#include "tests/support/hand_log.h"

namespace saccade::bench {
namespace {

RunLog staged_log() {
  RunHeader header;
  header.label = "</script><b>";
  return hand_log({{.start_ms = 100,
                    .end_ms = 200,
                    .events = {{150, kContentEvent | kChoicesEvent, 1},
                               {190, kContentEvent | kFinishEvent | kChoicesEvent, 1},
                               {199, kDoneEvent}},
                    .stages = {{"arrival_time", 0},
                               {"preprocessed", 0.010},
                               {"encode_start", 0.015},
                               {"encode_end", 0.030},
                               {"first_scheduled_time", 0.020},
                               {"first_token_time", 0.045},
                               {"finished_time", 0.500}}},
                   {.start_ms = 50, .end_ms = 60, .failure = TransportFailure::kReset}},
                  std::move(header));
}

TEST(RequestStages, FromTheServer) {
  const RunLog log = staged_log();
  const RequestStages told = request_stages(log, log.requests[0]);
  EXPECT_TRUE(told.from_server);
  std::string words;
  for (const RequestStage& stage : told.stages)
    words += fmt::format("{} {:.0f}-{:.0f} ", stage.name, stage.begin * 1e3, stage.end * 1e3);
  // Scheduling before the images are encoded is no queue; nothing lasts longer than the request.
  EXPECT_EQ(words,
            "client queue 0-100 media 100-110 queue 110-115 encode 115-130 prefill 130-145 "
            "decode 145-200 ");
}

TEST(RequestStages, FailureHasNoStages) {
  const RunLog log = staged_log();
  const RequestStages told = request_stages(log, log.requests[1]);
  EXPECT_FALSE(told.from_server);
  EXPECT_EQ(told.stages.back().name, "failed");
}

TEST(HtmlReport, LabelsCannotLeaveTheScript) {
  const RunLog log = staged_log();
  const RunMetrics metrics = compute_metrics(log);
  const std::vector<ReportedRun> runs = {{log.header.label, &log, &metrics}};
  const std::string page = html_report(runs);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_NE(page.find("&lt;/script>&lt;b>"), std::string::npos);  // the plain tables
}

// Tags opened and closed, in order: what a browser needs to show the tables as they are meant.
void expect_balanced(std::string_view page) {
  std::vector<std::string_view> open;
  for (std::size_t at = page.find('<'); at != page.npos; at = page.find('<', at + 1)) {
    const bool closes = page[at + 1] == '/';
    const std::size_t begin = at + 1 + (closes ? 1 : 0);
    const std::string_view name = page.substr(begin, page.find_first_of(" >", begin) - begin);
    if (name == "!doctype" || name == "meta") continue;
    if (!closes) {
      open.push_back(name);
    } else {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), name) << "before " << page.substr(at, 60);
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty()) << open.back() << " stays open";
}

TEST(HtmlReport, PlainWithoutAScript) {
  RunLog log = staged_log();
  log.header.model = "<img src=x>";
  const RunLog empty = merge({}, {}, {});
  const RunMetrics metrics = compute_metrics(log);
  const RunMetrics none = compute_metrics(empty);
  const std::vector<ReportedRun> runs = {{log.header.label, &log, &metrics},
                                         {"none", &empty, &none}};
  const std::string page = html_report(runs, "");
  expect_balanced(page);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  for (const char* part :
       {"built without npm", "<th>&lt;/script>&lt;b></th><th>none</th>",
        "<tr><th scope=\"row\">Successful requests</th><td>1</td><td>0</td></tr>",
        "<tr><th scope=\"row\">Failed requests</th><td>1</td><td>0</td></tr>",
        "<tr><th scope=\"row\">Mean TTFT (ms)</th><td>50.00</td>",
        "Definitions: ", "<td>&lt;img src=x></td>"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
}

TEST(HtmlReport, ExactAnswers) {
  RunLog log = staged_log();
  log.prompts[0].reference = "42";
  log.text = "4242 ";
  log.requests[0].answer = {.begin = 0, .size = 2};
  const auto shown = [&] {
    const RunMetrics metrics = compute_metrics(log);
    const std::vector<ReportedRun> runs = {{"a", &log, &metrics}};
    return report_json(runs);
  };
  EXPECT_NE(shown().find(R"("Answers equal to the reference","unit":"%","value":100)"),
            std::string::npos);
  log.requests[0].answer = {.begin = 2, .size = 3};
  EXPECT_NE(shown().find(R"("Answers equal to the reference","unit":"%","value":0)"),
            std::string::npos);
  log.prompts[0].reference.clear();
  EXPECT_EQ(shown().find("Answers equal"), std::string::npos);
}

// All tokens that the chart of a run of up to 16 s shows, whose bins are of 0.1 s.
double charted_tokens(const RunLog& log) {
  const RunMetrics metrics = compute_metrics(log);
  const std::vector<ReportedRun> runs = {{"a", &log, &metrics}};
  const auto data = json::parse(report_json(runs));
  EXPECT_TRUE(data) << data.error().message;
  double tokens = 0;
  for (const json::value& point : data->at("runs").at(0).at("throughput").as_array())
    tokens += point.at(1).to_number<double>() * 0.1;
  return tokens;
}

TEST(HtmlReport, ThroughputHasEveryToken) {
  constexpr EventKinds kSaid = kContentEvent | kChoicesEvent;
  // Tokens without text, which usage alone counts.
  HandRequest request = {.end_ms = 200,
                         .events = {{50, kUsageEvent | kChoicesEvent, 3},
                                    {80, kSaid, 4},
                                    {150, kFinishEvent | kChoicesEvent, 2},
                                    {199, kDoneEvent}}};
  EXPECT_NEAR(charted_tokens(hand_log({request})), 3 + 4 + 2, 1e-6);
  // Several an event, of which only the sum is known.
  request.events = {{50, kSaid}, {80, kSaid}, {150, kSaid | kFinishEvent}, {199, kDoneEvent}};
  request.completion_tokens = 12;
  EXPECT_NEAR(charted_tokens(hand_log({request})), 12, 1e-6);
  // Of an answer that broke off nobody knows more than its events.
  request.failure = TransportFailure::kReset;
  EXPECT_NEAR(charted_tokens(hand_log({request})), 3, 1e-6);
}

TEST(HtmlReport, DataIsJson) {
  const RunLog log = staged_log();
  RunLog other = staged_log();
  other.header.request_rate = std::numeric_limits<double>::quiet_NaN();
  const RunLog empty = merge({}, {}, {});
  const RunMetrics metrics = compute_metrics(log);
  const RunMetrics other_metrics = compute_metrics(other);
  const RunMetrics none = compute_metrics(empty);
  const std::vector<ReportedRun> runs = {
      {"a", &log, &metrics}, {"b", &other, &other_metrics}, {"none", &empty, &none}};
  const auto data = json::parse(report_json(runs));
  ASSERT_TRUE(data) << data.error().message;
  const auto& shown = data->at("runs").as_array();
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_FALSE(shown[0].as_object().contains("differences"));
  EXPECT_FALSE(shown[1].at("differences").at("rows").as_array().empty());
  EXPECT_EQ(shown[0].at("requests").as_array().size(), 2u);
  EXPECT_TRUE(shown[2].at("requests").as_array().empty());
  EXPECT_EQ(shown[0].at("verdicts").at(0).at("level"), "bad");  // one request failed
}

}  // namespace
}  // namespace saccade::bench
