#include "base/threads/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace saccade {
namespace {

TEST(ThreadPool, RunReachesEveryWorkerOnceAndJoins) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<int> visits(static_cast<std::size_t>(threads), 0);  // no atomics: run() joins
      pool.run([&](int worker) { ++visits[static_cast<std::size_t>(worker)]; });
      for (const int count : visits) ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, ParallelForCoversEachIndexOnceInWholeGrains) {
  for (const int threads : {1, 2, 3, 4}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 2, 15, 16, 17, 33, 100, 1000}) {
      for (const std::int64_t grain : {1, 7, 16}) {
        std::vector<int> visits(static_cast<std::size_t>(count), 0);
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
          EXPECT_LT(begin, end);
          EXPECT_EQ(begin % grain, 0);
          EXPECT_TRUE(end % grain == 0 || end == count);
          EXPECT_GE(worker, 0);
          EXPECT_LT(worker, threads);
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        for (const int visit : visits) ASSERT_EQ(visit, 1);
      }
    }
  }
}

TEST(ThreadPool, ParallelEachTakesEveryItemOnce) {
  ThreadPool pool(3);
  for (const std::int64_t count : {0, 1, 2, 3, 50, 501}) {
    std::vector<int> visits(static_cast<std::size_t>(count), 0);
    pool.parallel_each(count,
                       [&](std::int64_t item, int) { ++visits[static_cast<std::size_t>(item)]; });
    for (const int visit : visits) ASSERT_EQ(visit, 1);
  }
}

TEST(ThreadPool, WakesAfterSleeping) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(round % 2 == 0 ? 1 : 1500));
    std::atomic<int> ran{0};
    pool.run([&](int) { ++ran; });
    ASSERT_EQ(ran.load(), 2);
  }
}

TEST(ThreadPool, WaitsForALateWorkerWithoutSpinningForever) {
  ThreadPool pool(2);
  bool late_done = false;
  pool.run([&](int worker) {
    if (worker == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      late_done = true;
    }
  });
  EXPECT_TRUE(late_done);
}

// On one processor, the worker only ever run when nobody else wants to: it is woken and does not
// come.
TEST(ThreadPool, TheCallerDoesWhatALateWorkerHasNotBegun) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
    ThreadPool pool(2);  // threads inherit the set
    std::array<std::thread::id, 2> own;
    pool.run([&](int worker) {
      own[static_cast<std::size_t>(worker)] = std::this_thread::get_id();
      const sched_param none{};
      if (worker == 1) pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    });
    int stood_in = 0;
    for (int round = 0; round < 50; ++round) {
      std::array<std::thread::id, 2> ran;
      pool.parallel_for(2, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
        for (std::int64_t i = begin; i < end; ++i)
          ran[static_cast<std::size_t>(worker)] = std::this_thread::get_id();
      });
      ASSERT_EQ(ran[0], own[0]);
      ASSERT_TRUE(ran[1] == own[0] || ran[1] == own[1]);
      if (ran[1] == own[0]) ++stood_in;
    }
    EXPECT_GT(stood_in, 0);
    pool.run([&](int worker) {
      EXPECT_EQ(std::this_thread::get_id(), own[static_cast<std::size_t>(worker)]);
    });
  }).join();
}

// More threads than processors: parts are begun late, by whoever comes first.
TEST(ThreadPool, EveryPartIsDoneOnceOnACrowdedMachine) {
  ThreadPool pool(8);
  std::array<int, 8> done{};
  constexpr int kRounds = 500;
  for (int round = 0; round < kRounds; ++round) {
    pool.parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t i = begin; i < end; ++i) ++done[static_cast<std::size_t>(i)];
      if ((round + worker) % 7 == 0) std::this_thread::yield();
    });
  }
  for (const int times : done) EXPECT_EQ(times, kRounds);
}

TEST(ThreadPool, IdleWorkersSleep) {
  const auto cpu_seconds = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto of = [](timeval t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
  };
  ThreadPool pool(4);
  pool.run([](int) {});
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(cpu_seconds() - before, 0.05);  // three spinning workers would use 0.2 s a free core
}

}  // namespace
}  // namespace saccade
