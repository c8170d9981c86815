// The operator's line about tokens a second, every few seconds under load.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "engine/engine.h"

namespace saccade::serve {

// What went on between two looks at the engine; empty when it was idle.
std::string throughput_line(const EngineStats& before, const EngineStats& after, double seconds);

// A thread of its own from construction to destruction; none when `interval` is 0.
class ThroughputLog {
 public:
  ThroughputLog(const Engine& engine, std::chrono::seconds interval);
  ~ThroughputLog();
  ThroughputLog(const ThroughputLog&) = delete;
  ThroughputLog& operator=(const ThroughputLog&) = delete;

 private:
  void run();

  const Engine& engine_;
  const std::chrono::seconds interval_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // last: it uses everything above
};

}  // namespace saccade::serve
