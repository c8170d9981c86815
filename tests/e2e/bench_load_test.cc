// What a load is made of, end to end: sweeps, levels, ramps, limits, repetitions, servers that are
// started for a run, what is watched meanwhile, and the verdicts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "tests/support/command.h"
#include "tests/support/recording_server.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

// A run log's lines by what they are.
struct Log {
  json::object header;
  std::vector<json::object> requests;
  std::vector<json::object> samples;
  std::string end;
};

Log read_log(const std::string& path) {
  Log log;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    auto tree = json::parse(line);
    if (!tree || !tree->is_object()) {
      ADD_FAILURE() << path << ": " << line;
      continue;
    }
    const json::object& row = tree->get_object();
    if (row.contains("saccade_run")) log.header = row;
    if (row.contains("request")) log.requests.push_back(row);
    if (row.contains("sample")) log.samples.push_back(row);
    if (row.contains("end")) log.end = row.at("end").as_string();
  }
  EXPECT_FALSE(log.header.empty()) << path;
  return log;
}

std::int64_t instant(const json::object& request, std::size_t which) {
  const json::value& at = request.at("times").at(which);
  return at.is_null() ? -1 : at.as_int64();
}

Words load_words(std::uint16_t port, const Words& more) { return bench_serve_words(port, 4, more); }

