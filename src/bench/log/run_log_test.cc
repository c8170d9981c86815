#include "bench/log/run_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/rng.h"

namespace saccade::bench {
namespace {

// A log with every field away from its default, from two workers whose requests interleave.
// NOLINTNEXTLINE(readability-function-size): a table of fields
RunLog sample_log() {
  RunHeader header;
  header.argv = {"saccade", "bench", "serve", "--label", "naïve \"quoted\"\n"};
  header.seed = 0xFFFF'FFFF'FFFF'FFFFULL;
  header.tool_version = "0.1.0";
  header.origin_wall_ns = 1'765'151'873'000'000'123;
  header.host = {"box", "Xeon", 2, 25'000'000'000, "Linux 6.1"};
  header.backend = "openai-chat";
  header.base_url = "http://127.0.0.1:8000";
  header.endpoint = "/v1/chat/completions";
  header.model = "m";
  header.tokenizer = "t";
  header.label = "l";
  header.server_version = "v";
  header.server_parameters = {{"kv_policy", "jenga"}, {"dtype", "f32"}};
  header.dataset = "random";
  header.dataset_path = "/d";
  header.dataset_hash = "aa";
  header.arrival_hash = "bb";
  header.arrivals = "gamma";
  header.request_rate = 2.5;
  header.burstiness = std::numeric_limits<double>::infinity();
  header.max_concurrency = 8;
  header.ramp_up_strategy = "linear";
  header.ramp_up_start_rps = 1;
  header.ramp_up_end_rps = 4;
  header.num_prompts = 3;
  header.usage_requested = true;
  header.cache_reset = true;
  header.metadata = {{"run", "1"}};

  PromptRecord prompt;
  prompt.row_id = "row 7";
  prompt.content_hash = "cc";
  prompt.label = "image";
  prompt.text_tokens = 12;
  prompt.predicted_image_tokens = 256;
  prompt.images = {{512, 384, 40'000, "dd"}};
  prompt.text = "What is this?";
  prompt.reference = "A cat.";

  std::vector<Recorder> workers;
  workers.emplace_back(1'000);
  workers.emplace_back(1'000);
  for (std::uint32_t i = 0; i < 3; ++i) {
    Recorder& worker = workers[i % 2];
    RequestRecord r;
    r.index = 2 - i;
    r.prompt = i == 1 ? 0 : 1;
    r.conversation = static_cast<std::int32_t>(i);
    r.turn = 1;
    r.scheduled = worker.since_origin(2'000);
    r.admitted = worker.since_origin(2'100);
    r.start = worker.since_origin(2'200);
    r.connected = worker.since_origin(2'300);
    r.sent = worker.since_origin(2'400);
    r.headers = worker.since_origin(i == 0 ? 0 : 2'500);
    r.end = worker.since_origin(9'000);
    r.status = 200;
    r.failure = i == 2 ? TransportFailure::kReset : TransportFailure::kNone;
    r.finish_reason = FinishReason::kLength;
    r.streamed = false;
    r.reused_connection = true;
    r.warmup = i == 0;
    r.prompt_tokens = 100;
    r.completion_tokens = 2;
    r.image_tokens = 0;
    r.retokenized_tokens = 3;
    r.max_tokens = 2;
    r.body_bytes = 5'000'000'000;
    r.response_bytes = 77;
    r.answer = worker.keep(fmt::format("answer {}", r.index));
    r.reasoning = worker.keep("hm");
    r.error = worker.keep("");
    r.first_event = worker.keep(fmt::format("event {}", r.index));
    worker.keep_stages(r, {{"queue", 0.25 * r.index}, {"prefill", 1e-7}});
    worker.event(r.index, 3'000, 120, kUnknownTokens, kRoleEvent | kChoicesEvent);
    worker.event(r.index, 3'000 + 10 * i, 130, 2, kContentEvent | kChoicesEvent);
    worker.event(r.index, 4'000, 6, 0, kDoneEvent);
    worker.finish(r);
  }
  RunLog log = merge(header, {prompt, PromptRecord{}}, std::move(workers));
  log.samples = {{500, "metrics", {{"kv_use{a=\"b\"}", 0.5}}}};
  log.client = {2, 1.5, 0.75, 3, 4, 5, 6, 7, 8};
  log.stop_reason = "complete";
  return log;
}

TEST(RunLog, MergesWorkersByIndex) {
  const RunLog log = sample_log();
  ASSERT_EQ(log.requests.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(log.requests[i].index, i);
    EXPECT_EQ(log.text_of(log.requests[i].answer), fmt::format("answer {}", i));
    EXPECT_EQ(log.text_of(log.requests[i].first_event), fmt::format("event {}", i));
    EXPECT_EQ(log.stages_of(log.requests[i])[0].seconds, 0.25 * i);
    ASSERT_EQ(log.events_of(i).size(), 3u);
    EXPECT_EQ(log.events_of(i)[1].at, 2'000 + 10 * (2 - i));
    for (const LoggedEvent& event : log.events_of(i)) EXPECT_EQ(event.request, i);
  }
  EXPECT_EQ(log.requests[2].headers, kNever);
  EXPECT_EQ(log.requests[2].start, 1'200);
}

TEST(RunLog, EventsOfUnfinishedRequestsAreDropped) {
  std::vector<Recorder> workers;
  workers.emplace_back(0);
  workers[0].event(0, 1, 1, 1, kContentEvent);
  workers[0].event(1, 2, 1, 1, kContentEvent);
  workers[0].event(2, 3, 1, 1, kContentEvent);
  RequestRecord record;
  record.index = 1;
  workers[0].finish(record);
  const RunLog log = merge({}, {PromptRecord{}}, std::move(workers));
  ASSERT_EQ(log.events.size(), 1u);
  EXPECT_EQ(log.events_of(0)[0].at, 2);
}

TEST(RunLog, TextFormRoundTrips) {
  const RunLog log = sample_log();
  const std::string text = to_text(log);
  const auto read = parse_run_log(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->truncated);
  EXPECT_EQ(to_text(*read), text);
  EXPECT_EQ(read->header.seed, log.header.seed);
  EXPECT_EQ(read->header.argv, log.header.argv);
  EXPECT_EQ(read->header.burstiness, log.header.burstiness);
  EXPECT_EQ(read->requests[1].failure, log.requests[1].failure);
  EXPECT_EQ(read->requests[2].headers, kNever);
  EXPECT_EQ(read->client.loop_lag_max, 8);
  EXPECT_EQ(read->prompts[0].images[0].sha256, "dd");
}

TEST(RunLog, DefaultsRoundTrip) {
  RunLog log = merge({}, {PromptRecord{}}, {});
  log.stop_reason = "complete";
  const auto read = parse_run_log(to_text(log));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_text(*read), to_text(log));
  EXPECT_EQ(read->header.request_rate, std::numeric_limits<double>::infinity());
}

// Logs from before the member say by their command whether the caches were reset.
TEST(RunLog, CacheResetOfOlderLogs) {
  const auto reset = [](const std::string& members) {
    return parse_run_log("{\"saccade_run\":1" + members + "}\n")->header.cache_reset;
  };
  EXPECT_TRUE(reset(R"(,"cache_reset":true)"));
  EXPECT_TRUE(reset(R"(,"argv":["bench","serve","--reset-cache"])"));
  EXPECT_FALSE(reset(R"(,"argv":["bench","serve","--label","--reset-cache-not"])"));
  EXPECT_FALSE(reset(""));
}

TEST(RunLog, AnyCutGivesThePrefixOrAnError) {
  const std::string text = to_text(sample_log());
  const std::size_t header_end = text.find('\n') + 1;
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    const auto read = parse_run_log(std::string_view(text).substr(0, cut));
    if (cut + 1 < header_end) {
      EXPECT_FALSE(read) << cut;
      continue;
    }
    ASSERT_TRUE(read) << cut << ": " << read.error().message;
    EXPECT_TRUE(read->truncated);
    EXPECT_EQ(read->event_begin.size(), read->requests.size() + 1);
  }
}

TEST(RunLog, BadLinesAreNamed) {
  const std::string head = "{\"saccade_run\":1}\n{\"prompt\":0}\n";
  const std::string times = "\"times\":[0,0,0,0,0,0,0]";
  const auto message_of = [](const std::string& text) {
    const auto read = parse_run_log(text);
    return read ? std::string("accepted") : read.error().message;
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the run log is empty"},
      {"{}\n", "line 1: not a saccade run log"},
      {"<html>\n", "line 1: JSON is malformed"},
      {"{\"saccade_run\":2}\n", "line 1: run log version 2"},
      {"{\"saccade_run\":1,\"seed\":-1}\n", "line 1: 'seed' is -1"},
      {head + "{\"saccade_run\":1}\n", "line 3: a second header"},
      {head + "{\"prompt\":2}\n", "line 3: 'prompt' is 2"},
      {head + "{\"request\":0,\"prompt\":0}\n", "line 3: 'times' must be"},
      {head + "{\"request\":0,\"prompt\":1," + times + "}\n", "line 3: 'prompt' is 1"},
      {head + "{\"request\":0,\"prompt\":0," + times + ",\"usage\":[1]}\n", "'usage' must be"},
      {head + "{\"request\":0,\"prompt\":0," + times + ",\"events\":[1,1,1]}\n", "'events' has 3"},
      {head + "{\"request\":0,\"prompt\":0," + times + ",\"events\":[5,1,1,1,-4,1,1,1]}\n",
       "'events: instant' is -4"},
      {head + "{\"request\":0,\"prompt\":0," + times + ",\"events\":[5,1,1,9999]}\n",
       "'events: kinds' is 9999"},
      {head + "{\"request\":0,\"prompt\":0," + times + ",\"events\":[5,1,134217728,1,6,1,1,1]}\n",
       "'events': those so far bring 134217729 tokens, the limit is 134217728"},
      {head + "{\"request\":0,\"prompt\":0," + times + ",\"failure\":\"bored\"}\n", "bored"},
      {head + "{\"end\":\"complete\",\"requests\":4}\n", "line 3: 'requests' is 4"},
      {head + "{\"end\":\"complete\"}\n{\"prompt\":1}\n", "line 4: more lines"},
      {head + "{\"what\":1}\n", "line 3: none of"},
      {"{\"saccade_run\":1}\n{\"request\":0,\"prompt\":0," + times + "}\n", "before any prompt"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_NE(message_of(text).find(expected), std::string::npos) << text << "\n"
                                                                  << message_of(text);
}

TEST(RunLog, FileIsReplacedWhole) {
  const std::string path = testing::TempDir() + "/run_log_test.jsonl";
  const RunLog log = sample_log();
  ASSERT_TRUE(write_run_log(log, path));
  const auto read = read_run_log(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_text(*read), to_text(log));
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  std::filesystem::remove(path);
  EXPECT_FALSE(write_run_log(log, "/proc/x/y.jsonl"));
  EXPECT_FALSE(read_run_log(path));
}

// One line a case: what the record and its events say, and the class.
TEST(RunLog, ErrorClasses) {
  const auto classify = [](int status, TransportFailure failure, std::vector<EventKinds> kinds,
                           std::int32_t tokens = kUnknownTokens) {
    RequestRecord record;
    record.status = status;
    record.failure = failure;
    std::vector<LoggedEvent> events;
    for (const EventKinds k : kinds) events.push_back({0, 0, 1, tokens, k});
    return error_class(record, events);
  };
  using F = TransportFailure;
  EXPECT_EQ(classify(200, F::kNone, {kContentEvent, kFinishEvent}), ErrorClass::kNone);
  EXPECT_EQ(classify(200, F::kNone, {kContentEvent, kDoneEvent}), ErrorClass::kNone);
  EXPECT_EQ(classify(200, F::kNone, {kToolEvent | kFinishEvent}), ErrorClass::kNone);
  EXPECT_EQ(classify(200, F::kNone, {kChoicesEvent, kFinishEvent}, 1), ErrorClass::kNone);
  EXPECT_EQ(classify(200, F::kNone, {kContentEvent}), ErrorClass::kTruncated);
  EXPECT_EQ(classify(200, F::kReset, {kContentEvent}), ErrorClass::kTruncated);
  EXPECT_EQ(classify(0, F::kReset, {}), ErrorClass::kReset);
  EXPECT_EQ(classify(200, F::kNone, {kRoleEvent, kFinishEvent, kDoneEvent}), ErrorClass::kEmpty);
  constexpr EventKinds kRole = kChoicesEvent | kRoleEvent;
  constexpr EventKinds kFinish = kChoicesEvent | kFinishEvent;
  EXPECT_EQ(classify(200, F::kNone, {kRole, kFinish, kDoneEvent}), ErrorClass::kEmpty);
  EXPECT_EQ(classify(200, F::kNone, {kRole, kFinish, kDoneEvent}, 0), ErrorClass::kEmpty);
  // Special tokens alone: a chunk each, or usage that counts them.
  EXPECT_EQ(classify(200, F::kNone, {kRole, kChoicesEvent, kFinish}), ErrorClass::kNone);
  RequestRecord counted;
  counted.status = 200;
  counted.completion_tokens = 40;
  const std::vector<LoggedEvent> silent = {{0, 0, 1, kUnknownTokens, kFinish}};
  EXPECT_EQ(error_class(counted, silent), ErrorClass::kNone);
  counted.completion_tokens = 0;
  EXPECT_EQ(error_class(counted, silent), ErrorClass::kEmpty);
  EXPECT_EQ(classify(200, F::kNone, {kContentEvent, kErrorEvent, kDoneEvent}),
            ErrorClass::kSseError);
  EXPECT_EQ(classify(503, F::kNone, {}), ErrorClass::kHttp);
  EXPECT_EQ(classify(0, F::kConnect, {}), ErrorClass::kConnect);
  EXPECT_EQ(classify(200, F::kTimeout, {kContentEvent}), ErrorClass::kTimeout);
  EXPECT_EQ(classify(200, F::kUnfinished, {kContentEvent}), ErrorClass::kUnfinished);
}

}  // namespace
}  // namespace saccade::bench
