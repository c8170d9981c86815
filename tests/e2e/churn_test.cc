// 64 streams at a time, half of them cut at random moments: nothing leaks, nothing is lost, and
// every answer that finished is the answer that the same request gets alone.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "base/json.h"
#include "base/rng.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

constexpr int kStreams = 64;
constexpr int kKinds = 12;

int total_requests() {
  const char* asked = std::getenv("SACCADE_CHURN_REQUESTS");
  return asked != nullptr ? std::atoi(asked) : 2000;
}

// Request number `kind`: prompts of several lengths, every third with one of the golden images.
std::string request_of_kind(int kind) {
  std::string text;
  for (int i = 0; i <= kind * 3; ++i) text += "word " + std::to_string(i * kind) + " ";
  std::string content = "[";
  if (kind % 3 == 0) {
    const char* names[] = {"small", "wide", "tall", "square"};
    content += R"({"type":"image_url","image_url":{"url":"file://)" +
               std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/images/" +
               names[kind / 3 % 4] + R"(.png"}},)";
  }
  content += R"({"type":"text","text":")" + text + "\"}]";
  return R"({"messages":[{"role":"user","content":)" + content +
         R"(}],"stream":true,"ignore_eos":true,"seed":)" + std::to_string(kind) +
         R"(,"temperature":)" + (kind % 2 == 0 ? "0" : "0.8") + R"(,"max_tokens":)" +
         std::to_string(8 + kind * 4) + "}";
}

// The text of a whole stream; empty when it has no [DONE].
std::string text_of_stream(const std::string& events) {
  if (events.find("data: [DONE]") == std::string::npos) return {};
  std::string text = "|";
  std::size_t at = 0;
  while ((at = events.find("data: {", at)) != std::string::npos) {
    const std::size_t end = events.find("\n\n", at);
    const auto tree = json::parse(std::string_view(events).substr(at + 6, end - at - 6));
    if (!tree) return {};
    for (const auto& choice : tree->at("choices").as_array()) {
      text += std::string_view(choice.at("delta").at("content").as_string());
    }
    at = end;
  }
  return text;
}

TEST(Churn, CutStreamsLeaveNothingBehind) {
  // Freed memory that the sanitizer keeps back would look like growth.
  setenv("ASAN_OPTIONS", "quarantine_size_mb=4:detect_leaks=1", 1);
  // Few pages: the streams also preempt one another.
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kCheckpoint, "--dtype", "float32",
                                        "--max-num-seqs", "24", "--max-num-batched-tokens", "96",
                                        "--kv-cache-bytes", "8MiB", "--max-model-len", "512",
                                        "--max-waiting", "4096", "--allowed-local-media-path",
                                        std::string(SACCADE_SOURCE_DIR) + "/tests/golden"});
  std::map<int, std::string> solo;
  for (int kind = 0; kind < kKinds; ++kind) {
    const RawAnswer answer =
        exchange(server.port(), "POST", "/v1/chat/completions", request_of_kind(kind));
    ASSERT_EQ(answer.status, 200) << answer.body;
    solo[kind] = text_of_stream(answer.body);
    ASSERT_FALSE(solo[kind].empty()) << answer.body;
  }

  const int total = total_requests();
  std::atomic<int> next = 0;
  std::atomic<int> finished = 0;
  std::atomic<std::int64_t> resident_half = 0;
  std::mutex mutex;
  std::vector<std::string> wrong;
  std::vector<std::thread> clients;
  for (int stream = 0; stream < kStreams; ++stream) {
    clients.emplace_back([&, stream] {
      Rng rng(static_cast<std::uint64_t>(stream) + 99);
      for (int i = next++; i < total; i = next++) {
        if (i == total / 2) resident_half = server.resident_bytes();
        const int kind = static_cast<int>(rng.below(kKinds));
        const bool cut = rng.below(2) == 0;
        const std::int64_t cut_after = cut ? static_cast<std::int64_t>(rng.below(6000)) : -1;
        const RawAnswer answer = exchange(server.port(), "POST", "/v1/chat/completions",
                                          request_of_kind(kind), cut_after);
        if (cut) continue;
        ++finished;
        if (answer.status != 200 || text_of_stream(answer.body) != solo[kind]) {
          const std::lock_guard lock(mutex);
          wrong.push_back(fmt::format("kind {}: status {}, {}", kind, answer.status,
                                      answer.body.substr(0, 200)));
        }
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_TRUE(wrong.empty()) << wrong.size() << " of " << finished
                             << " differ, first: " << wrong.front();
  EXPECT_GT(finished, total / 3);

  for (int i = 0; i < 600 && metric(server.port(), "vllm:num_requests_running") > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(metric(server.port(), "vllm:num_requests_running"), 0);
  EXPECT_EQ(metric(server.port(), "vllm:num_requests_waiting"), 0);
  EXPECT_EQ(metric(server.port(), "vllm:kv_cache_usage_perc"), 0);
  // Fragmentation is the allocator's; a leak of a request's bodies and pages is far
  // above 48 MiB.
  EXPECT_LT(server.resident_bytes(), resident_half + (48 << 20));
  EXPECT_EQ(server.stop(), 0) << server.log();  // the leak checker's verdict is in the status
}

}  // namespace
}  // namespace saccade::test