TEST(BenchLoad, RateSweepIsARunARate) {
  MockProcess mock(SACCADE_BINARY);
  TemporaryDirectory work;
  const CommandOutcome run = run_command(
      SACCADE_BINARY, load_words(mock.port(), {"--num-prompts", "8", "--request-rate-sweep",
                                               "100:200:100", "--log", work / "run.jsonl"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(read_log(work / "run-1.jsonl").header.at("request_rate").to_number<double>(), 100);
  EXPECT_EQ(read_log(work / "run-2.jsonl").header.at("request_rate").to_number<double>(), 200);
  EXPECT_THAT(run.out, HasSubstr("| "));  // the table of both
}

TEST(BenchLoad, LevelsAreClosedLoops) {
  MockProcess mock(SACCADE_BINARY, {"--ttft", "5"});
  TemporaryDirectory work;
  const CommandOutcome run = run_command(
      SACCADE_BINARY, load_words(mock.port(), {"--num-prompts", "12", "--num-concurrency", "1", "3",
                                               "--log", work / "run.jsonl"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const int level : {1, 3}) {
    const Log log = read_log(work / (level == 1 ? "run-1.jsonl" : "run-2.jsonl"));
    EXPECT_EQ(log.header.at("max_concurrency").as_int64(), level);
    EXPECT_EQ(log.header.at("arrivals").as_string(), "closed-loop");
    EXPECT_EQ(log.requests.size(), 12U);
    int most = 0;
    for (const auto& a : log.requests) {
      int at_once = 0;
      for (const auto& b : log.requests)
        at_once += instant(b, 2) <= instant(a, 2) && instant(a, 2) < instant(b, 6);
      most = std::max(most, at_once);
    }
    EXPECT_EQ(most, level);
  }
}

TEST(BenchLoad, RampsGetFaster) {
  MockProcess mock(SACCADE_BINARY);
  TemporaryDirectory work;
  const CommandOutcome run = run_command(
      SACCADE_BINARY,
      load_words(mock.port(), {"--num-prompts", "60", "--request-rate", "100", "--burstiness",
                               "inf", "--ramp-up-strategy", "linear", "--ramp-up-start-rps", "20",
                               "--ramp-up-end-rps", "200", "--log", work / "run.jsonl"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Log log = read_log(work / "run.jsonl");
  EXPECT_EQ(log.header.at("ramp_up_strategy").as_string(), "linear");
  ASSERT_EQ(log.requests.size(), 60U);
  const std::int64_t early = instant(log.requests[10], 0) - instant(log.requests[0], 0);
  const std::int64_t late = instant(log.requests[59], 0) - instant(log.requests[49], 0);
  EXPECT_GT(early, 2 * late);
}

TEST(BenchLoad, DurationEndsTheRun) {
  MockProcess mock(SACCADE_BINARY);
  TemporaryDirectory work;
  const CommandOutcome run = run_command(
      SACCADE_BINARY, load_words(mock.port(), {"--num-prompts", "5000", "--request-rate", "100",
                                               "--duration", "0.5", "--log", work / "run.jsonl"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Log log = read_log(work / "run.jsonl");
  EXPECT_GT(log.requests.size(), 20U);
  EXPECT_LT(log.requests.size(), 90U);
  for (const auto& request : log.requests) EXPECT_LE(instant(request, 0), 500'000'000);
}

TEST(BenchLoad, RepeatsHaveAnInterval) {
  MockProcess mock(SACCADE_BINARY, {"--ttft", "2"});
  const CommandOutcome run = run_command(
      SACCADE_BINARY, load_words(mock.port(), {"--num-prompts", "10", "--repeat", "3", "--brief"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(" 3 runs "));
  EXPECT_THAT(run.out, HasSubstr("mean over runs  [95 % t-interval]"));
}

TEST(BenchLoad, AServerForEveryRepetition) {
  TemporaryDirectory work;
  const std::string port = std::to_string(free_port());
  // Each start leaves a line behind.
  const std::string command = "echo started >> " + work / "starts" + "; exec " + SACCADE_BINARY +
                              " bench mock --port " + port;
  const Words words =
      load_words(static_cast<std::uint16_t>(std::stoi(port)),
                 {"--num-prompts", "4", "--repeat", "2", "--ready-check-timeout-sec", "60",
                  "--server-cmd", command, "--result-dir", work.path()});
  const CommandOutcome run = run_command(SACCADE_BINARY, words);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(read_file(work / "starts"), "started\nstarted\n");
  EXPECT_THAT(read_file(work / "server.log"), HasSubstr("requests on"));  // it was told to stop
  EXPECT_FALSE(TcpSocket::connect(static_cast<std::uint16_t>(std::stoi(port))).valid());
}

TEST(BenchLoad, AServerCommandThatEndsOrIsNotNeeded) {
  TemporaryDirectory work;
  const CommandOutcome ended = run_command(
      SACCADE_BINARY,
      load_words(free_port(), {"--server-cmd", "echo no such model; exit 3", "--result-dir",
                               work.path(), "--ready-check-timeout-sec", "100"}));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("has ended: no such model"));

  MockProcess mock(SACCADE_BINARY);
  const CommandOutcome taken = run_command(
      SACCADE_BINARY, load_words(mock.port(), {"--server-cmd", "sleep 100", "--result-dir",
                                               work.path(), "--ready-check-timeout-sec", "100"}));
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_THAT(taken.err, HasSubstr("a server answers already"));
}

TEST(BenchLoad, WaitsUntilTheServerIsThere) {
  const std::uint16_t port = free_port();
  Command bench(SACCADE_BINARY,
                load_words(port, {"--num-prompts", "2", "--ready-check-timeout-sec", "60"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  Command mock(SACCADE_BINARY, {"bench", "mock", "--port", std::to_string(port)});
  const CommandOutcome outcome = bench.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST(BenchLoad, WarmUpsAreNoneOfTheMeasuredRequests) {
  RecordingServer server(
      R"({"id":"c","object":"text_completion","created":1,"model":"recorded","choices":[{"index":0,)"
      R"("text":"x","finish_reason":"length"}],)"
      R"("usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}})");
  TemporaryDirectory work;
  const CommandOutcome run = run_command(
      SACCADE_BINARY, load_words(server.port(), {"--num-prompts", "5", "--num-warmups", "3",
                                                 "--no-stream", "--log", work / "run.jsonl"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::set<std::string> prompts;
  for (const std::string& body : server.bodies()) {
    auto tree = json::parse(body);
    ASSERT_TRUE(tree);
    prompts.insert(std::string(tree->at("prompt").as_string()));
  }
  EXPECT_EQ(server.bodies().size(), 8U);
  EXPECT_EQ(prompts.size(), 8U);  // all differ
  EXPECT_EQ(read_log(work / "run.jsonl").requests.size(), 5U);
}

// 50 answers a second against 100 requests: the queue grows, the run ends in time all the same, and
// what had no answer is counted as failed.
TEST(BenchLoad, OverloadIsSaidAndNothingIsForgotten) {
  MockProcess mock(SACCADE_BINARY, {"--service-time", "20"});
  TemporaryDirectory work;
  const auto begin = std::chrono::steady_clock::now();
  const CommandOutcome run = run_command(
      SACCADE_BINARY,
      load_words(mock.port(), {"--num-prompts", "10000", "--request-rate", "100", "--duration", "3",
                               "--drain-limit", "0.5", "--log", work / "run.jsonl"}));
  const auto spent = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_LT(spent, std::chrono::seconds(100));  // all of it would take 200
  EXPECT_THAT(run.out, HasSubstr("OVERLOADED"));
  const Log log = read_log(work / "run.jsonl");
  std::size_t unfinished = 0;
  for (const auto& request : log.requests)
    unfinished += request.contains("failure") && request.at("failure").as_string() == "unfinished";
  EXPECT_GT(unfinished, 20U);
  EXPECT_THAT(run.err, HasSubstr(std::to_string(unfinished) + " of " +
                                 std::to_string(log.requests.size()) + " requests failed"));
}

// At a fifth of that rate there is nothing to say.
TEST(BenchLoad, NoOverloadWithinTheCapacity) {
  MockProcess mock(SACCADE_BINARY, {"--service-time", "20"});
  const CommandOutcome run = run_command(
      SACCADE_BINARY, load_words(mock.port(), {"--num-prompts", "30", "--request-rate", "10"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, Not(HasSubstr("OVERLOADED")));
}

// The first Ctrl-C: what is there is written and reported.
TEST(BenchLoad, AnInterruptedRunIsKept) {
  MockProcess mock(SACCADE_BINARY);
  TemporaryDirectory work;
  Command bench(SACCADE_BINARY, load_words(mock.port(), {"--num-prompts", "1000", "--request-rate",
                                                         "50", "--log", work / "run.jsonl"}));
  mock.await_requests(50);
  bench.signal(SIGINT);
  const CommandOutcome run = bench.wait();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("Successful requests:"));
  const Log log = read_log(work / "run.jsonl");
  EXPECT_EQ(log.end, "interrupted");
  EXPECT_FALSE(log.requests.empty());
}

// Saccade's own server: its page, its memory, its stage times, and its prefix cache.
TEST(BenchLoad, TheServerIsWatchedAndItsCacheJudged) {
  ServerProcess server(
      SACCADE_BINARY,
      {"serve", "--model", std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/odd_heads",
       "--dtype", "float32", "--kv-cache-bytes", "8MiB", "--max-model-len", "512"});
  TemporaryDirectory work;
  const Words words = {"bench",
                       "serve",
                       "--port",
                       std::to_string(server.port()),
                       "--num-prompts",
                       "6",
                       "--random-input-len",
                       "120",
                       "--random-output-len",
                       "8",
                       "--request-rate",
                       "20",
                       "--server-timings",
                       "--scrape-period",
                       "0.1",
                       "--require-cold",
                       "--log",
                       work / "run.jsonl"};
  const CommandOutcome cold = run_command(SACCADE_BINARY, words);
  ASSERT_EQ(cold.exit_code, 0) << cold.err << cold.out;

  const Log log = read_log(work / "run.jsonl");
  std::set<std::string> sources;
  std::int64_t first_page = INT64_MAX;
  std::int64_t last_page = INT64_MIN;
  for (const auto& sample : log.samples) {
    const std::string source(sample.at("source").as_string());
    sources.insert(source);
    if (source != "metrics") continue;
    first_page = std::min(first_page, sample.at("sample").as_int64());
    last_page = std::max(last_page, sample.at("sample").as_int64());
  }
  EXPECT_TRUE(sources.contains("metrics"));
  EXPECT_TRUE(sources.contains("memory"));
  ASSERT_EQ(log.requests.size(), 6U);
  std::int64_t last_end = 0;
  for (const auto& request : log.requests) {
    EXPECT_FALSE(request.at("stages").as_object().empty());
    last_end = std::max(last_end, instant(request, 6));
  }
  EXPECT_LT(first_page, last_end);
  EXPECT_GE(last_page, last_end);

  // The same prompts once more: the server knows them.
  const CommandOutcome warm = run_command(SACCADE_BINARY, words);
  EXPECT_EQ(warm.exit_code, 1);
  EXPECT_THAT(warm.out, HasSubstr("Cache: WARNING"));
  EXPECT_THAT(warm.err, HasSubstr("--require-cold"));

  Words reset = words;
  reset.push_back("--reset-cache");
  const CommandOutcome again = run_command(SACCADE_BINARY, reset);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("caches reset: /reset_prefix_cache"));
}

}  // namespace
}  // namespace saccade::test
