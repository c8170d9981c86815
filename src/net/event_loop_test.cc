#include "net/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace saccade::net {
namespace {

TEST(EventLoop, RunsPostsFromOtherThreadsInOrder) {
  auto loop = EventLoop::create().value();
  std::vector<int> seen;
  std::thread runner([&] { loop->run(); });
  for (int i = 0; i < 10'000; ++i) loop->post([&seen, i] { seen.push_back(i); });
  loop->post([&] { loop->stop(); });
  runner.join();
  ASSERT_EQ(seen.size(), 10'000u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST(EventLoop, APostAfterTheEndIsDropped) {
  auto loop = EventLoop::create().value();
  const auto mailbox = loop->mailbox();
  auto owned = std::make_shared<int>(1);
  mailbox->post([owned] {});
  loop.reset();
  mailbox->post([owned] {});
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(EventLoop, TimersRunInOrderOfTime) {
  auto loop = EventLoop::create().value();
  std::vector<int> order;
  const Nanos begin = steady_now();
  loop->at(begin + 3 * kMillisecond, [&] { order.push_back(3); });
  loop->at(begin + 1 * kMillisecond, [&] { order.push_back(1); });
  loop->at(begin + 1 * kMillisecond, [&] { order.push_back(2); });
  loop->at(begin - kSecond, [&] { order.push_back(0); });
  loop->at(begin + 5 * kMillisecond, [&] { loop->stop(); });
  loop->run();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(EventLoop, SpinTimersAreNeverEarlyAndMostlyExact) {
  auto loop = EventLoop::create().value();
  std::vector<Nanos> late;
  const Nanos begin = steady_now();
  constexpr int kTimers = 200;
  for (int i = 1; i <= kTimers; ++i) {
    const Nanos due = begin + i * 700 * kMicrosecond;
    loop->at(
        due, [&late, due] { late.push_back(steady_now() - due); }, EventLoop::Precision::kSpin);
  }
  loop->at(begin + (kTimers + 1) * 700 * kMicrosecond, [&] { loop->stop(); });
  loop->run();
  ASSERT_EQ(late.size(), static_cast<std::size_t>(kTimers));
  std::sort(late.begin(), late.end());
  EXPECT_GE(late.front(), 0);
  EXPECT_LT(late[kTimers / 100], 5 * kMillisecond);  // a busy machine spoils the rest
}

TEST(EventLoop, TasksThatScheduleThemselvesDoNotStarveSockets) {
  auto loop = EventLoop::create().value();
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
  struct Stop final : EventLoop::Watcher {
    EventLoop* loop = nullptr;
    void on_ready(std::uint32_t events) override {
      if ((events & EPOLLIN) != 0) loop->stop();
    }
  } watcher;
  watcher.loop = loop.get();
  ASSERT_TRUE(loop->watch(sockets[0], &watcher));
  std::function<void()> again = [&] { loop->at(steady_now(), again); };
  again();
  ASSERT_EQ(write(sockets[1], "x", 1), 1);
  loop->run();
  close(sockets[0]);
  close(sockets[1]);
}

// A watcher that unwatches (and destroys) another one whose event was fetched in the same turn.
TEST(EventLoop, UnwatchSilencesEventsAlreadyFetched) {
  auto loop = EventLoop::create().value();
  struct Pair final : EventLoop::Watcher {
    EventLoop* loop = nullptr;
    std::vector<std::unique_ptr<Pair>>* all = nullptr;
    int ends[2] = {-1, -1};
    int* called = nullptr;
    ~Pair() {
      close(ends[0]);
      close(ends[1]);
    }
    void on_ready(std::uint32_t events) override {
      if ((events & EPOLLIN) == 0) return;
      ++*called;
      EventLoop* const keep = loop;
      auto* const everyone = all;
      for (auto& other : *everyone) keep->unwatch(other->ends[0], other.get());
      everyone->clear();
      keep->stop();
    }
  };
  std::vector<std::unique_ptr<Pair>> all;
  int called = 0;
  for (int i = 0; i < 10; ++i) {
    auto made = std::make_unique<Pair>();
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, made->ends), 0);
    made->loop = loop.get();
    made->all = &all;
    made->called = &called;
    ASSERT_EQ(write(made->ends[1], "x", 1), 1);
    ASSERT_TRUE(loop->watch(made->ends[0], made.get()));
    loop->again(made.get());
    all.push_back(std::move(made));
  }
  loop->run();
  EXPECT_EQ(called, 1);
}

}  // namespace
}  // namespace saccade::net
