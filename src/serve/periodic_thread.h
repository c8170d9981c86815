// A thread that does one thing every so often.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace saccade::serve {

class PeriodicThread {
 public:
  // From construction to destruction, for the first time after one period.
  PeriodicThread(std::chrono::nanoseconds period, std::function<void()> job)
      : thread_([this, period, job = std::move(job)](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          const auto ended = [&] { return stop.stop_requested(); };
          while (!wake_.wait_for(lock, stop, period, ended)) job();
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace saccade::serve
