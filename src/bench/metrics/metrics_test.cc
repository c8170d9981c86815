#include "bench/metrics/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/support/hand_log.h"

namespace saccade::bench {
namespace {

// Shorthands for events with `choices`.
constexpr EventKinds kRole = kChoicesEvent | kRoleEvent;
constexpr EventKinds kText = kChoicesEvent | kContentEvent;
constexpr EventKinds kThought = kChoicesEvent | kReasoningEvent;
constexpr EventKinds kTool = kChoicesEvent | kToolEvent;
constexpr EventKinds kNothing = kChoicesEvent;
constexpr EventKinds kFinish = kChoicesEvent | kFinishEvent;

constexpr double kNone = -1;

constexpr std::array<std::string_view, 7> kRuleNames = {
    "saccade", "vllm", "vllm-2024", "sglang", "genai-bench", "guidellm", "sqzb"};

TEST(MetricRules, AreTheseSeven) {
  for (const std::string_view name : kRuleNames) EXPECT_EQ(metric_rules_named(name)->name, name);
  EXPECT_EQ(metric_rules_named("wrk").error().message,
            fmt::format("--compat 'wrk' is not known; known are {}", fmt::join(kRuleNames, ", ")));
}

// What one tool makes of a stream: milliseconds, kNone where it has no value.
struct Expected {
  const char* rules;
  bool success;
  double ttft = kNone;
  double e2el = kNone;
  int tokens = -1;
  double tpot = kNone;
  std::vector<double> itl = {};
};

void expect_ms(std::optional<double> got, double want, const std::string& what) {
  ASSERT_EQ(got.has_value(), want != kNone) << what << ": " << got.value_or(-1) * 1e3;
  if (got) {
    EXPECT_NEAR(*got * 1e3, want, 1e-3) << what;
  }
}

void expect_all(const HandRequest& request, const std::vector<Expected>& expected) {
  const RunLog log = hand_log({request});
  ASSERT_EQ(expected.size(), kRuleNames.size());
  for (const Expected& want : expected) {
    const RunMetrics metrics = compute_metrics(log, {.rules = *metric_rules_named(want.rules)});
    const RequestMetrics& got = metrics.requests.at(0);
    const std::string name = want.rules;
    EXPECT_EQ(got.success, want.success) << name;
    EXPECT_EQ(metrics.completed, want.success) << name;
    if (!want.success) continue;
    expect_ms(got.ttft, want.ttft, name + " ttft");
    expect_ms(got.e2el, want.e2el, name + " e2el");
    expect_ms(got.tpot, want.tpot, name + " tpot");
    EXPECT_EQ(got.output_tokens.value_or(-1), want.tokens) << name;
    ASSERT_EQ(metrics.itl_values.size(), want.itl.size()) << name;
    for (std::size_t i = 0; i < want.itl.size(); ++i)
      EXPECT_NEAR(metrics.itl_values[i] * 1e3, want.itl[i], 1e-3) << name << " gap " << i;
  }
}

TEST(Metrics, RoleFirstAndUsageAtTheEnd) {
  expect_all({.end_ms = 143,
              .events = {{10, kRole},
                         {100, kText},
                         {120, kText},
                         {140, kText | kFinishEvent},
                         {141, kUsageEvent},
                         {142, kDoneEvent}},
              .prompt_tokens = 50,
              .completion_tokens = 3,
              .retokenized = 4,
              .max_tokens = 8},
             {{"saccade", true, 100, 142, 3, 20, {20, 20}},
              {"vllm", true, 10, 140, 3, 65, {90, 20, 20}},
              {"vllm-2024", false},  // no choices in the usage event
              {"sglang", true, 100, 142, 3, 21, {20, 20}},
              {"genai-bench", true, 100, 141, 3, 20.5},
              {"guidellm", true, 100, 143, 3, 140.0 / 3, {20}},
              {"sqzb", true, kNone, 143, 3, kNone}});
}

TEST(Metrics, NoUsage) {
  expect_all({.end_ms = 143,
              .events = {{10, kRole},
                         {100, kText},
                         {120, kText},
                         {140, kText},
                         {141, kFinish},
                         {142, kDoneEvent}},
              .retokenized = 4,
              .max_tokens = 8},
             {{"saccade", true, 100, 142, 4, 40.0 / 3, {20, 20}},
              {"vllm", true, 10, 141, 4, 131.0 / 3, {90, 20, 20, 1}},
              {"vllm-2024", true, 100, 142, 4, 14, {20, 20}},
              {"sglang", true, 100, 142, 8, 6, {20, 20}},  // what was asked for
              {"genai-bench", true, 100, 142, 4, 14},
              {"guidellm", true, 100, 143, 3, 140.0 / 3, {20}},
              {"sqzb", true, kNone, 143, 4, kNone}});
}

TEST(Metrics, SeveralTokensAChunk) {
  constexpr EventKinds kCounted = kUsageEvent;  // continuous usage
  expect_all({.end_ms = 182,
              .events = {{10, kRole | kCounted, 0},
                         {100, kText | kCounted, 1},
                         {140, kText | kCounted, 2},
                         {180, kText | kFinishEvent | kCounted, 4},
                         {181, kDoneEvent}},
              .completion_tokens = 7,
              .retokenized = 7,
              .max_tokens = 7},
             {{"saccade", true, 100, 181, 7, 80.0 / 6, {20, 20, 10, 10, 10, 10}},
              {"vllm", true, 10, 180, 7, 170.0 / 6, {90, 40, 40}},
              {"vllm-2024", true, 100, 181, 7, 13.5, {40, 40}},
              {"sglang", true, 100, 181, 7, 13.5, {40, 40}},
              {"genai-bench", true, 100, 180, 7, 80.0 / 6},
              {"guidellm", true, 100, 182, 7, 180.0 / 7, {80.0 / 6}},
              {"sqzb", true, kNone, 182, 7, kNone}});
}

TEST(Metrics, FirstChunkOfSeveralTokens) {
  const RunLog log = hand_log({{.end_ms = 200,
                                .events = {{100, kText, 3}, {160, kText | kFinishEvent, 3}},
                                .completion_tokens = 6}});
  const RunMetrics metrics = compute_metrics(log);
  expect_ms(metrics.requests[0].tpot, 20, "60 ms over the 3 tokens after the first chunk");
  EXPECT_EQ(metrics.itl_values.size(), 3u);
  EXPECT_NEAR(metrics.itl_values[0] * 1e3, 20, 1e-3);
  EXPECT_EQ(metrics.tokens_per_chunk.mean(), 3);
  EXPECT_NEAR(metrics.chunk_gap.mean() * 1e3, 60, 1e-3);
}

// Four tokens as two and two, and nobody says so: half the gap is not to be guessed.
TEST(Metrics, TokensThatNobodySplitsHaveNoTpot) {
  const auto measured = [](std::int32_t tokens, bool with_end) {
    std::vector<HandEvent> events = {{100, kText}, {200, kText}};
    if (with_end) events.push_back({210, kFinish});
    return compute_metrics(
        hand_log({{.end_ms = 220, .events = events, .completion_tokens = tokens}}));
  };
  const RunMetrics unknown = measured(4, true);
  EXPECT_TRUE(unknown.requests[0].unsplit);
  EXPECT_FALSE(unknown.requests[0].tpot);
  EXPECT_TRUE(unknown.itl_values.empty());
  EXPECT_EQ(unknown.unsplit, 1);
  EXPECT_EQ(unknown.total_output_tokens, 4);
  // One token an event, or that and an end token without text.
  EXPECT_TRUE(measured(2, true).requests[0].tpot);
  EXPECT_TRUE(measured(3, true).requests[0].tpot);
  EXPECT_FALSE(measured(3, false).requests[0].tpot);
}

TEST(Metrics, EmptyDeltasMoveSomeReferences) {
  expect_all(
      {.end_ms = 132,
       .events = {{100, kText}, {110, kNothing}, {130, kText | kFinishEvent}, {131, kDoneEvent}},
       .retokenized = 2,
       .max_tokens = 2},
      {{"saccade", true, 100, 131, 2, 30, {30}},
       {"vllm", true, 100, 130, 2, 30, {10, 20}},
       {"vllm-2024", true, 100, 131, 2, 31, {20}},
       {"sglang", true, 100, 131, 2, 31, {30}},
       {"genai-bench", true, 100, 131, 2, 31},
       {"guidellm", true, 100, 132, 2, 65, {30}},
       {"sqzb", true, kNone, 132, 2, kNone}});
}

// As only a log from elsewhere has it: content in events that are no chunk of choices.
TEST(Metrics, ContentOutsideChoicesHasNoGapToMeasureFrom) {
  const RunLog log = hand_log({{.end_ms = 40,
                                .events = {{10, kContentEvent}, {20, kContentEvent}, {30, kFinish}},
                                .retokenized = 2,
                                .max_tokens = 2}});
  for (const std::string_view name : kRuleNames) {
    const RunMetrics metrics = compute_metrics(log, {.rules = *metric_rules_named(name)});
    for (const double gap : metrics.itl_values) EXPECT_NEAR(gap, 0.010, 1e-9) << name;
  }
}

TEST(Metrics, UsageGrowsOnAnEmptyDelta) {
  expect_all({.end_ms = 112,
              .events = {{10, kRole, 0},
                         {50, kNothing | kUsageEvent, 1},
                         {80, kText | kUsageEvent, 1},
                         {110, kText | kFinishEvent | kUsageEvent, 1},
                         {111, kDoneEvent}},
              .completion_tokens = 3,
              .retokenized = 3,
              .max_tokens = 3},
             {{"saccade", true, 50, 111, 3, 30, {30, 30}},
              {"vllm", true, 10, 110, 3, 50, {40, 30, 30}},
              {"vllm-2024", true, 80, 111, 3, 15.5, {30}},
              {"sglang", true, 80, 111, 3, 15.5, {30}},
              {"genai-bench", true, 80, 110, 3, 15},
              {"guidellm", true, 80, 112, 3, 110.0 / 3, {30}},
              {"sqzb", true, kNone, 112, 3, kNone}});
}

TEST(Metrics, ReasoningThenContent) {
  const HandRequest request = {.end_ms = 202,
                               .events = {{50, kThought},
                                          {100, kThought},
                                          {150, kText},
                                          {200, kText | kFinishEvent},
                                          {201, kDoneEvent}},
                               .retokenized = 4,
                               .max_tokens = 4};
  expect_all(request, {{"saccade", true, 50, 201, 4, 50, {50, 50, 50}},
                       {"vllm", true, 50, 200, 4, 50, {50, 50, 50}},
                       {"vllm-2024", true, 150, 201, 4, 17, {50}},
                       {"sglang", true, 50, 201, 4, 151.0 / 3, {50, 50, 50}},
                       {"genai-bench", true, 50, 201, 4, 151.0 / 3},
                       {"guidellm", true, 50, 202, 4, 50, {50}},
                       {"sqzb", true, kNone, 202, 4, kNone}});
  expect_ms(compute_metrics(hand_log({request})).requests[0].first_answer, 150, "first answer");
}

TEST(Metrics, ToolCallsAlone) {
  expect_all({.end_ms = 93,
              .events = {{50, kTool}, {90, kTool}, {91, kFinish | kUsageEvent}, {92, kDoneEvent}},
              .completion_tokens = 5,
              .retokenized = 0,
              .max_tokens = 9},
             {{"saccade", true, 50, 92, 5, kNone},
              {"vllm", true, 50, 91, 5, 10.25, {40, 1}},
              {"vllm-2024", true, 0, 92, 0, kNone},
              {"sglang", true, 0, 92, 5, 23},
              {"genai-bench", true, kNone, 91, 5, kNone},
              {"guidellm", true, kNone, 93, 5, 18, {10}},
              {"sqzb", true, kNone, 93, 5, kNone}});
}

TEST(Metrics, ErrorInTheStream) {
  expect_all(
      {.end_ms = 81, .events = {{50, kText}, {80, kErrorEvent}}, .retokenized = 1, .max_tokens = 5},
      {{"saccade", false},
       {"vllm", true, 50, 50, 1, kNone},
       {"vllm-2024", false},
       {"sglang", true, 50, 80, 5, 7.5},
       {"genai-bench", false},
       {"guidellm", false},
       {"sqzb", true, kNone, 81, 1, kNone}});
}

TEST(Metrics, CutBeforeTheEnd) {
  expect_all(
      {.end_ms = 71, .events = {{50, kText}, {70, kText}}, .retokenized = 2, .max_tokens = 5},
      {{"saccade", false},
       {"vllm", true, 50, 70, 2, 20, {20}},
       {"vllm-2024", false},
       {"sglang", true, 50, 70, 5, 5, {20}},
       {"genai-bench", true, 50, 70, 2, 20},
       {"guidellm", true, 50, 71, 2, 35, {20}},
       {"sqzb", true, kNone, 71, 2, kNone}});
}

TEST(Metrics, BrokenConnectionFailsEverywhere) {
  expect_all({.end_ms = 71, .events = {{50, kText}}, .failure = TransportFailure::kReset},
             {{"saccade", false},
              {"vllm", false},
              {"vllm-2024", false},
              {"sglang", false},
              {"genai-bench", false},
              {"guidellm", false},
              {"sqzb", false}});
}

TEST(Metrics, NoTokenAtAll) {
  expect_all({.end_ms = 33,
              .events = {{30, kRole}, {31, kFinish}, {32, kDoneEvent}},
              .retokenized = 0,
              .max_tokens = 5},
             {{"saccade", false},
              {"vllm", true, 30, 31, 0, kNone, {1}},
              {"vllm-2024", true, 0, 32, 0, kNone},
              {"sglang", true, 0, 32, 5, 8},
              {"genai-bench", true, kNone, 32, 0, kNone},
              {"guidellm", true, kNone, 33, 0, kNone},
              {"sqzb", true, kNone, 33, 0, kNone}});
}

TEST(Metrics, OneToken) {
  expect_all({.end_ms = 42,
              .events = {{40, kText | kFinishEvent}, {41, kDoneEvent}},
              .retokenized = 1,
              .max_tokens = 1},
             {{"saccade", true, 40, 41, 1, kNone},
              {"vllm", true, 40, 40, 1, kNone},
              {"vllm-2024", true, 40, 41, 1, kNone},
              {"sglang", true, 40, 41, 1, kNone},
              {"genai-bench", true, 40, 41, 1, kNone},
              {"guidellm", true, 40, 42, 1, 40},
              {"sqzb", true, kNone, 42, 1, kNone}});
}

TEST(Metrics, CommentsAreNotEvents) {
  expect_all({.end_ms = 90,
              .events = {{10, kCommentEvent},
                         {50, kText},
                         {60, kCommentEvent},
                         {70, kText | kFinishEvent},
                         {71, kDoneEvent},
                         {80, kCommentEvent}},
              .retokenized = 2,
              .max_tokens = 2},
             {{"saccade", true, 50, 71, 2, 20, {20}},
              {"vllm", true, 50, 70, 2, 20, {20}},
              {"vllm-2024", false},
              {"sglang", true, 50, 71, 2, 21, {20}},
              {"genai-bench", true, 50, 71, 2, 21},
              {"guidellm", true, 50, 90, 2, 35, {20}},
              {"sqzb", true, kNone, 90, 2, kNone}});
}

TEST(Metrics, ServerStagesGiveSqzbItsNumbers) {
  RunLog log = hand_log({{.end_ms = 2'500,
                          .events = {{2'499, kText | kFinishEvent}},
                          .streamed = false,
                          .completion_tokens = 6,
                          .stages = {{"arrival_time", 100.0},
                                     {"first_scheduled_time", 100.5},
                                     {"first_token_time", 100.75},
                                     {"finished_time", 102.25}}}});
  const RunMetrics sqzb = compute_metrics(log, {.rules = *metric_rules_named("sqzb")});
  expect_ms(sqzb.requests[0].ttft, 250, "ttft from the schedule on the server");
  expect_ms(sqzb.requests[0].tpot, 250, "1.5 s over 6 tokens");
  // The same as a simulated run names them.
  for (StageTime& stage : log.stages) stage.name.resize(stage.name.rfind("_time"));
  const RunMetrics simulated = compute_metrics(log, {.rules = *metric_rules_named("sqzb")});
  expect_ms(simulated.requests[0].ttft, 250, "ttft of a simulated run");
  expect_ms(simulated.requests[0].tpot, 250, "tpot of a simulated run");
  const RunMetrics ours = compute_metrics(log);
  expect_ms(ours.requests[0].ttft, kNone, "not streamed");
  expect_ms(ours.requests[0].e2el, 2'500, "e2el");
}

TEST(Metrics, TokenSourcesAreMarked) {
  HandRequest request = {.end_ms = 20, .events = {{10, kText, 2}, {20, kText | kFinishEvent, 1}}};
  const auto source = [&] {
    return compute_metrics(hand_log({request})).requests[0].output_source;
  };
  EXPECT_EQ(source(), TokenSource::kEvents);
  request.completion_tokens = 3;
  EXPECT_EQ(source(), TokenSource::kUsage);
  request.completion_tokens = kUnknownTokens;
  request.events[0].tokens = kUnknownTokens;
  EXPECT_EQ(source(), TokenSource::kNone);
  EXPECT_EQ(compute_metrics(hand_log({request})).unknown_output, 1);
  request.retokenized = 3;
  EXPECT_EQ(source(), TokenSource::kRetokenized);
}

// Three successes, one failure, one warm-up.
RunLog small_run() {
  const auto answer = [](double start, double first, double last, double end) {
    return HandRequest{.scheduled_ms = start - 10,
                       .start_ms = start,
                       .admitted_ms = start - 2,
                       .end_ms = end,
                       .events = {{first, kText}, {last, kText | kFinishEvent}, {end, kDoneEvent}},
                       .prompt_tokens = 100,
                       .completion_tokens = 11,
                       .retokenized = 10};
  };
  std::vector<HandRequest> requests = {answer(100, 200, 700, 1'000), answer(300, 500, 1'000, 1'100),
                                       answer(600, 700, 1'700, 2'100)};
  requests.push_back({.scheduled_ms = 650, .start_ms = 650, .end_ms = 2'000, .status = 503});
  requests.push_back(answer(0, 5'000, 9'000, 9'999));
  requests.back().warmup = true;
  return hand_log(requests);
}

TEST(Metrics, Totals) {
  const RunMetrics m = compute_metrics(small_run());
  EXPECT_EQ(m.completed, 3);
  EXPECT_EQ(m.failed, 1);
  EXPECT_EQ(m.errors[static_cast<std::size_t>(ErrorClass::kHttp)], 1);
  EXPECT_NEAR(m.duration, 2.0, 1e-9);  // 100 to 2100 ms; the warm-up does not count
  EXPECT_EQ(m.total_input_tokens, 300);
  EXPECT_EQ(m.total_output_tokens, 33);
  EXPECT_EQ(m.total_retokenized, 30);
  EXPECT_NEAR(m.request_throughput, 1.5, 1e-9);
  EXPECT_NEAR(m.output_throughput, 16.5, 1e-9);
  EXPECT_NEAR(m.total_token_throughput, 166.5, 1e-9);
  EXPECT_NEAR(m.mean_concurrency, (0.9 + 0.8 + 1.5) / 2, 1e-9);
  EXPECT_EQ(m.peak_concurrency, 4);
  EXPECT_NEAR(m.ttft.mean() * 1e3, (100 + 200 + 100) / 3.0, 1e-6);
  EXPECT_NEAR(m.ttft_from_schedule.mean() * 1e3, (110 + 210 + 110) / 3.0, 1e-6);
  EXPECT_NEAR(m.client_queue.max() * 1e3, 8, 1e-6);
  EXPECT_NEAR(m.lateness.max() * 1e3, 2, 1e-6);
  EXPECT_EQ(m.lateness.size(), 4u);
  EXPECT_EQ(m.tpot.size(), 0u);  // 11 tokens in two events, and nobody says how many in which
  EXPECT_EQ(m.unsplit, 3);
  // 11 tokens over two events each: bin 0 (100..1100 ms) holds both of the first and the second,
  // and the first half of the third; 5.5 each.
  EXPECT_NEAR(m.peak_output_per_s, 27.5, 1e-9);
  const RunMetrics vllm = compute_metrics(small_run(), {.rules = *metric_rules_named("vllm")});
  EXPECT_NEAR(vllm.duration, 2.1, 1e-9);
  EXPECT_NEAR(vllm.peak_output_per_s, 5, 1e-9);
}

TEST(Metrics, SteadyWindow) {
  const RunMetrics m = compute_metrics(small_run(), {.steady_ratio = 1.0});
  ASSERT_TRUE(m.steady);  // all four run from 650 to 1000 ms
  EXPECT_EQ(m.steady->begin, 650 * kMillisecond);
  EXPECT_EQ(m.steady->end, 1'000 * kMillisecond);
  EXPECT_NEAR(m.steady->request_throughput, 1 / 0.35, 1e-9);  // the first ends at 1000
  EXPECT_NEAR(m.steady->output_throughput, 3 * 5.5 / 0.35, 1e-9);
  EXPECT_FALSE(compute_metrics(hand_log({})).steady);
}

TEST(Metrics, Goodput) {
  const auto goodput = [&](std::vector<std::string> targets, const char* rules = "saccade") {
    MetricOptions options{.rules = *metric_rules_named(rules)};
    for (const auto& target : targets) options.goodput.push_back(*parse_goodput_target(target));
    return *compute_metrics(small_run(), options).goodput;
  };
  EXPECT_EQ(goodput({"ttft:110"}).good, 2);  // 110 from the schedule
  EXPECT_EQ(goodput({"ttft:109"}).good, 0);
  EXPECT_EQ(goodput({"ttft:109"}, "vllm").good, 2);             // 100 from the start
  EXPECT_EQ(goodput({"ttft:110", "tpot:50"}).good, 0);          // which nobody could measure
  EXPECT_EQ(goodput({"ttft:109", "tpot:90"}, "vllm").good, 1);  // whose rule divides by tokens
  EXPECT_EQ(goodput({"e2el:910"}).good, 2);
  EXPECT_NEAR(goodput({"e2el:910"}).per_second, 1, 1e-9);
  EXPECT_NEAR(goodput({"e2el:910"}).attainment, 0.5, 1e-9);  // of four: the failure is a miss
}

TEST(Metrics, GoodputTargetsAreChecked) {
  EXPECT_EQ(parse_goodput_target("ttft:2000")->limit_ms, 2'000);
  EXPECT_EQ(parse_goodput_target("tpot:0.5")->limit_ms, 0.5);
  for (const char* bad :
       {"", "ttft", "ttft:", "ttft:x", "ttft:5ms", "itl:5", "ttft:-1", "ttft:nan"})
    EXPECT_FALSE(parse_goodput_target(bad)) << bad;
}

// A server that stops for one second: every request planned in the pause starts when it may, and
// only the latency from the schedule shows what its user saw.
TEST(Metrics, LatencyFromTheScheduleShowsAPause) {
  std::vector<HandRequest> requests;
  for (int i = 0; i < 20; ++i) {
    const double due = 100.0 * i;
    const double start = due >= 500 && due < 1'500 ? 1'500 : due;
    requests.push_back({.scheduled_ms = due,
                        .start_ms = start,
                        .admitted_ms = start,
                        .end_ms = start + 20,
                        .events = {{start + 10, kText}, {start + 20, kText | kFinishEvent}}});
  }
  const RunMetrics m = compute_metrics(hand_log(requests));
  EXPECT_NEAR(m.ttft.max() * 1e3, 10, 1e-6);
  EXPECT_NEAR(m.ttft_from_schedule.max() * 1e3, 1'010, 1e-6);
  EXPECT_EQ(std::count_if(m.ttft_from_schedule.sorted().begin(),
                          m.ttft_from_schedule.sorted().end(), [](double t) { return t > 0.1; }),
            10);
}

TEST(Metrics, EmptyRunsAndWarmupsAlone) {
  const RunMetrics none = compute_metrics(hand_log({}), {.goodput = {{"ttft", 1}}});
  EXPECT_EQ(none.completed, 0);
  EXPECT_EQ(none.duration, 0);
  EXPECT_EQ(none.request_throughput, 0);
  EXPECT_EQ(none.goodput->attainment, 0);
  const RunMetrics warm = compute_metrics(hand_log({{.end_ms = 5, .warmup = true}}));
  EXPECT_EQ(warm.requests.size(), 0u);
}

TEST(Metrics, RulesByName) {
  EXPECT_EQ(metric_rules_named("guidellm")->percentile, PercentileRule::kByRank);
  const auto unknown = metric_rules_named("wrk");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("vllm-2024"), std::string::npos);
}

}  // namespace
}  // namespace saccade::bench
