#include "engine/event_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace saccade {
namespace {

// Two threads that each do one thing a turn, on the other's word alone: a wake-up that is lost
// stops both.
TEST(EventCount, NoWakeUpIsLost) {
  constexpr int kTurns = 20000;
  EventCount to_ball;
  EventCount to_wall;
  std::atomic<int> sent{0};
  std::atomic<int> back{0};
  std::thread wall([&] {
    for (int turn = 1; turn <= kTurns;) {
      const std::uint64_t seen = to_wall.count();
      if (sent.load() < turn) {
        to_wall.wait(seen);
        continue;
      }
      back = turn++;
      to_ball.notify();
    }
  });
  for (int turn = 1; turn <= kTurns; ++turn) {
    sent = turn;
    to_wall.notify();
    for (;;) {
      const std::uint64_t seen = to_ball.count();
      if (back.load() == turn) break;
      to_ball.wait(seen);
    }
  }
  wall.join();
  EXPECT_EQ(back.load(), kTurns);
}

TEST(EventCount, WhatCameBeforeTheWaitEndsIt) {
  EventCount events;
  const std::uint64_t seen = events.count();
  events.notify();
  events.wait(seen);
  EXPECT_TRUE(events.wait_for(seen, std::chrono::microseconds(0)));
  EXPECT_FALSE(events.wait_for(events.count(), std::chrono::microseconds(1)));
}

}  // namespace
}  // namespace saccade
