// Threads for work that blocks or is not a kernel: fetching media, decoding images, parsing,
// tokenising.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace saccade {

// First in, first out. Any thread may post. Jobs must not throw.
class WorkerPool {
 public:
  WorkerPool(int threads, std::size_t max_queued);
  ~WorkerPool();  // finishes the running jobs, drops the queued ones
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False when max_queued jobs wait already; the job is then not taken.
  [[nodiscard]] bool post(std::function<void()> job);
  std::size_t queued() const;

 private:
  void work();

  const std::size_t max_queued_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace saccade
