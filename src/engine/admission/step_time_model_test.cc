#include "engine/admission/step_time_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace saccade {
namespace {

// A machine that reads its weights in 0.1 s and takes 1.4 ms of arithmetic a row, as a model of two
// billion parameters on two cores does. `noise`: steps take up to so much longer or shorter.
class Machine {
 public:
  explicit Machine(double noise = 0, std::uint64_t seed = 1) : noise_(noise), rng_(seed) {}
  double speed = 1;
  double outliers = 0;  // share of steps that take 20 times as long

  static double exact(const StepLoad& load) {
    const auto rows = static_cast<double>(load.decode_rows + load.prefill_tokens);
    return std::max(0.1, 1.4e-3 * rows) + 2e-3 * static_cast<double>(load.decode_rows) +
           1e-7 * static_cast<double>(load.context_tokens) + 1e-8 * load.prefill_context;
  }
  double run(const StepLoad& load) {
    double took = exact(load) / speed * (1 + noise_ * (2 * rng_.uniform() - 1));
    if (rng_.uniform() < outliers) took *= 20;
    return took;
  }

 private:
  double noise_;
  Rng rng_;
};

StepLoad load(std::int64_t rows, std::int64_t tokens, std::int64_t context = 400) {
  return {rows, tokens, context, static_cast<double>(tokens * tokens) / 2};
}

// What serving looks like: prompts alone, then mostly decode, with some chunks.
void serve(StepTimeModel& model, Machine& machine, int steps) {
  static constexpr std::int64_t kChunks[] = {16, 24, 60, 130, 302, 40};
  for (int i = 0; i < steps; ++i) {
    StepLoad at = load(1 + i % 8, 0, 100 + i);
    if (i % 5 == 0) at.prefill_tokens = kChunks[i / 5 % 6];
    if (i % 40 == 0) at.decode_rows = 0;
    at.prefill_context = static_cast<double>(at.prefill_tokens * at.prefill_tokens) / 2;
    model.observe(at, machine.run(at));
  }
}

TEST(StepTimeModel, IsCarefulWhileNothingIsKnown) {
  const StepTimeModel model;
  EXPECT_EQ(model.predict(load(4, 100)), 0);
  EXPECT_EQ(model.largest_prefill(load(4, 0), 10, 2048), StepTimeModel::kFirstChunk);
  EXPECT_EQ(model.largest_prefill(load(4, 0), 10, 3), 3);
}

TEST(StepTimeModel, LearnsAMachineThatReadsAndThenComputes) {
  StepTimeModel model;
  Machine machine(0.1);
  serve(model, machine, 400);
  for (const std::int64_t tokens : {0, 16, 40, 100, 200, 300, 500}) {
    const double exact = Machine::exact(load(4, tokens));
    EXPECT_NEAR(model.predict(load(4, tokens)), exact, 0.15 * exact) << tokens << " tokens";
  }
  for (const double target : {0.13, 0.15, 0.2, 0.4}) {
    const std::int64_t tokens = model.largest_prefill(load(4, 1), target, 2048);
    EXPECT_LT(Machine::exact(load(4, tokens)), 1.15 * target);
    EXPECT_GT(Machine::exact(load(4, tokens)), 0.8 * target);
  }
}

TEST(StepTimeModel, RemembersChunksThroughThousandsOfDecodeSteps) {
  StepTimeModel model;
  Machine machine(0.1);
  serve(model, machine, 200);
  for (int i = 0; i < 20000; ++i) model.observe(load(4, 0), machine.run(load(4, 0)));
  const double exact = Machine::exact(load(4, 300));
  EXPECT_NEAR(model.predict(load(4, 300)), exact, 0.2 * exact);
  EXPECT_LT(Machine::exact(load(4, model.largest_prefill(load(4, 1), 0.15, 2048))), 0.2);
}

TEST(StepTimeModel, FollowsAMachineThatSlowsDown) {
  StepTimeModel model;
  Machine machine(0.05);
  serve(model, machine, 400);
  machine.speed = 0.5;
  serve(model, machine, 400);
  for (const std::int64_t tokens : {0, 60, 300}) {
    const double exact = 2 * Machine::exact(load(4, tokens));
    EXPECT_NEAR(model.predict(load(4, tokens)), exact, 0.2 * exact) << tokens << " tokens";
  }
}

TEST(StepTimeModel, IsNotMovedByOutliers) {
  StepTimeModel model;
  Machine machine(0.1);
  machine.outliers = 0.1;
  serve(model, machine, 600);
  for (const std::int64_t tokens : {0, 60, 300}) {
    const double exact = Machine::exact(load(4, tokens));
    EXPECT_NEAR(model.predict(load(4, tokens)), exact, 0.25 * exact) << tokens << " tokens";
  }
}

TEST(StepTimeModel, TrustsWhatItHasSeenEightTimes) {
  StepTimeModel model;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(model.largest_prefill(load(4, 0), 10, 2048), StepTimeModel::kFirstChunk) << i;
    model.observe(load(4, 100), 0.1);
  }
  EXPECT_GT(model.largest_prefill(load(4, 0), 10, 2048), StepTimeModel::kFirstChunk);
}

