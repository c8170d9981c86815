#include "engine/admission/step_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/rng.h"

namespace saccade {
namespace {

using Outlook = StepBudget::Outlook;
using Shares = StepBudget::Shares;
using Spent = StepBudget::Spent;

constexpr double kNever = std::numeric_limits<double>::infinity();

// Decode rows of 100 ms, a smallest chunk of 10 ms, a stage of 25 ms.
Outlook outlook(bool prefilling, bool encoding) {
  return {.decoding = true,
          .prefilling = prefilling,
          .encoding = encoding,
          .decode = 0.1,
          .least_prefill = 0.01,
          .stage = 0.025};
}

TEST(StepBudget, WithoutTargetNothingIsLimited) {
  const StepBudget budget(0);
  const Shares shares = budget.share(outlook(true, true));
  EXPECT_FALSE(shares.paced);
  EXPECT_EQ(shares.prefill, kNever);
}

TEST(StepBudget, WithoutTargetThoseThatDecodeHaveTheirShare) {
  const StepBudget budget(0, 0.2);
  Outlook at = outlook(true, true);
  const Shares shares = budget.share(at);
  EXPECT_FALSE(shares.paced);
  EXPECT_NEAR(shares.prefill, 4 * at.decode, 1e-12);
  EXPECT_TRUE(shares.least_prefill);
  // Of short steps a prompt has what is worth a step.
  at.decode = 0.001;
  EXPECT_EQ(budget.share(at).prefill, StepBudget::kPiece);
  // Nobody knows yet, or nobody waits for tokens.
  at.decode = 0;
  EXPECT_EQ(budget.share(at).prefill, kNever);
  at.decode = 0.1;
  at.decoding = false;
  EXPECT_EQ(budget.share(at).prefill, kNever);
  // A target says it all.
  EXPECT_NEAR(StepBudget(0.15, 0.2).share(outlook(true, false)).prefill, 0.05, 1e-12);
}

TEST(StepBudget, WithoutDecodePrefillIsNotLimited) {
  Outlook at = outlook(true, true);
  at.decoding = false;
  EXPECT_EQ(StepBudget(0.15).share(at).prefill, kNever);
}

TEST(StepBudget, UnpacedTheEncoderHasAsMuchTimeAsTheForward) {
  const StepBudget budget(0);
  const Shares shares = budget.share(outlook(true, true));
  EXPECT_TRUE(budget.another_stage(shares, {.forward = 0.01}, 0.025));
  EXPECT_NEAR(budget.encoder_room(shares, {.forward = 0.01}), 0.01, 1e-12);
  const Spent most = {.forward = 0.1, .encode = 0.08, .stages = 3};
  EXPECT_TRUE(budget.another_stage(shares, most, 0.025));
  EXPECT_NEAR(budget.encoder_room(shares, most), 0.02, 1e-12);
  EXPECT_FALSE(budget.another_stage(shares, {.forward = 0.1, .encode = 0.098, .stages = 3}, 0.025));
  EXPECT_TRUE(budget.another_stage(shares, {.forward = 0.1}, 0)) << "nobody knows how long it is";
  EXPECT_TRUE(budget.another_stage(shares, {.encode = 9, .stages = 300}, 0.025)) << "no forward";
  EXPECT_EQ(budget.encoder_room(shares, {.encode = 9, .stages = 300}), kNever);
}

// Steps of 1 ms beside an encoder whose pieces are of 50 ms, were they not cut, or are of 5 ms.
TEST(StepBudget, UnpacedShortStepsAreNotFollowedByALongPieceEach) {
  for (const bool cuts : {true, false}) {
    SCOPED_TRACE(cuts);
    StepBudget budget(0);
    const Outlook at = outlook(false, true);
    double forwards = 0;
    double encoded = 0;
    for (int step = 0; step < 1000; ++step) {
      const Shares shares = budget.share(at);
      Spent spent = {.forward = 0.001};
      forwards += spent.forward;
      while (budget.another_stage(shares, spent, 0.05)) {
        const double piece = cuts ? std::min(0.05, budget.encoder_room(shares, spent)) : 0.05;
        EXPECT_TRUE(!cuts || piece <= StepBudget::kLeastPiece + 1e-9) << piece;
        spent.encode += piece;
        ++spent.stages;
      }
      encoded += spent.encode;
      budget.settle(at, shares, spent);
    }
    EXPECT_NEAR(encoded, forwards, 0.05);
  }
}

TEST(StepBudget, PrefillAloneGetsTheRoom) {
  EXPECT_NEAR(StepBudget(0.15).share(outlook(true, false)).prefill, 0.05, 1e-12);
}

TEST(StepBudget, TheEncoderAloneGetsStagesThatFit) {
  const StepBudget budget(0.16);
  const Shares shares = budget.share(outlook(false, true));
  EXPECT_TRUE(budget.another_stage(shares, {.forward = 0.1}, 0.025));
  EXPECT_TRUE(budget.another_stage(shares, {.forward = 0.1, .encode = 0.025, .stages = 1}, 0.025));
  EXPECT_FALSE(budget.another_stage(shares, {.forward = 0.1, .encode = 0.05, .stages = 2}, 0.025));
  EXPECT_FALSE(budget.another_stage(shares, {.forward = 0.17}, 0.025)) << "nothing is left";
}

TEST(StepBudget, OneStageMayGoOverTheTargetAndIsSavedLater) {
  StepBudget budget(0.11);
  const Outlook at = outlook(false, true);
  const Shares shares = budget.share(at);
  EXPECT_TRUE(budget.another_stage(shares, {.forward = 0.1}, 0.025));
  EXPECT_FALSE(budget.another_stage(shares, {.forward = 0.1, .encode = 0.025, .stages = 1}, 0.025));
  budget.settle(at, shares, {.forward = 0.1, .encode = 0.025, .stages = 1});
  EXPECT_NEAR(budget.overdraft(), 0.015, 1e-12);
  EXPECT_FALSE(budget.another_stage(budget.share(at), {.forward = 0.1}, 0.025));
  budget.settle(at, budget.share(at), {.forward = 0.1});
  EXPECT_NEAR(budget.overdraft(), 0.005, 1e-12);
  EXPECT_TRUE(budget.another_stage(budget.share(at), {.forward = 0.1}, 0.025));
}

TEST(StepBudget, AStageOfUnknownLengthIsTriedAlone) {
  const StepBudget budget(0.16);
  Outlook at = outlook(true, true);
  at.stage = 0;
  const Shares shares = budget.share(at);
  EXPECT_EQ(shares.prefill, 0);
  EXPECT_TRUE(budget.another_stage(shares, {.forward = 0.1}, 0));
  EXPECT_FALSE(budget.another_stage(shares, {.forward = 0.1, .encode = 0.01, .stages = 1}, 0));
}

TEST(StepBudget, PromptsAndImagesTakeTurns) {
  StepBudget budget(0.12);
  const Outlook at = outlook(true, true);
  Shares shares = budget.share(at);
  EXPECT_TRUE(shares.encoder_turn);
  EXPECT_EQ(shares.prefill, 0) << "a stage takes all of it";
  budget.settle(at, shares, {.forward = 0.1, .encode = 0.025, .stages = 1});
  shares = budget.share(at);
  EXPECT_FALSE(shares.encoder_turn);
  EXPECT_TRUE(shares.least_prefill);
  EXPECT_NEAR(shares.prefill, 0.015, 1e-12) << "the room less the overdraft";
  EXPECT_FALSE(budget.another_stage(shares, {.forward = 0.115, .prefilled = true}, 0.025));
  EXPECT_TRUE(budget.another_stage(shares, {.forward = 0.1}, 0.025)) << "no prompt used its turn";
}

TEST(StepBudget, WithRoomForBothEachGetsHalf) {
  const StepBudget budget(0.26);
  EXPECT_NEAR(budget.share(outlook(true, true)).prefill, 0.16 - 3 * 0.025, 1e-12);
}

TEST(StepBudget, AStepThatWentWrongIsSoonForgotten) {
  StepBudget budget(0.15);
  const Outlook at = outlook(true, true);
  budget.settle(at, budget.share(at), {.forward = 30});
  int steps = 0;
  while (budget.share(at).prefill == 0 && !budget.share(at).encoder_turn) {
    budget.settle(at, budget.share(at), {.forward = 0.1});
    ASSERT_LT(++steps, 5);
  }
}

// A machine that does what the budget allows, with costs that are predicted well or badly.
struct Outcome {
  int steps = 0;
  double time = 0;
  double longest = 0;
  int stages = 0;
  int chunks = 0;
  int longest_without_stage = 0;
  int longest_without_chunk = 0;
};

Outcome run_budget(double target, const Outlook& exact, double noise, std::uint64_t seed,
                   int steps) {
  StepBudget budget(target);
  Rng rng(seed);
  const auto blurred = [&](double value) { return value * (1 + noise * (2 * rng.uniform() - 1)); };
  Outcome result;
  int without_stage = 0;
  int without_chunk = 0;
  for (; result.steps < steps; ++result.steps) {
    Outlook at = exact;
    at.decode = blurred(exact.decode);
    at.stage = blurred(exact.stage);
    const Shares shares = budget.share(at);
    double prefill = exact.prefilling ? std::min(shares.prefill, 10.0) : 0;
    if (exact.prefilling && shares.least_prefill) prefill = std::max(prefill, exact.least_prefill);
    Spent spent;
    spent.forward = blurred(exact.decode) + prefill;
    spent.prefilled = prefill > 0 || (exact.prefilling && shares.least_prefill);
    while (exact.encoding && budget.another_stage(shares, spent, at.stage)) {
      spent.encode += blurred(exact.stage);
      ++spent.stages;
    }
    budget.settle(at, shares, spent);
    result.stages += spent.stages;
    result.chunks += spent.prefilled ? 1 : 0;
    without_stage = spent.stages > 0 ? 0 : without_stage + 1;
    without_chunk = spent.prefilled ? 0 : without_chunk + 1;
    result.longest_without_stage = std::max(result.longest_without_stage, without_stage);
    result.longest_without_chunk = std::max(result.longest_without_chunk, without_chunk);
    result.time += spent.forward + spent.encode;
    result.longest = std::max(result.longest, spent.forward + spent.encode);
  }
  return result;
}

// A target that leaves no room: kPatience steps go by, the next does one stage or chunk.
TEST(StepBudget, PatienceIsCountedInSteps) {
  for (const bool encoding : {false, true}) {
    StepBudget budget(0.05);
    const Outlook at = outlook(!encoding, encoding);
    for (int step = 0; step < 2 * (StepBudget::kPatience + 1); ++step) {
      const Shares shares = budget.share(at);
      const bool overdue = step % (StepBudget::kPatience + 1) == StepBudget::kPatience;
      EXPECT_EQ(encoding ? shares.encoder_overdue : shares.least_prefill, overdue) << step;
      Spent spent{.forward = 0.1};
      if (overdue && encoding) spent.stages = 1;
      spent.prefilled = overdue && !encoding;
      budget.settle(at, shares, spent);
    }
  }
}

TEST(StepBudget, NobodyStarvesWhateverTheTarget) {
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    Outlook at = outlook(true, true);
    at.decode = 0.2 * rng.uniform();
    at.least_prefill = round % 7 == 0 ? 0 : 0.1 * rng.uniform();
    at.stage = round % 11 == 0 ? 0 : 0.3 * rng.uniform();
    const double target = round % 3 == 0 ? 1e-6 : 0.4 * rng.uniform() + 1e-6;
    const Outcome result = run_budget(target, at, 0.3, static_cast<std::uint64_t>(round), 400);
    ASSERT_LE(result.longest_without_stage, 2 * StepBudget::kPatience + 2) << "round " << round;
    ASSERT_LE(result.longest_without_chunk, 2 * StepBudget::kPatience + 2) << "round " << round;
  }
}

TEST(StepBudget, StepsKeepToATargetThatLeavesRoom) {
  Rng rng(6);
  for (int round = 0; round < 300; ++round) {
    Outlook at = outlook(round % 3 != 0, round % 3 != 1);
    at.stage = 0.005 + 0.1 * rng.uniform();
    const double noise = 0.1 * rng.uniform();
    const double target = at.decode * (1 + noise) + 0.005 + 0.2 * rng.uniform();
    const Outcome result = run_budget(target, at, noise, static_cast<std::uint64_t>(round), 1000);
    // What cannot be cut: a stage or a smallest chunk; what cannot be known: the noise.
    const double unit = std::max(at.stage, at.least_prefill);
    ASSERT_LE(result.longest, target + unit + 4 * noise * (at.decode + unit)) << "round " << round;
    ASSERT_LE(result.time / result.steps, target * (1 + noise)) << "round " << round;
    // The room is used: all but a stage of it, on average.
    ASSERT_GE(result.time / result.steps, at.decode + 0.5 * (target - at.decode - unit))
        << "round " << round;
    if (at.prefilling && at.encoding) {
      ASSERT_GT(result.stages, 100) << "round " << round;
      ASSERT_GT(result.chunks, 100) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace saccade
