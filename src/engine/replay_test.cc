#include "engine/replay.h"

#include <gtest/gtest.h>

#include <array>

#include "memory/prefix/cache_shape.h"

namespace saccade {
namespace {

Result<CacheShape> parse(std::string_view text) { return parse_cache_shape(*json::parse(text)); }

CacheShape mllama() {
  return *parse(R"({"name": "m", "layers": [
      {"kind": "full", "count": 32, "kv_heads": 8, "head_dim": 128},
      {"kind": "cross_attention", "count": 8, "kv_heads": 8, "head_dim": 128}]})");
}

CacheShape windowed() {
  return *parse(R"({"name": "w", "layers": [
      {"kind": "sliding_window", "window": 64, "count": 5, "kv_heads": 1, "head_dim": 8},
      {"kind": "full", "kv_heads": 1, "head_dim": 8}]})");
}

ReplaySettings replay_settings(KvPolicy policy, std::int64_t bytes) {
  ReplaySettings settings;
  settings.kv.plan.policy = policy;
  settings.kv.pool_bytes = bytes;
  settings.sample_every = 1;
  return settings;
}

TEST(CacheShape, ReadsLayersAndNamesWhatIsWrong) {
  EXPECT_EQ(mllama().layers.size(), 40u);
  EXPECT_EQ(windowed().layers[0].window, 64);
  const auto message = [](std::string_view text) { return parse(text).error().message; };
  EXPECT_NE(message(R"([])").find("an array"), std::string::npos);
  EXPECT_NE(message(R"({"name": "x"})").find("layers"), std::string::npos);
  EXPECT_NE(message(R"({"name": "x", "layers": [{"kind": "odd"}]})").find("odd"),
            std::string::npos);
  EXPECT_NE(
      message(R"({"name": "x", "layers": [{"kind": "state", "state_bytes": 0}]})").find("is 0"),
      std::string::npos);
  EXPECT_NE(message(R"({"name": "x", "layers": [{"kind": "vision_embedding", "hidden": 8,
                        "count": 5000}]})")
                .find("4096"),
            std::string::npos);
}

// 43 text and 6,193 image tokens: of 40 layers' rows for all of them, 32 read the text and 8 the
// image.
TEST(Replay, PagedWastesWhatThePaperSaysOnCrossAttention) {
  const std::vector<ReplayRequest> requests(40, {43, 6193, 64, {}});
  const auto waste = [&](KvPolicy policy) {
    ReplaySettings settings = replay_settings(policy, std::int64_t{10} << 30);
    settings.kv.prefix_caching = false;
    const auto report = replay(mllama().layers, requests, settings);
    EXPECT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->finished, 40);
    EXPECT_EQ(report->mean.total(), report->samples_taken.front().total());
    return report->waste();
  };
  EXPECT_NEAR(waste(KvPolicy::kPaged), 0.796, 0.005);
  EXPECT_LT(waste(KvPolicy::kJenga), 0.01);
}

TEST(Replay, JengaRunsMoreAtOnceAndLeavesNothingIdle) {
  const std::vector<ReplayRequest> requests(200, {600, 0, 40, {}});
  const auto run = [&](KvPolicy policy) {
    auto report = replay(windowed().layers, requests, replay_settings(policy, 1 << 20));
    EXPECT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->finished, 200);
    return *std::move(report);
  };
  const ReplayReport jenga = run(KvPolicy::kJenga);
  const ReplayReport paged = run(KvPolicy::kPaged);
  EXPECT_GT(jenga.mean_running, 1.5 * paged.mean_running);
  EXPECT_GT(jenga.mean.useful, 2 * paged.mean.useful);
  EXPECT_GT(paged.mean.overhold, paged.mean.useful);
  EXPECT_LT(jenga.steps, paged.steps);
}

TEST(Replay, SharedBlocksAreFoundAndLongRequestsRefused) {
  constexpr std::array<std::int64_t, 2> kNames = {1, 2};
  std::vector<ReplayRequest> requests(6, {1024, 0, 4, kNames});
  requests.push_back({1 << 20, 0, 4, {}});
  auto settings = replay_settings(KvPolicy::kJenga, 1 << 20);
  settings.kv.plan.max_sequences = 1;  // one after the other
  const auto report = replay(windowed().layers, requests, settings);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->finished, 6);
  EXPECT_EQ(report->refused, 1);
  EXPECT_EQ(report->hit_tokens, 5 * 1023);
  EXPECT_EQ(report->peak_running, 1);
}

TEST(Replay, PreemptedRequestsEnd) {
  std::vector<ReplayRequest> requests(30, {20, 0, 200, {}});
  auto settings = replay_settings(KvPolicy::kJenga, 1 << 17);
  settings.kv.prefix_caching = false;
  const auto report = replay(windowed().layers, requests, settings);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->finished, 30);
  EXPECT_GT(report->preemptions, 0u);
  EXPECT_GT(report->recomputed_tokens, 0);
}

TEST(Replay, RefusesRequestsOfNothing) {
  const std::vector<ReplayRequest> requests(1, {0, 5, 1, {}});
  EXPECT_FALSE(replay(windowed().layers, requests, replay_settings(KvPolicy::kJenga, 1 << 20)));
}

}  // namespace
}  // namespace saccade
