#include "engine/images/encoder_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "ops/device.h"

namespace saccade {
namespace {

constexpr int kStages = 4;
constexpr Nanos kPatchTime = 10 * kMicrosecond;  // of one patch in one stage

// A model that encodes in four stages and says when it did.
class StagedModel final : public Network {
 public:
  explicit StagedModel(VirtualClock& clock) : clock_(clock) {
    shape_.hidden = 2;
    shape_.has_vision = true;
  }
  Result<void> reserve(Device&, const Capacity&) override { return {}; }
  void forward(Stream&, const Batch&, const Tap&) override {}
  std::unique_ptr<EncodeRun> begin_encode(Stream&, std::span<const PreparedImage* const> images,
                                          std::span<const View>, const Tap&) override {
    Nanos layer = 0;
    for (const PreparedImage* image : images) {
      const std::int64_t patches = patch_rows(image->layout);
      layer += patches * kPatchTime + patches * patches * pair_time;
    }
    batches.push_back(static_cast<std::int64_t>(images.size()));
    if (cuts) return std::make_unique<CutRun>(*this, layer);
    auto run = std::make_unique<Run>(*this, layer);
    for (const PreparedImage* image : images) run->patches.push_back(patch_rows(image->layout));
    return run;
  }

  std::vector<std::int64_t> batches;  // images of each
  int stages = 0;
  Nanos pair_time = 0;               // of two patches of one image that attend to each other
  int failing_stage = 0;             // 0: none fails
  std::int64_t failing_patches = 0;  // of an image whose batch does
  bool cuts = false;                 // stages may be cut
  double slowness = 1;               // of a machine that cuts
  int shortening = 1;  // the first and the last stage take so many times less than a layer

 private:
  struct Run final : EncodeRun {
    Run(StagedModel& of, Nanos time) : model(of), layer(time) {}
    Result<bool> advance() override {
      ++model.stages;
      ++done;
      if (done == model.failing_stage &&
          std::ranges::any_of(patches, [&](auto n) { return n == model.failing_patches; }))
        return fail(ErrorCode::kUnavailable, "no encoder");
      model.clock_.advance(done == 1 || done == kStages ? layer / model.shortening : layer);
      return done == kStages;
    }
    StagedModel& model;
    Nanos layer;
    std::vector<std::int64_t> patches = {};
    int done = 0;
  };
  // Each stage is a layer's products and attention, as long as each other, in units of 10 us.
  struct CutRun final : PiecewiseRun {
    CutRun(StagedModel& of, Nanos time) : model(of), units(time / (20 * kMicrosecond)) {}
    Result<bool> advance() override { return fail(ErrorCode::kInternal, "whole"); }
    Result<Piece> advance_piece(const WorkCost& rates, double time) override {
      constexpr WorkCost kUnit = {2e6, 5e5};
      const std::size_t kind = done < units ? 0 : 1;
      const std::int64_t left = (kind == 0 ? units : 2 * units) - done;
      const double fit = time * rates[kind] / kUnit[kind];
      const auto count = static_cast<std::int64_t>(std::clamp(fit, 1.0, static_cast<double>(left)));
      done += count;
      model.clock_.advance(
          static_cast<Nanos>(static_cast<double>(10 * kMicrosecond * count) * model.slowness));
      Piece piece;
      piece.cost[kind] = static_cast<double>(count) * kUnit[kind];
      piece.stage_ends = done == 2 * units;
      if (piece.stage_ends) {
        done = 0;
        piece.complete = ++stages == kStages;
      }
      return piece;
    }
    StagedModel& model;
    std::int64_t units;  // of each kind
    std::int64_t done = 0;
    int stages = 0;
  };
  VirtualClock& clock_;
};

struct QueueTest : testing::Test {
  void make(double stage_seconds, std::int64_t batch_patches = 4096) {
    EncoderLimits limits;
    limits.batch_patches = batch_patches;
    limits.max_patches = 8192;
    limits.max_rows = 2048;
    limits.stage_seconds = stage_seconds;
    queue = *EncoderQueue::create(
        model, *device, limits, clock,
        {.publish = [this](const Digest& key, View) { published.push_back(key); },
         .failed = [this](const Digest& key,
                          const Error& error) { failed.emplace_back(key, error.message); },
         .wanted = [this](const Digest& key) { return wanted.contains(key); }});
  }
  // rows: of the embedding; 0: a quarter of the patches.
  Digest push(const std::string& name, std::int64_t patches, std::int64_t rows = 0,
              EncodeOrigin origin = {}) {
    auto image = std::make_shared<PreparedImage>();
    image->layout.grid_h = patches;
    image->layout.grid_w = 1;
    image->layout.tokens = rows > 0 ? rows : patches / 4;
    const Digest key = sha256(name);
    wanted.insert(key);
    queue->push(key, std::move(image), origin);
    return key;
  }
  void run_out() {
    while (!queue->idle()) queue->advance();
  }

