#include "base/threads/waited_word.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

namespace saccade {
namespace {

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Each waits for the other's change, now and then long enough to sleep: none is missed.
TEST(WaitedWord, NoChangeIsMissed) {
  constexpr std::uint32_t kRounds = 20000;
  WaitedWord here;
  WaitedWord there;
  std::thread other([&] {
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      EXPECT_EQ(here.await_change(i), i + 1);
      if (i % 64 == 0) std::this_thread::sleep_for(2 * WaitedWord::kIdle);
      there.value.fetch_add(1);
      there.wake_one();
    }
  });
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    if (i % 64 == 32) std::this_thread::sleep_for(2 * WaitedWord::kIdle);
    here.value.fetch_add(1);
    here.wake_one();
    EXPECT_EQ(there.await_change(i), i + 1);
  }
  other.join();
}

TEST(WaitedWord, WakesAll) {
  WaitedWord word;
  std::vector<std::thread> waiting;
  for (int i = 0; i < 4; ++i) waiting.emplace_back([&] { EXPECT_EQ(word.await_change(0), 7U); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  word.value.store(7);
  word.wake_all();
  for (std::thread& each : waiting) each.join();
}

TEST(WaitedWord, SleepersUseNoProcessor) {
  WaitedWord word;
  const double before = processor_seconds();
  std::thread waits([&] { word.await_change(0); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(processor_seconds() - before, 0.1);
  word.value.store(1);
  word.wake_one();
  waits.join();
}

}  // namespace
}  // namespace saccade
