// Whether a store is to be asked at all: one that fails again and again is left alone for a while,
// so that its failing costs nothing.
#pragma once

#include <algorithm>
#include <deque>

#include "base/clock.h"

namespace saccade::cluster {

// One thread.
class StoreCircuit {
 public:
  static constexpr std::size_t kFailures = 3;
  static constexpr Nanos kWithin = 5 * kSecond;
  static constexpr Nanos kLeastPause = kSecond;
  static constexpr Nanos kMaxPause = 30 * kSecond;

  explicit StoreCircuit(const Clock& clock) : clock_(clock) {}

  // After a pause one may, and the others wait for how it goes.
  bool may() {
    if (!open()) return true;
    if (clock_.now() < until_ || trying_) return false;
    trying_ = true;
    return true;
  }
  void worked() {
    failures_.clear();
    pause_ = 0;
    trying_ = false;
  }
  void failed() {
    const Nanos now = clock_.now();
    failures_.push_back(now);
    while (failures_.front() + kWithin < now || failures_.size() > kFailures) failures_.pop_front();
    if (pause_ != 0 ? !trying_ : failures_.size() < kFailures) return;
    trying_ = false;
    pause_ = pause_ == 0 ? kLeastPause : std::min(2 * pause_, kMaxPause);
    until_ = now + pause_;
  }
  bool open() const { return pause_ != 0; }
  Nanos pause() const { return pause_; }

 private:
  const Clock& clock_;
  std::deque<Nanos> failures_;  // of late
  Nanos pause_ = 0;             // 0: it is asked
  Nanos until_ = 0;
  bool trying_ = false;
};

}  // namespace saccade::cluster