  VirtualClock clock;
  StagedModel model{clock};
  std::unique_ptr<Device> device = make_reference_device();
  std::set<Digest> wanted;
  std::vector<Digest> published;
  std::vector<std::pair<Digest, std::string>> failed;
  std::unique_ptr<EncoderQueue> queue;
};

TEST_F(QueueTest, AKeyIsEncodedOnceHoweverManyAsk) {
  make(0);
  push("a", 64);
  push("a", 64);
  EXPECT_EQ(queue->waiting(), 1);
  queue->advance();
  push("a", 64);
  run_out();
  EXPECT_EQ(published.size(), 1u);
}

// The batch is done again one by one, in its order and before what came later; one image fails.
TEST_F(QueueTest, NobodyWaitsForAllThatAnotherWants) {
  constexpr EncodeOrigin kOthers{.others = true, .client = 0};
  make(0, 64);  // one image a batch
  for (int i = 0; i < 8; ++i) push("theirs " + std::to_string(i), 64, 0, kOthers);
  queue->advance();  // the first of them has begun
  const Digest own = push("own", 64);
  while (published.size() < 2) queue->advance();
  EXPECT_EQ(published[1], own);
  // A large one of its own counts as much as all the small ones that it takes as long as.
  const Digest large = push("large", 256);
  const Digest after = push("after", 64);
  run_out();
  const auto place = [&](const Digest& key) {
    return std::ranges::find(published, key) - published.begin();
  };
  EXPECT_EQ(place(large), 3);
  EXPECT_EQ(place(after), 8);
  ASSERT_EQ(published.size(), 11u);
  for (int i = 0; i + 1 < 8; ++i)
    EXPECT_LT(place(sha256("theirs " + std::to_string(i))),
              place(sha256("theirs " + std::to_string(i + 1))));
  // Who asked for nothing in the meantime has saved nothing up.
  for (int i = 0; i < 4; ++i) push("later " + std::to_string(i), 64);
  const Digest theirs = push("theirs again", 64, 0, kOthers);
  published.clear();
  run_out();
  EXPECT_LE(place(theirs), 2);
}

// One client's album does not stand before another's picture; of one client images keep their
// order.
TEST_F(QueueTest, ClientsShareByPatchRows) {
  make(0, 64);  // one image a batch
  const auto of = [](ClientId client) { return EncodeOrigin{.others = false, .client = client}; };
  for (int i = 0; i < 6; ++i) push("album " + std::to_string(i), 256, 0, of(1));
  queue->advance();  // the first of them has begun
  const Digest picture = push("picture", 64, 0, of(2));
  const Digest large = push("large", 1024, 0, of(2));
  const Digest third = push("third", 64, 0, of(3));
  run_out();
  const auto place = [&](const Digest& key) {
    return std::ranges::find(published, key) - published.begin();
  };
  EXPECT_LE(place(picture), 2);
  EXPECT_LE(place(third), 2);
  EXPECT_EQ(place(large), 3);  // it begins where its client has had as little as the album's
  for (int i = 0; i + 1 < 6; ++i)
    EXPECT_LT(place(sha256("album " + std::to_string(i))),
              place(sha256("album " + std::to_string(i + 1))));
  // Who comes later does not wait for all that is queued.
  for (int i = 0; i < 2; ++i) push("more " + std::to_string(i), 256, 0, of(1));
  const Digest again = push("again", 64, 0, of(2));
  published.clear();
  run_out();
  EXPECT_LE(place(again), 1);
}

TEST_F(QueueTest, AFailureIsThatOfOneImage) {
  for (const int stage : {1, 3, kStages}) {
    SCOPED_TRACE(stage);
    published.clear();
    failed.clear();
    make(0);
    model.batches.clear();
    model.failing_stage = stage;
    model.failing_patches = 68;
    const Digest a = push("a", 64);
    const Digest b = push("b", 68);
    const Digest c = push("c", 72);
    queue->advance();
    push("b", 68);  // is still there
    const Digest d = push("d", 76);
    run_out();
    EXPECT_EQ(model.batches, (std::vector<std::int64_t>{3, 1, 1, 1, 1}));
    EXPECT_EQ(published, (std::vector<Digest>{a, c, d}));
    ASSERT_EQ(failed.size(), 1u);
    EXPECT_EQ(failed[0], std::pair(b, std::string("no encoder")));
    EXPECT_EQ(queue->stats().failed, 1u);
    EXPECT_FALSE(queue->running());
    // It may be asked for again, and then it may work.
    model.failing_stage = 0;
    push("b", 68);
    run_out();
    EXPECT_EQ(published.back(), b);
  }
}

TEST_F(QueueTest, SmallImagesShareABatchUpToItsPatches) {
  make(0, 1000);
  for (const char* name : {"a", "b", "c", "d", "e"}) push(name, 400);
  push("large", 4000);
  run_out();
  EXPECT_EQ(model.batches, (std::vector<std::int64_t>{2, 2, 1, 1}));
  EXPECT_EQ(published.size(), 6u);
}

TEST_F(QueueTest, ABatchMayBeAsLargeAsItsLimits) {
  make(0, 800);
  for (const char* name : {"a", "b", "c"}) push(name, 400);
  run_out();
  EXPECT_EQ(model.batches, (std::vector<std::int64_t>{2, 1}));
  // 2,048 rows of embeddings fit.
  for (const char* name : {"d", "e", "f"}) push(name, 4, 1024);
  for (const char* name : {"g", "h"}) push(name, 4, 1025);
  run_out();
  EXPECT_EQ(model.batches, (std::vector<std::int64_t>{2, 1, 2, 1, 1, 1}));
}

TEST_F(QueueTest, ABatchGrowsUntilItsStageTakesTooLong) {
  make(10e-3);  // 1,000 patches
  push("first", 400);
  EXPECT_EQ(queue->stage_seconds(), 0);
  run_out();
  for (const char* name : {"a", "b", "c", "d", "e"}) push(name, 400);
  push("large", 4000);
  run_out();
  EXPECT_EQ(model.batches, (std::vector<std::int64_t>{1, 2, 2, 1, 1}));
}

TEST_F(QueueTest, NoBatchBeforeAnythingIsMeasuredWhereItsStagesAreLimited) {
  make(10e-3);
  push("a", 4);
  push("b", 4);
  run_out();
  EXPECT_EQ(model.batches, (std::vector<std::int64_t>{1, 1}));
}

TEST_F(QueueTest, StagesArePredictedFromTheirPatches) {
  make(0, 1);
  EXPECT_EQ(queue->stage_seconds(), 0) << "idle";
  for (const std::int64_t patches : {100, 400, 1000}) push(std::to_string(patches), patches);
  run_out();
  push("more", 2000);
  EXPECT_NEAR(queue->stage_seconds(), 20e-3, 1e-3) << "of a batch that is to begin";
  queue->advance();
  EXPECT_NEAR(queue->stage_seconds(), 20e-3, 1e-3) << "of the one in progress";
}

TEST_F(QueueTest, OnlyLayersAreMeasured) {
  make(0, 1);
  model.shortening = 10;
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t patches : {100, 400, 1000})
      push(std::to_string(round) + " " + std::to_string(patches), patches);
  }
  run_out();
  push("more", 2000);
  EXPECT_NEAR(queue->stage_seconds(), 20e-3, 1e-3);
}

