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

// Two queues, each first in, first out. Of several threads one takes quick jobs alone, so that a
// quick job never waits for a bulk one, and one takes bulk jobs before quick ones, so that neither
// starves; the others, and a single thread, take quick jobs first. Any thread may post. Jobs must
// not throw.
class WorkerPool {
 public:
  enum class Lane { kQuick, kBulk };  // up to some milliseconds; all the rest

  WorkerPool(int threads, std::size_t max_queued);
  ~WorkerPool();  // finishes the running jobs, drops the queued ones
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False when max_queued jobs wait in the lane already; the job is then not taken.
  [[nodiscard]] bool post(std::function<void()> job, Lane lane = Lane::kQuick);
  std::size_t queued() const;

 private:
  void work();
  bool may_start_bulk() const { return !bulk_jobs_.empty() && bulk_running_ < max_bulk_; }
  bool bulk_is_next() const {
    return may_start_bulk() && (quick_jobs_.empty() || (bulk_running_ == 0 && num_threads_ > 1));
  }

  const std::size_t max_queued_;
  const int num_threads_;
  const int max_bulk_;  // that run at a time
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> quick_jobs_;  // this and the rest: guarded by mutex_
  std::deque<std::function<void()>> bulk_jobs_;
  int bulk_running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace saccade
