// How an engine's thread sleeps while it has nothing to do, and how others wake it.
//
//   others              put what they have where the engine looks, then notify()
//   the engine's thread  const std::uint64_t seen = events.count();
//                        looks everywhere; with nothing found: events.wait(seen)
//
// Whatever comes after the count was read ends the wait, whether the look has found it or not: no
// wake-up is lost, and there is no flag that several reasons share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace saccade {

class EventCount {
 public:
  // Any thread; under no lock that the waiting thread takes to look.
  void notify() {
    {
      const std::lock_guard lock(mutex_);
      ++count_;
    }
    changed_.notify_one();
  }

  // The one thread that waits. Until there are more than `seen`.
  std::uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  void wait(std::uint64_t seen) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ != seen; });
  }
  // No longer than `most`. False: there were no more.
  bool wait_for(std::uint64_t seen, std::chrono::microseconds most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return count_ != seen; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;  // guarded by mutex_
};

}  // namespace saccade
