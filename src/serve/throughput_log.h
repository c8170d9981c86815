// The operator's line about tokens a second, every few seconds under load.
#pragma once

#include <string>

#include "base/clock.h"
#include "engine/engine.h"

namespace saccade::serve {

// What went on between two looks at the engine; empty when it was idle.
std::string throughput_line(const EngineStats& before, const EngineStats& after, double seconds);

// Logs it of the time since the last line.
class ThroughputLog {
 public:
  explicit ThroughputLog(const Engine& engine)
      : engine_(engine), before_(engine.stats()), since_(clock_.now()) {}
  void line();

 private:
  const Engine& engine_;
  SteadyClock clock_;
  EngineStats before_;
  Nanos since_;
};

}  // namespace saccade::serve
