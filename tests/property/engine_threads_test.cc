// The engine under its own thread while others submit, cancel, look and reset: for ThreadSanitizer,
// and for what must hold without it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/engine.h"
#include "tests/support/fake_model.h"

namespace saccade {
namespace {

constexpr int kClients = 3;
constexpr int kRequests = 25;  // of each client

// What one request was told. Sinks run on the engine thread.
struct Answer {
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::kNone;
};

TEST(EngineThreads, EveryRequestEndsOnceWhateverOthersDo) {
  log::set_level(log::Level::kError);
  const SteadyClock clock;
  FakeModel model({});
  const auto device = make_reference_device();
  EngineSettings settings;
  settings.block_size = 4;
  settings.kv_cache_bytes = 1 << 15;
  settings.max_model_len = 64;
  settings.max_batched_tokens = 32;
  settings.max_sequences = 4;
  auto engine = Engine::create(settings, model, *device, clock);
  ASSERT_TRUE(engine) << engine.error().message;

  std::mutex mutex;
  std::vector<Answer> answers(kClients * kRequests);
  std::atomic<int> finished = 0;
  std::atomic<int> wrong = 0;
  (*engine)->set_after_step([] {});
  std::thread running([&] { (*engine)->run(); });
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < kRequests; ++i) {
        Answer& answer = answers[static_cast<std::size_t>(client * kRequests + i)];
        std::vector<TokenId> ids(static_cast<std::size_t>(12 + i),
                                 static_cast<TokenId>(10 + client));
        Request request = fake_request(ids, {{2, static_cast<std::uint64_t>(i % 4), 6}}, 8);
        request.sampling.ignore_eos = true;
        const auto id = (*engine)->submit(
            std::move(request),
            [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
              const std::lock_guard lock(mutex);
              if (answer.finish != FinishReason::kNone) ++wrong;
              answer.tokens.insert(answer.tokens.end(), delta.tokens.begin(), delta.tokens.end());
              answer.finish = delta.finish;
              if (delta.finish != FinishReason::kNone) ++finished;
            });
        if (!id) {
          ++wrong;
          continue;
        }
        if (i % 5 == 4) (*engine)->cancel(*id);
        if (i % 7 == 0) (*engine)->reset_mm_cache();
        if (i % 9 == 0) (*engine)->reset_prefix_cache();
        if ((*engine)->stats().num_requests_running > settings.max_sequences) ++wrong;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (int waits = 0; finished < kClients * kRequests && waits < 6000; ++waits) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  (*engine)->stop();
  running.join();
  EXPECT_EQ(finished, kClients * kRequests);
  EXPECT_EQ(wrong, 0);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const bool cancelled = answers[i].finish == FinishReason::kCancelled;
    EXPECT_TRUE(cancelled || answers[i].tokens.size() == 8u) << i;
    EXPECT_TRUE(!cancelled || i % kRequests % 5 == 4) << i;
  }
}

// A client that goes on as soon as it has its answer: nothing of it may still be counted but that
// it has ended.
TEST(EngineThreads, WhoeverHasAnAnswerNoLongerWaitsNorRuns) {
  log::set_level(log::Level::kError);
  const SteadyClock clock;
  FakeModel model({});
  const auto device = make_reference_device();
  EngineSettings settings;
  settings.kv_cache_bytes = 1 << 20;
  settings.max_model_len = 64;
  settings.max_waiting = 1;
  for (const int in_flight : {1, 2}) {
    SCOPED_TRACE(in_flight);
    settings.steps_in_flight = in_flight;
    auto engine = Engine::create(settings, model, *device, clock);
    ASSERT_TRUE(engine) << engine.error().message;
    std::atomic<bool> reset = false;
    std::atomic<bool> taken = false;
    std::atomic<bool> counted = false;
    std::atomic<int> finished = 0;
    const auto next = [&](RequestId, Delta&&, const RequestUsage&, const RequestTimes&) {
      ++finished;
    };
    const auto first = [&](RequestId, Delta&&, const RequestUsage&, const RequestTimes&) {
      std::thread client([&] {
        const EngineStats stats = (*engine)->stats();
        counted = stats.request_params_n.count() == 1 && stats.generation_tokens == 1 &&
                  stats.num_requests_running == 0 &&
                  stats.requests_finished[static_cast<std::size_t>(FinishReason::kLength)] == 1;
        reset = (*engine)->reset_prefix_cache();
        taken = (*engine)->submit(fake_request({21, 22}, {}, 1), next).has_value();
      });
      client.join();
      ++finished;
    };
    std::thread running([&] { (*engine)->run(); });
    ASSERT_TRUE((*engine)->submit(fake_request({11, 12, 13}, {}, 1), first));
    for (int waits = 0; finished < 2 && waits < 500; ++waits)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    (*engine)->stop();
    running.join();
    EXPECT_TRUE(reset);
    EXPECT_TRUE(taken);
    EXPECT_TRUE(counted);
  }
}

TEST(EngineThreads, StopTellsWhoeverIsStillThere) {
  log::set_level(log::Level::kError);
  const SteadyClock clock;
  FakeModel model({});
  const auto device = make_reference_device();
  EngineSettings settings;
  settings.kv_cache_bytes = 1 << 20;
  settings.max_model_len = 2048;
  auto engine = Engine::create(settings, model, *device, clock);
  ASSERT_TRUE(engine) << engine.error().message;
  std::thread running([&] { (*engine)->run(); });
  std::atomic<int> finished = 0;
  std::atomic<int> untold = 0;
  int submitted = 0;
  for (int i = 0; i < 20; ++i) {
    Request request = fake_request({11, 12, 13}, {}, 1500);
    request.sampling.ignore_eos = true;
    const auto id = (*engine)->submit(
        std::move(request),
        [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
          if (delta.finish == FinishReason::kNone) return;
          ++finished;
          const bool told = delta.finish == FinishReason::kError &&
                            delta.error_code == ErrorCode::kUnavailable && !delta.error.empty();
          if (!told && delta.finish != FinishReason::kLength) ++untold;
        });
    if (id) ++submitted;
  }
  (*engine)->stop();
  running.join();
  EXPECT_EQ(finished, submitted);
  EXPECT_EQ(untold, 0) << "an end without a reason, which a client takes for its own";
  EXPECT_FALSE((*engine)->submit(fake_request({11}, {}, 1), {}).has_value());
}

}  // namespace
}  // namespace saccade
