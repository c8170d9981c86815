// Virtual time for a whole cluster: messages and deadlines in one queue, machines that step in
// another. No threads; equal instants go in the order in which they were asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>

#include "base/clock.h"
#include "cluster/timers.h"

namespace saccade::simulate {

// A machine that goes through stages and knows when each ends.
class Stepper {
 public:
  virtual ~Stepper() = default;
  // At `at`. What nobody else can see or disturb may go on without a break as far as `horizon`:
  // before it nothing happens but other steppers' own.
  virtual void advance(Nanos at, Nanos horizon) = 0;
};

class EventLoop {
 public:
  static constexpr Nanos kNeverDue = std::numeric_limits<Nanos>::max();

  const Clock& clock() const { return clock_; }
  Nanos now() const { return clock_.now(); }
  cluster::Timers& timers() { return timers_; }
  void after(Nanos delay, std::function<void()> then) {
    timers_.start(now() + delay, std::move(then));
  }
  void step_at(Nanos at, Stepper& stepper) { steps_.push({at, ++last_, &stepper}); }

  // Until nothing is to come, or `enough` says so after an event.
  void run(const std::function<bool()>& enough);
  std::uint64_t events() const { return events_; }

 private:
  struct Step {
    Nanos at;
    std::uint64_t order;
    Stepper* stepper;
    bool operator<(const Step& other) const {  // the queue's top is the first
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  VirtualClock clock_;
  cluster::TimerQueue timers_;
  std::priority_queue<Step> steps_;
  std::uint64_t last_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace saccade::simulate
