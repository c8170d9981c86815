// An engine's thread, from construction to destruction.
#pragma once

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <exception>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "base/threads/processors.h"

namespace saccade::serve {

// One of the edges where exceptions end. An engine that threw has told everybody and takes nothing
// more, so the process is asked to end as an operator would ask it: by SIGTERM.
template <typename Engine>
class EngineThread {
 public:
  // processors: what it stays on; empty: anything.
  explicit EngineThread(Engine& engine, ProcessorSet processors = {})
      : engine_(engine), processors_(std::move(processors)), thread_([this] { run(); }) {}
  ~EngineThread() {
    engine_.stop();
    thread_.join();
  }
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Any thread: whether the engine still does, or has done, what it was asked to.
  Result<void> verdict() const {
    if (failed_) return fail(ErrorCode::kInternal, "the engine stopped, see the log above");
    return {};
  }

 private:
  void run() {
    const StayingOn staying(processors_);
    try {
      engine_.run();
    } catch (const std::exception& error) {
      log::error("the engine has stopped, and the server ends: {}", error.what());
      failed_ = true;
      kill(getpid(), SIGTERM);
    }
  }

  Engine& engine_;
  ProcessorSet processors_;
  std::atomic<bool> failed_{false};
  std::thread thread_;  // last: it uses the others
};

}  // namespace saccade::serve
