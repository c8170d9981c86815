// The level: one cap on the tokens of an image, common to all images, moved by the predicted wait.
//
//   every step   = target / 8, at least 50 ms
//   wait > 0.35 target:  level = max(floor, 0.92 * min(level, largest native of the last 200))
//   wait < 0.15 target:  level = min(top, 1.03 * level + 5)
//   cap          = the largest rung of the ladder up to the level
//
// A relay with a dead band around an integrator: no rate, no variance and no capacity has to be
// known. With a jump of the load to k times what the level was in balance with, the wait overshoots
// to 0.35 target + 1.5 target (k - 1 - ln k). All constants go with the target, so the same ones
// serve a machine that answers in 2 s and one that answers in 20.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "cluster/sizes/size_ladder.h"

namespace saccade::cluster {

// One thread.
class LevelController {
 public:
  static constexpr int kMaxSteps = 8;              // that one update() catches up on
  static constexpr std::size_t kRemembered = 200;  // native sizes
  static constexpr Nanos kLeastPeriod = 50 * kMillisecond;

  // target: time to first token. Begins at the ladder's top.
  LevelController(Nanos target, SizeLadder ladder, const Clock& clock);

  // An image has come, of so many tokens before any cap.
  void saw(std::int64_t native_tokens);
  // The predicted wait of whoever comes now. Makes the steps that are due since the last ones.
  void update(Nanos wait);

  double level() const { return level_; }
  std::int64_t cap() const { return ladder_.at_most(level_); }
  const SizeLadder& ladder() const { return ladder_; }
  Nanos period() const { return period_; }

 private:
  void step(Nanos wait);
  std::int64_t largest_native() const;

  Nanos target_;
  Nanos period_;
  SizeLadder ladder_;
  const Clock& clock_;
  double level_;
  Nanos stepped_at_;
  std::array<std::int64_t, kRemembered> natives_{};
  std::size_t seen_ = 0;
};

}  // namespace saccade::cluster
