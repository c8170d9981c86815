#include "serve/periodic_thread.h"

#include <gtest/gtest.h>

#include <atomic>

namespace saccade::serve {
namespace {

TEST(PeriodicThread, DoesItsJobAgainAndAgainUntilItEnds) {
  std::atomic<int> done = 0;
  {
    const PeriodicThread thread(std::chrono::microseconds(100), [&] { ++done; });
    while (done < 3) std::this_thread::yield();
  }
  const int at_end = done;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(done, at_end);
}

TEST(PeriodicThread, EndsWithoutWaitingForAPeriod) {
  bool called = false;
  {
    const PeriodicThread thread(std::chrono::hours(1), [&] { called = true; });
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace saccade::serve
