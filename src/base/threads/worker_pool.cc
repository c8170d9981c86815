#include "base/threads/worker_pool.h"

#include <algorithm>
#include <utility>

namespace saccade {

WorkerPool::WorkerPool(int threads, std::size_t max_queued)
    : max_queued_(max_queued), num_threads_(threads), max_bulk_(std::max(1, threads - 1)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  std::deque<std::function<void()>> dropped_quick;
  std::deque<std::function<void()>> dropped_bulk;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped_quick.swap(quick_jobs_);
    dropped_bulk.swap(bulk_jobs_);
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

bool WorkerPool::post(std::function<void()> job, Lane lane) {
  {
    const std::lock_guard lock(mutex_);
    auto& jobs = lane == Lane::kQuick ? quick_jobs_ : bulk_jobs_;
    if (stopping_ || jobs.size() >= max_queued_) return false;
    jobs.push_back(std::move(job));
  }
  wake_.notify_one();
  return true;
}

std::size_t WorkerPool::queued() const {
  const std::lock_guard lock(mutex_);
  return quick_jobs_.size() + bulk_jobs_.size();
}

void WorkerPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !quick_jobs_.empty() || may_start_bulk(); });
    if (stopping_) return;
    const bool bulk = bulk_is_next();
    auto& jobs = bulk ? bulk_jobs_ : quick_jobs_;
    std::function<void()> job = std::move(jobs.front());
    jobs.pop_front();
    bulk_running_ += bulk ? 1 : 0;
    lock.unlock();
    job();
    job = nullptr;  // what it owned goes before the next is taken
    lock.lock();
    if (!bulk) continue;
    --bulk_running_;
    // Another thread may have been woken for a bulk job while none could start.
    if (may_start_bulk()) wake_.notify_one();
  }
}

}  // namespace saccade
