// Deadlines by themselves: what waits is called when its time has come, on a clock of any kind.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/clock.h"

namespace saccade::cluster {

using TimerId = std::uint64_t;  // 0: none

// One thread.
class Timers {
 public:
  virtual ~Timers() = default;
  // Calls `then` once, at `at` or as soon after it as can be; never from within start().
  virtual TimerId start(Nanos at, std::function<void()> then) = 0;
  virtual void cancel(TimerId id) = 0;  // nothing, when it has been called or is none
};

// Timers that somebody turns: a thread that sleeps until next(), or a test that sets the clock.
class TimerQueue final : public Timers {
 public:
  TimerId start(Nanos at, std::function<void()> then) override {
    const TimerId id = ++last_;
    waiting_.emplace(std::pair(at, id), std::move(then));
    times_.emplace(id, at);
    return id;
  }
  void cancel(TimerId id) override {
    const auto found = times_.find(id);
    if (found == times_.end()) return;
    waiting_.erase({found->second, id});
    times_.erase(found);
  }
  std::optional<Nanos> next() const {
    return waiting_.empty() ? std::nullopt : std::optional(waiting_.begin()->first.first);
  }
  std::size_t waiting() const { return waiting_.size(); }
  // Calls what is due at `now`, in the order of time, then of starting; what is started meanwhile
  // and due too is called as well. Returns how many were called.
  std::size_t run_due(Nanos now) {
    std::size_t called = 0;
    for (; !waiting_.empty() && waiting_.begin()->first.first <= now; ++called) {
      auto first = waiting_.extract(waiting_.begin());
      times_.erase(first.key().second);
      first.mapped()();
    }
    return called;
  }

 private:
  std::map<std::pair<Nanos, TimerId>, std::function<void()>> waiting_;
  std::unordered_map<TimerId, Nanos> times_;
  TimerId last_ = 0;
};

}  // namespace saccade::cluster
