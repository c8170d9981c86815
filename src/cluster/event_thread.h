// One thread that does what others post and what its timers say, and nothing else at the same time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cluster/timers.h"

namespace saccade::cluster {

class EventThread {
 public:
  explicit EventThread(const Clock& clock) : clock_(clock), thread_([this] { run(); }) {}
  ~EventThread() { stop(); }
  EventThread(const EventThread&) = delete;
  EventThread& operator=(const EventThread&) = delete;

  // Any thread. After stop() the job is dropped.
  void post(std::function<void()> job);
  // Posts, and waits until the job has been done. Not from the thread itself.
  void call(const std::function<void()>& job);
  // The thread's own: for jobs and timers.
  Timers& timers() { return timers_; }
  // Does what has been posted, then ends. Timers that wait are not called.
  void stop();

 private:
  void run();

  const Clock& clock_;
  TimerQueue timers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::thread thread_;                       // last: uses everything above
};

}  // namespace saccade::cluster
