#include "cluster/event_thread.h"

#include <chrono>
#include <future>
#include <utility>

namespace saccade::cluster {

void EventThread::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void EventThread::call(const std::function<void()>& job) {
  std::promise<void> done;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    jobs_.push_back([&] {
      job();
      done.set_value();
    });
  }
  wake_.notify_one();
  done.get_future().wait();
}

void EventThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void EventThread::run() {
  while (true) {
    std::vector<std::function<void()>> jobs;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [&] { return stopping_ || !jobs_.empty(); };
      if (const auto next = timers_.next()) {
        const Nanos left = *next - clock_.now();
        if (left > 0) wake_.wait_for(lock, std::chrono::nanoseconds(left), ready);
      } else {
        wake_.wait(lock, ready);
      }
      jobs.swap(jobs_);
      if (jobs.empty() && stopping_) return;
    }
    for (const auto& job : jobs) job();
    timers_.run_due(clock_.now());
  }
}

}  // namespace saccade::cluster
