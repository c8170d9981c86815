#include "cluster/sizes/level_controller.h"

#include <algorithm>
#include <utility>

namespace saccade::cluster {
namespace {

constexpr double kTooLong = 0.35;  // of the target
constexpr double kShort = 0.15;    // of the target
constexpr double kFall = 0.92;     // a step
constexpr double kRise = 1.03;     // a step
constexpr double kRiseTokens = 5;  // a step, on top
constexpr Nanos kStepsInTarget = 8;

}  // namespace

LevelController::LevelController(Nanos target, SizeLadder ladder, const Clock& clock)
    : target_(target),
      period_(std::max(kLeastPeriod, target / kStepsInTarget)),
      ladder_(std::move(ladder)),
      clock_(clock),
      level_(static_cast<double>(ladder_.top())),
      stepped_at_(clock.now()) {}

void LevelController::saw(std::int64_t native_tokens) {
  natives_[seen_++ % kRemembered] = native_tokens;
}

std::int64_t LevelController::largest_native() const {
  const auto count = static_cast<std::ptrdiff_t>(std::min(seen_, kRemembered));
  if (count == 0) return ladder_.top();
  return *std::max_element(natives_.begin(), natives_.begin() + count);
}

void LevelController::update(Nanos wait) {
  const Nanos now = clock_.now();
  const Nanos due = (now - stepped_at_) / period_;
  if (due <= 0) return;
  // What lies further back than can be caught up on is let go.
  stepped_at_ = due > kMaxSteps ? now : stepped_at_ + due * period_;
  for (Nanos i = 0; i < std::min<Nanos>(due, kMaxSteps); ++i) step(wait);
}

void LevelController::step(Nanos wait) {
  const double share = static_cast<double>(wait) / static_cast<double>(target_);
  if (share > kTooLong) {
    // From where it bites: a level above every image would have to come down to them first.
    const double from = std::min(level_, static_cast<double>(largest_native()));
    level_ = std::max(static_cast<double>(ladder_.floor()), from * kFall);
  } else if (share < kShort) {
    level_ = std::min(static_cast<double>(ladder_.top()), level_ * kRise + kRiseTokens);
  }
}

}  // namespace saccade::cluster