// Where attention takes most of the time: what is in the cache counts, and what a chunk's tokens
// see of each other.
TEST(StepTimeModel, LearnsWhatContextCosts) {
  const auto took = [](const StepLoad& at) {
    return 0.02 + 1e-6 * static_cast<double>(at.context_tokens) + 2e-7 * at.prefill_context;
  };
  StepTimeModel model;
  for (int i = 0; i < 600; ++i) {
    StepLoad at = load(1 + i % 4, i % 3 == 0 ? 16 << i / 3 % 7 : 0, 1000 * (1 + i % 37));
    at.prefill_context += static_cast<double>(at.prefill_tokens) * (i * 37 % 1000);
    model.observe(at, took(at));
  }
  for (const std::int64_t context : {2'000, 30'000}) {
    const StepLoad at = load(2, 0, context);
    EXPECT_NEAR(model.predict(at), took(at), 0.1 * took(at)) << context;
  }
  const StepLoad fits = load(2, model.largest_prefill(load(2, 0, 1000), 0.08, 2048), 1000);
  EXPECT_NEAR(took(fits), 0.08, 0.012);
}

// Steps whose time does not depend on the chunk say nothing about chunks far beyond.
TEST(StepTimeModel, AcceptsNoChunkFarBeyondWhatWasMeasured) {
  StepTimeModel model;
  for (int i = 0; i < 200; ++i) model.observe(load(4, i % 2 == 0 ? 0 : 20), 0.1);
  EXPECT_EQ(model.largest_prefill(load(4, 1), 0.2, 2048), 40);
  model.observe(load(4, 40), 0.1);
  EXPECT_EQ(model.largest_prefill(load(4, 1), 0.2, 2048), 80);
  EXPECT_EQ(model.largest_prefill(load(4, 1), 0.05, 2048), 0) << "the target is out of reach";
}

TEST(StepTimeModel, ForgetsWhatIsNoMeasurement) {
  StepTimeModel model;
  const double not_times[] = {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity()};
  for (const double seconds : not_times) model.observe(load(4, 2000), seconds);
  EXPECT_EQ(model.observations(), 0);
  for (int i = 0; i < 20; ++i) model.observe(load(4, 0), 0.1);
  EXPECT_EQ(model.largest_prefill(load(4, 1), 100, 2048), StepTimeModel::kFirstChunk);
}

// Whatever it is fed, more work is never predicted to be faster, nothing is negative or infinite,
// and what is accepted is within reach of what was seen.
TEST(StepTimeModel, KeepsItsPromisesWhateverItSees) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    StepTimeModel model;
    std::int64_t largest = 0;
    for (int i = 0; i < 300; ++i) {
      const auto pick = [&](std::uint64_t bound) {
        return static_cast<std::int64_t>(rng.below(bound));
      };
      StepLoad at;
      at.decode_rows = pick(3) == 0 ? 0 : pick(64);
      at.prefill_tokens = pick(3) == 0 ? pick(std::uint64_t{1} << pick(12)) : 0;
      at.context_tokens = pick(std::uint64_t{1} << pick(20));
      at.prefill_context = static_cast<double>(at.prefill_tokens * pick(4096));
      const double seconds = std::exp(20 * rng.uniform() - 15);
      model.observe(at, seconds);
      largest = std::max(largest, at.prefill_tokens);
      if (i % 10 != 0) continue;
      double last = 0;
      for (const std::int64_t tokens : {0, 1, 16, 17, 64, 300, 2048, 100000}) {
        const double predicted = model.predict(load(pick(2), tokens, 0));
        ASSERT_TRUE(std::isfinite(predicted));
        ASSERT_GE(predicted, 0);
        const double same = model.predict(load(1, tokens, 0));
        ASSERT_GE(same, last * (1 - 1e-12));
        last = same;
      }
      const std::int64_t tokens = model.largest_prefill(at, seconds, 1 << 20);
      ASSERT_GE(tokens, 0);
      ASSERT_LE(tokens, std::max(StepTimeModel::kFirstChunk, StepTimeModel::kReach * largest));
    }
  }
}

}  // namespace
}  // namespace saccade