TEST_F(QueueTest, AttentionGrowsWithTheSquareOfAnImage) {
  make(0);
  model.pair_time = 5;
  for (const std::int64_t patches : {100, 400, 1000, 1500}) {
    push(std::to_string(patches), patches);
    run_out();
  }
  push("one of 2000", 2000);
  EXPECT_NEAR(queue->stage_seconds(), 40e-3, 2e-3);
  run_out();
  push("two of 1000", 1000);
  push("the other", 1000);
  EXPECT_NEAR(queue->stage_seconds(), 30e-3, 2e-3);
}

// A layer of 20 s on a machine whose speed changes under way: no piece is longer than it may be,
// and few are much shorter.
TEST_F(QueueTest, NoPieceTakesLongerThanItMay) {
  make(0);
  model.cuts = true;
  model.pair_time = 300;
  push("large", 8192, 2048);
  std::vector<double> pieces;
  for (int i = 0; !queue->idle() && i < 100000; ++i) {
    if (i == 500) model.slowness = 1.5;
    if (i == 900) model.slowness = 0.2;
    const Nanos begin = clock.now();
    queue->advance();
    pieces.push_back(seconds(clock.now() - begin));
  }
  EXPECT_EQ(published.size(), 1u);
  ASSERT_GT(pieces.size(), 500u);
  EXPECT_LE(std::ranges::max(pieces), 0.05);
  EXPECT_EQ(queue->stats().longest_piece, std::ranges::max(pieces));
  EXPECT_LE(pieces.front(), 0.02) << "nothing is known of the machine yet";
  const auto whole = std::ranges::count_if(pieces, [](double piece) { return piece > 0.02; });
  EXPECT_GT(whole, static_cast<std::ptrdiff_t>(pieces.size() * 8 / 10));
  EXPECT_NEAR(queue->stage_seconds(), 0, 0) << "idle";
}

