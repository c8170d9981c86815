// Time behind one small interface, so that everything that waits or measures can be tested in
// virtual time.
#pragma once

#include <cstdint>

namespace saccade {

// Nanoseconds; a duration, or an instant on a Clock's own monotonic axis.
using Nanos = std::int64_t;

constexpr Nanos kMicrosecond = 1'000;
constexpr Nanos kMillisecond = 1'000'000;
constexpr Nanos kSecond = 1'000'000'000;

constexpr double seconds(Nanos t) { return static_cast<double>(t) / 1e9; }
constexpr double milliseconds(Nanos t) { return static_cast<double>(t) / 1e6; }

// Any thread. Never goes backwards.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now() const = 0;
};

// CLOCK_MONOTONIC.
Nanos steady_now();
class SteadyClock final : public Clock {
 public:
  Nanos now() const override { return steady_now(); }
};

// A clock that moves only when told to. One thread.
class VirtualClock final : public Clock {
 public:
  Nanos now() const override { return now_; }
  void advance(Nanos duration) { now_ += duration; }
  void set(Nanos instant) { now_ = instant; }

 private:
  Nanos now_ = 0;
};

// Wall clock, nanoseconds since the Unix epoch: for `created` fields and file headers, never for
// durations.
Nanos wall_clock_now();

}  // namespace saccade
