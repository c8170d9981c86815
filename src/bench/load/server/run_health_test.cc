#include "bench/load/server/run_health.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "tests/support/hand_log.h"

namespace saccade::bench {
namespace {

constexpr EventKinds kHealthText = kContentEvent | kChoicesEvent;

// Arrivals every 50 ms into one server that takes `service_ms` each.
RunLog queue_run(double service_ms, std::uint64_t seed = 1) {
  Rng rng(seed);
  RunHeader header;
  header.arrivals = "poisson";
  header.request_rate = 20;
  std::vector<HandRequest> requests;
  double due = 0;
  double free = 0;
  for (int i = 0; i < 600; ++i) {
    due += -50 * std::log1p(-rng.uniform());
    free = std::max(free, due) + service_ms;
    requests.push_back({.scheduled_ms = due,
                        .start_ms = due,
                        .end_ms = free,
                        .events = {{free, kHealthText | kFinishEvent}}});
  }
  return hand_log(requests, header);
}

TEST(RunHealth, FailuresSayTheirFirstReason) {
  const RunLog well = hand_log({{.end_ms = 2, .events = {{1, kHealthText | kFinishEvent}}}});
  EXPECT_EQ(failures_line(well, compute_metrics(well)), "");
  const RunLog log = hand_log({{.end_ms = 2, .events = {{1, kHealthText | kFinishEvent}}},
                               {.end_ms = 2, .events = {{1, kChoicesEvent | kFinishEvent}}},
                               {.end_ms = 2, .status = 400, .error = "HTTP 400: too long"},
                               {.end_ms = 2, .status = 400, .error = "HTTP 400: another"}});
  EXPECT_EQ(
      failures_line(log, compute_metrics(log)),
      "3 of 4 requests failed: 2 http: HTTP 400: too long; 1 empty: the answer ended well but "
      "holds no token");
}

TEST(RunHealth, OverloadIsAGrowingQueue) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    // Twice the capacity, and a healthy queue at 60 %.
    const RunLog over = queue_run(100, seed);
    EXPECT_TRUE(judge_overload(over, compute_metrics(over)).overloaded) << seed;
    const RunLog fine = queue_run(30, seed);
    EXPECT_FALSE(judge_overload(fine, compute_metrics(fine)).overloaded) << seed;
  }
  RunLog closed = queue_run(100);
  closed.header.arrivals = "closed-loop";
  EXPECT_FALSE(judge_overload(closed, compute_metrics(closed)).overloaded);
}

TEST(RunHealth, ClientLimits) {
  RunLog log = queue_run(10);
  log.client = {.threads = 2,
                .wall_seconds = 10,
                .cpu_seconds = 3,
                .connects = 1,
                .bytes_sent = 1,
                .bytes_received = 1,
                .loop_lag_p50 = 0,
                .loop_lag_p99 = 90'000,
                .loop_lag_max = 0};
  EXPECT_FALSE(judge_client(log, compute_metrics(log)).limiting);
  EXPECT_NEAR(judge_client(log, compute_metrics(log)).cpu_share, 0.15, 1e-12);
  log.client.cpu_seconds = 19;
  EXPECT_TRUE(judge_client(log, compute_metrics(log)).limiting);
  log.client.cpu_seconds = 3;
  for (RequestRecord& r : log.requests) r.admitted = r.start - 2 * kMillisecond;
  const ClientVerdict late = judge_client(log, compute_metrics(log));
  EXPECT_TRUE(late.limiting);
  ASSERT_EQ(late.reasons.size(), 1u);
  EXPECT_NE(late.reasons[0].find("is 2, limit 1"), std::string::npos) << late.reasons[0];
}

TEST(RunHealth, CacheContamination) {
  RunLog log = queue_run(10);
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    log.requests[i].prompt_tokens = 100;
    log.requests[i].cached_tokens = 0;
    log.prompts[i].content_hash = fmt::to_string(i);
  }
  EXPECT_FALSE(judge_cache(log, compute_metrics(log)).contaminated);
  for (RequestRecord& r : log.requests) r.cached_tokens = 90;
  EXPECT_TRUE(judge_cache(log, compute_metrics(log)).contaminated);
  EXPECT_NEAR(judge_cache(log, compute_metrics(log)).cached_share, 0.9, 1e-12);
  log.header.argv = {"bench", "serve", "--label", "--reset-cache"};  // a text, no reset
  EXPECT_TRUE(judge_cache(log, compute_metrics(log)).contaminated);
  log.header.cache_reset = true;
  EXPECT_FALSE(judge_cache(log, compute_metrics(log)).contaminated);
  EXPECT_TRUE(judge_cache(log, compute_metrics(log)).reset);
  log.header.cache_reset = false;
  // Repeats within the run explain their own hits.
  for (PromptRecord& prompt : log.prompts) prompt.content_hash = "same";
  log.requests[0].cached_tokens = 0;
  const CacheVerdict repeats = judge_cache(log, compute_metrics(log));
  EXPECT_FALSE(repeats.contaminated);
  EXPECT_EQ(repeats.repeated_prompts, 599);
}

TEST(RunHealth, TextSaysIt) {
  RunLog log = queue_run(100);
  log.header.argv = {"saccade", "bench"};
  log.header.seed = 41;
  log.stop_reason = "interrupted";
  const std::string text = health_text(log, compute_metrics(log));
  EXPECT_NE(text.find("Server: OVERLOADED"), std::string::npos);
  EXPECT_NE(text.find("seed         41"), std::string::npos);
  EXPECT_NE(text.find("interrupted"), std::string::npos);
  EXPECT_NE(text.find("P99 TTFT"), std::string::npos);
  EXPECT_FALSE(health_text(hand_log({}), compute_metrics(hand_log({}))).empty());

  log.requests[7].status = 503;
  log.requests[7].error = {log.text.size(), 10};
  log.text += "overloaded";
  EXPECT_NE(health_text(log, compute_metrics(log)).find("1  overloaded\n"), std::string::npos);
}

}  // namespace
}  // namespace saccade::bench