TEST_F(QueueTest, PiecesAreAsShortAsIsAsked) {
  make(0);
  model.cuts = true;
  push("first", 8192, 2048);
  run_out();
  push("large", 8192, 2048);
  while (!queue->idle()) {
    const Nanos begin = clock.now();
    queue->advance(0.005);
    EXPECT_LE(seconds(clock.now() - begin), 0.005);
    EXPECT_LE(queue->stage_seconds(), 0.05);
  }
  EXPECT_EQ(published.size(), 2u);
}

TEST_F(QueueTest, ACutRunThatNobodyWantsEndsWithinAPiece) {
  make(0);
  model.cuts = true;
  push("large", 8192, 2048);
  queue->advance();
  queue->advance();
  const std::uint64_t pieces = queue->stats().pieces;
  wanted.clear();
  EXPECT_TRUE(queue->prune());
  EXPECT_TRUE(queue->idle()) << "not a piece more";
  queue->prune();
  EXPECT_FALSE(queue->running());
  EXPECT_EQ(queue->stats().pieces, pieces);
  EXPECT_TRUE(published.empty());
}

TEST_F(QueueTest, WhatWasLetGoCanBeAskedForAgain) {
  make(0);
  const Digest a = push("a", 4);
  wanted.clear();
  EXPECT_TRUE(queue->prune());
  push("a", 4);
  EXPECT_EQ(queue->waiting(), 1);
  run_out();
  EXPECT_EQ(published, std::vector<Digest>{a});
}

TEST_F(QueueTest, LettingGoIsWork) {
  make(0, 1);
  push("a", 4);
  push("b", 4);
  wanted.clear();
  EXPECT_TRUE(queue->prune()) << "the gauge of waiting images has to be published again";
  EXPECT_EQ(queue->waiting(), 0);
  EXPECT_TRUE(queue->idle());
  EXPECT_FALSE(queue->prune());
  EXPECT_EQ(queue->stats().let_go, 2u);
}

TEST_F(QueueTest, ARunThatNobodyWantsIsGivenUpBetweenStages) {
  make(0);
  const Digest a = push("a", 4);
  const Digest b = push("b", 4);
  queue->advance();
  wanted.erase(a);
  EXPECT_FALSE(queue->prune()) << "the other is wanted";
  EXPECT_FALSE(queue->idle());
  wanted.erase(b);
  EXPECT_TRUE(queue->prune());
  EXPECT_TRUE(queue->idle()) << "not a stage more";
  EXPECT_TRUE(queue->prune());
  EXPECT_FALSE(queue->running());
  EXPECT_FALSE(queue->prune());
  EXPECT_EQ(model.stages, 1);
  push("a", 4);  // wanted again: from the beginning
  run_out();
  EXPECT_EQ(published, std::vector<Digest>{a});
  EXPECT_EQ(model.stages, 1 + kStages);
}

TEST_F(QueueTest, ARunWantedBackAtOnceGoesOn) {
  make(0);
  const Digest a = push("a", 4);
  queue->advance();
  wanted.clear();
  EXPECT_TRUE(queue->prune());
  push("a", 4);
  EXPECT_FALSE(queue->prune());
  run_out();
  EXPECT_EQ(published, std::vector<Digest>{a});
  EXPECT_EQ(model.stages, kStages);
}

}  // namespace
}  // namespace saccade
