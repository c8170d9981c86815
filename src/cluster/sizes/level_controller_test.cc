// The law under a fluid queue on a virtual clock, and its corners.
#include "cluster/sizes/level_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace saccade::cluster {
namespace {

constexpr Nanos kLevelTarget = 2 * kSecond;

LevelController controller(const Clock& clock, std::int64_t top = 16384) {
  return {kLevelTarget, SizeLadder::halving(top, 256), clock};
}

TEST(SizeLadder, HalvesByRootTwo) {
  EXPECT_EQ(SizeLadder::halving(16384, 256).rungs(),
            (std::vector<std::int64_t>{16384, 11585, 8192, 5793, 4096, 2896, 2048, 1448, 1024, 724,
                                       512, 362, 256}));
  EXPECT_EQ(SizeLadder::halving(1280, 1000).rungs(), (std::vector<std::int64_t>{1280, 1000}));
  EXPECT_EQ(SizeLadder::halving(100, 256).rungs(), (std::vector<std::int64_t>{100}));
  EXPECT_EQ(SizeLadder::halving(1, 1).rungs(), (std::vector<std::int64_t>{1}));
}

TEST(SizeLadder, OfTilesHasTheirCountsAlone) {
  const SizeLadder ladder = SizeLadder::of_counts({256, 1792, 768, 1024, 768, 3328}, 300);
  EXPECT_EQ(ladder.rungs(), (std::vector<std::int64_t>{3328, 1792, 1024, 768}));
  EXPECT_EQ(ladder.at_most(1800), 1792);
  EXPECT_EQ(ladder.at_most(1791.9), 1024);
  EXPECT_EQ(ladder.at_most(1), 768);
  EXPECT_EQ(ladder.below(1792), 1024);
  EXPECT_EQ(ladder.below(768), 768);
  EXPECT_EQ(SizeLadder::of_counts({64}, 256).rungs(), (std::vector<std::int64_t>{64}));
}

// A queue that drains one second a second and fills by `load` times the share of the old balance
// that the level leaves. Returns the longest wait; the level is looked at by every arrival, 2 ms
// apart.
double peak_wait(double load, VirtualClock& clock, LevelController& law, double balance,
                 double wait, double seconds_long) {
  constexpr Nanos kTick = 2 * kMillisecond;
  double peak = wait;
  for (Nanos t = 0; t < static_cast<Nanos>(seconds_long * 1e9); t += kTick) {
    law.update(static_cast<Nanos>(wait * 1e9));
    clock.advance(kTick);
    const double arriving = load * law.level() / balance;
    wait = std::max(0.0, wait + (arriving - 1) * seconds(kTick));
    peak = std::max(peak, wait);
  }
  return peak;
}

// Jumps from the edge of the dead band: the wait is what the formula says, and for twice the load
// within the 1.62 s that a target of 2 s has room for.
TEST(LevelController, JumpOfTheLoadOvershootsAsFarAsPredicted) {
  for (const double k : {1.2, 1.5, 2.0, 3.0, 5.0}) {
    VirtualClock clock;
    LevelController law = controller(clock);
    law.saw(16384);
    clock.advance(law.period());  // a step is due, as it is in the worst case just after the jump
    const double edge = 0.35 * seconds(kLevelTarget) + 1e-6;
    const double peak = peak_wait(k, clock, law, law.level(), edge, 60);
    const double predicted =
        0.35 * seconds(kLevelTarget) + 1.5 * seconds(kLevelTarget) * (k - 1 - std::log(k));
    EXPECT_LE(peak, predicted) << k;
    EXPECT_GE(peak, 0.8 * predicted) << k;
    if (k == 2.0) {
      EXPECT_LE(peak, 1.62);
    }
  }
}

// Whatever the phase of the steps, a jump costs no more than one period of what is too much.
TEST(LevelController, ThePhaseOfTheStepsCostsOnePeriodAtMost) {
  for (const double k : {1.2, 1.5, 2.0, 3.0, 5.0}) {
    double worst = 0;
    for (int phase = 0; phase < 10; ++phase) {
      VirtualClock clock;
      LevelController law = controller(clock);
      law.saw(16384);
      clock.advance(law.period() * phase / 10);
      worst =
          std::max(worst, peak_wait(k, clock, law, law.level(), 0.35 * seconds(kLevelTarget), 60));
    }
    const double predicted =
        0.35 * seconds(kLevelTarget) + 1.5 * seconds(kLevelTarget) * (k - 1 - std::log(k));
    EXPECT_LE(worst, predicted + (k - 1) * seconds(kLevelTarget) / 8) << k;
  }
}

TEST(LevelController, SettlesWithinTheTargetAfterAJump) {
  VirtualClock clock;
  LevelController law = controller(clock);
  law.saw(16384);
  peak_wait(3, clock, law, 16384, 0.5, 60);
  // The limit cycle about the dead band, from then on.
  EXPECT_LE(peak_wait(3, clock, law, 16384, 0.5, 120), 0.5 * seconds(kLevelTarget));
  EXPECT_NEAR(law.level(), 16384 / 3.0, 0.4 * 16384 / 3.0);
}

TEST(LevelController, FallsByEInOneAndAHalfTargetsAndRisesInFour) {
  VirtualClock clock;
  LevelController law = controller(clock);
  law.saw(16384);
  for (int step = 0; step < 12; ++step) {  // 1.5 targets
    clock.advance(law.period());
    law.update(kLevelTarget);
  }
  EXPECT_NEAR(law.level(), 16384 / std::exp(1.0), 0.01 * 16384);
  const double low = law.level();
  for (int step = 0; step < 34; ++step) {  // 4.25 targets
    clock.advance(law.period());
    law.update(0);
  }
  EXPECT_NEAR(law.level(), low * std::exp(1.0), 0.05 * low * std::exp(1.0));
}

TEST(LevelController, TheDeadBandHoldsTheLevel) {
  VirtualClock clock;
  LevelController law = controller(clock);
  law.saw(16384);
  clock.advance(law.period());
  law.update(kLevelTarget);
  const double level = law.level();
  for (const double share : {0.15, 0.25, 0.35}) {
    clock.advance(10 * law.period());
    law.update(static_cast<Nanos>(share * static_cast<double>(kLevelTarget)));
    EXPECT_EQ(law.level(), level) << share;
  }
}

// A level far above every image would take seconds to come down to where it bites.
TEST(LevelController, FallsFromTheLargestImageSeen) {
  VirtualClock clock;
  LevelController law = controller(clock);
  for (int i = 0; i < 50; ++i) law.saw(1000 + i);
  clock.advance(law.period());
  law.update(kLevelTarget);
  EXPECT_DOUBLE_EQ(law.level(), 1049 * 0.92);
  // Large ones are forgotten after 200 others.
  LevelController other = controller(clock);
  other.saw(16384);
  for (int i = 0; i < 200; ++i) other.saw(500);
  clock.advance(other.period());
  other.update(kLevelTarget);
  EXPECT_DOUBLE_EQ(other.level(), 500 * 0.92);
}

TEST(LevelController, CatchesUpOnEightStepsAtMost) {
  VirtualClock clock;
  LevelController law = controller(clock);
  law.saw(16384);
  clock.advance(5 * law.period() + 1);
  law.update(kLevelTarget);
  EXPECT_NEAR(law.level(), 16384 * std::pow(0.92, 5), 1e-6);
  // The rest of a period is not lost: the next step is due one nanosecond early.
  clock.advance(law.period() - 1);
  law.update(kLevelTarget);
  EXPECT_NEAR(law.level(), 16384 * std::pow(0.92, 6), 1e-6);

  clock.advance(3600 * kSecond);  // an idle hour
  law.update(0);
  double expected = 16384 * std::pow(0.92, 6);
  for (int i = 0; i < 8; ++i) expected = expected * 1.03 + 5;
  EXPECT_NEAR(law.level(), expected, 1e-6);
  law.update(0);  // and nothing is owed after it
  EXPECT_NEAR(law.level(), expected, 1e-6);
}

TEST(LevelController, KeepsToTheFloorAndTheTop) {
  VirtualClock clock;
  LevelController law = controller(clock, 1280);
  EXPECT_EQ(law.cap(), 1280);
  for (int i = 0; i < 100; ++i) {
    clock.advance(law.period());
    law.update(100 * kLevelTarget);
  }
  EXPECT_EQ(law.level(), 256);
  EXPECT_EQ(law.cap(), 256);
  for (int i = 0; i < 1000; ++i) {
    clock.advance(law.period());
    law.update(0);
  }
  EXPECT_EQ(law.level(), 1280);
  EXPECT_EQ(law.cap(), 1280);
}

TEST(LevelController, StepsAreFiftyMillisecondsAtLeast) {
  VirtualClock clock;
  const LevelController law(100 * kMillisecond, SizeLadder::halving(1024, 256), clock);
  EXPECT_EQ(law.period(), 50 * kMillisecond);
}

TEST(LevelController, AClockAtItsEndIsATimeLikeAnyOther) {
  VirtualClock clock;
  constexpr Nanos kEnd = std::numeric_limits<Nanos>::max();
  clock.set(kEnd - 10 * kSecond);
  LevelController law = controller(clock);
  law.saw(16384);
  while (clock.now() < kEnd - law.period()) {
    clock.advance(law.period());
    law.update(kLevelTarget);
  }
  EXPECT_NEAR(law.level(), std::max(256.0, 16384 * std::pow(0.92, 39)), 1);
  clock.set(kEnd);
  law.update(kEnd);
  EXPECT_GE(law.level(), 256);
  // From the beginning of time to its end at once.
  VirtualClock from_zero;
  LevelController other = controller(from_zero);
  from_zero.set(kEnd);
  other.update(kEnd);
  EXPECT_NEAR(other.level(), 16384 * std::pow(0.92, 8), 1e-6);
}

}  // namespace
}  // namespace saccade::cluster
