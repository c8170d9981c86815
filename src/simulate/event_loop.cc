#include "simulate/event_loop.h"

#include "base/check.h"

namespace saccade::simulate {

void EventLoop::run(const std::function<bool()>& enough) {
  while (!enough()) {
    const Nanos horizon = timers_.next().value_or(kNeverDue);
    if (!steps_.empty() && steps_.top().at <= horizon) {
      const Step step = steps_.top();
      steps_.pop();
      CHECK(step.at >= clock_.now(), "a step at {} comes after {}", step.at, clock_.now());
      clock_.set(step.at);
      step.stepper->advance(step.at, horizon);
    } else if (horizon != kNeverDue) {
      CHECK(horizon >= clock_.now(), "a timer of {} comes after {}", horizon, clock_.now());
      clock_.set(horizon);
      timers_.run_due(horizon);
    } else {
      return;
    }
    ++events_;
  }
}

}  // namespace saccade::simulate
