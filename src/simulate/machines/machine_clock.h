// A machine's time: the simulation's, and the work that the machine has done ahead of it.
#pragma once

#include "base/clock.h"

namespace saccade::simulate {

class MachineClock final : public Clock {
 public:
  explicit MachineClock(const Clock& world) : world_(world) {}
  Nanos now() const override { return world_.now() + ahead_; }
  void work(Nanos duration) { ahead_ += duration; }
  // What has been done since the last call; from here on it is the world's time again.
  Nanos rejoin() {
    const Nanos took = ahead_;
    ahead_ = 0;
    return took;
  }

 private:
  const Clock& world_;
  Nanos ahead_ = 0;
};

}  // namespace saccade::simulate
