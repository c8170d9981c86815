#include "base/threads/end_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/log.h"

namespace saccade {
namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

void for_ever() {
  while (true) pause();
}

void send(int signal) { kill(getpid(), signal); }

class EndSignalsDeathTest : public testing::Test {
 protected:
  EndSignalsDeathTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    std::signal(SIGINT, SIG_DFL);  // ignored where a shell runs the tests in the background
  }
};

// While weights are loaded, or a file is opened that nobody writes: nothing looks for signals then.
TEST_F(EndSignalsDeathTest, BeforeItIsReadyOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        const EndSignals signals;
        send(SIGTERM);
        for_ever();
      },
      KilledBySignal(SIGTERM), "ended before it was ready");
  EXPECT_EXIT(
      {
        hear_end_signals();
        send(SIGINT);
        for_ever();
      },
      KilledBySignal(SIGINT), "");
}

TEST_F(EndSignalsDeathTest, WhenItIsReadyTheFirstIsToldAndTheSecondEndsIt) {
  EXPECT_EXIT(
      {
        const EndSignals signals;
        std::thread([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          send(SIGTERM);
        }).detach();
        signals.wait();
        std::fputs("in order", stderr);
        send(SIGTERM);
        for_ever();
      },
      ExitedWithCode(128 + SIGTERM), "in order(.|\n)*second signal");
  EXPECT_EXIT(
      {
        const EndSignals signals;
        if (signals.came()) std::abort();
        send(SIGINT);
        while (!signals.came()) std::this_thread::yield();
        if (signals.came()) std::abort();  // once
        std::_Exit(7);
      },
      ExitedWithCode(7), "");
}

// Who has read that a program is ready may end it at once: before it waits.
TEST_F(EndSignalsDeathTest, WhatIsReadyEndsInOrderBeforeItWaits) {
  EXPECT_EXIT(
      {
        const EndSignals signals;
        signals.ready();
        send(SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        signals.wait();
        std::_Exit(7);
      },
      ExitedWithCode(7), "");
}

// A worker that is still at something when all answers have been given.
TEST_F(EndSignalsDeathTest, TheEndDoesNotWaitForWhoeverIsStillAtWork) {
  EXPECT_EXIT(
      {
        std::thread worker(for_ever);
        EndSignals::end_within(std::chrono::seconds(1));
        worker.join();
      },
      ExitedWithCode(1), "still at work 1 s after the last answer");
}

// What is destroyed after main() may take too long as well: it is said all the same.
struct SlowEnd {
  std::atomic<bool> asked{false};
  ~SlowEnd() {
    if (asked) std::this_thread::sleep_for(std::chrono::minutes(1));
  }
};
SlowEnd slow_end;  // there before the log, and so destroyed after it would be

TEST_F(EndSignalsDeathTest, AnEndAfterMainIsHeardOfToo) {
  EXPECT_EXIT(
      {
        log::info("at work");
        slow_end.asked = true;
        EndSignals::end_within(std::chrono::seconds(1));
        std::exit(0);
      },
      ExitedWithCode(1), "still at work 1 s after the last answer");
}

}  // namespace
}  // namespace saccade
