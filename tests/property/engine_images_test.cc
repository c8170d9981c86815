// Images whose pixels are made when they are wanted: decoded once for all who share them, not at
// all where the embedding is stored, again where it was evicted; and what cannot be decoded ends
// those who wait for it, and nobody else.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/local_engine.h"
#include "tests/support/fake_model.h"

namespace saccade {
namespace {

constexpr std::int64_t kImageTokens = 16;

// Gives what another source has ready, only later, and counts.
class LazyImage final : public ImageSource {
 public:
  LazyImage(std::shared_ptr<const ImageSource> of, std::atomic<int>& loads, bool broken = false)
      : of_(std::move(of)), loads_(loads), broken_(broken) {}
  Result<PreparedImage> load(const Cancelled& /*cancelled*/) const override {
    ++loads_;
    if (broken_) return fail(ErrorCode::kUndecodable, "image 0: truncated");
    return *of_->ready();
  }
  std::size_t load_bytes() const override { return 1000; }

 private:
  std::shared_ptr<const ImageSource> of_;
  std::atomic<int>& loads_;
  bool broken_;
};

struct ImageRequestEnd {
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::kNone;
  ErrorCode code = ErrorCode::kInternal;
  std::string error;
};

class EngineImages : public testing::TestWithParam<EncoderCache> {
 protected:
  void make(std::int64_t images_held = 8) {
    log::set_level(log::Level::kError);
    FakeModelOptions options;
    options.max_image_tokens = kImageTokens;
    model_ = std::make_unique<FakeModel>(options);
    EngineSettings settings;
    settings.encoder_cache = GetParam();
    settings.kv_cache_bytes = 4 << 20;
    settings.max_model_len = 500;
    settings.prefix_caching = false;
    settings.encoder_cache_bytes =
        static_cast<std::size_t>(images_held * kImageTokens * options.hidden * 4);
    auto made = Engine::create(settings, *model_, *device_, clock_);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    engine_.reset(static_cast<LocalEngine*>(made->release()));
  }

  Request request(std::uint64_t seed, bool lazy = true, bool broken = false) {
    Request made = fake_request(std::vector<TokenId>(40, 7), {{4, seed, kImageTokens}}, 5);
    made.sampling.ignore_eos = true;
    made.sampling.temperature = 0;
    if (lazy) {
      std::vector<RequestImage> images = *made.images;
      auto& source = images.front().source;
      source = std::make_shared<LazyImage>(source, loads_, broken);
      made.images = std::move(images);
    }
    return made;
  }
  RequestId submit(Request request) {
    const auto id = engine_->submit(
        std::move(request),
        [this](RequestId of, Delta&& delta, const RequestUsage&, const RequestTimes&) {
          ImageRequestEnd& to = ended_[of];
          to.tokens.insert(to.tokens.end(), delta.tokens.begin(), delta.tokens.end());
          to.finish = delta.finish;
          to.code = delta.error_code;
          to.error = delta.error;
          if (delta.finish != FinishReason::kNone) --open_;
        });
    EXPECT_TRUE(id.has_value());
    ++open_;
    return *id;
  }
  void run_out() {
    while (open_ > 0) {
      if (!engine_->step()) std::this_thread::yield();
    }
    // What is being decoded for nobody comes back too.
    while (engine_->step() || engine_->stats().images_loading > 0) {
    }
  }

  SteadyClock clock_;
  std::unique_ptr<Device> device_ = make_reference_device();
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<LocalEngine> engine_;
  std::map<RequestId, ImageRequestEnd> ended_;
  std::atomic<int> open_ = 0;
  std::atomic<int> loads_ = 0;
};

TEST_P(EngineImages, LoadedPixelsGiveTheTokensOfReadyOnes) {
  make();
  const RequestId ready = submit(request(1, false));
  const RequestId lazy = submit(request(1));
  run_out();
  engine_->reset_mm_cache();
  const RequestId again = submit(request(1));
  run_out();
  EXPECT_GE(loads_, 1);
  EXPECT_EQ(ended_[lazy].tokens, ended_[ready].tokens);
  EXPECT_EQ(ended_[again].tokens, ended_[ready].tokens);
  EXPECT_EQ(ended_[again].finish, FinishReason::kLength);
}

TEST_P(EngineImages, WhatCannotBeDecodedEndsThoseWhoWaitForItAlone) {
  make();
  const RequestId first = submit(request(1, true, true));
  const RequestId fine = submit(request(2));
  const RequestId second = submit(request(1, true, true));
  run_out();
  for (const RequestId id : {first, second}) {
    EXPECT_EQ(ended_[id].finish, FinishReason::kError);
    EXPECT_EQ(ended_[id].code, ErrorCode::kUndecodable);
    EXPECT_EQ(ended_[id].error, "image 0: truncated");
  }
  EXPECT_EQ(ended_[fine].finish, FinishReason::kLength);
  engine_->images().store().check();
  EXPECT_EQ(engine_->images().store().leased_bytes(), 0);
  // The key is not spoilt: what is given under it next is tried.
  const RequestId repaired = submit(request(1));
  run_out();
  EXPECT_EQ(ended_[repaired].finish, FinishReason::kLength);
}

TEST_P(EngineImages, ACancelledRequestLeavesNothingBehind) {
  make();
  for (int round = 0; round < 20; ++round) {
    const RequestId id = submit(request(static_cast<std::uint64_t>(round)));
    for (int i = 0; i < round; ++i) engine_->step();
    engine_->cancel(id);
    run_out();
  }
  engine_->images().store().check();
  EXPECT_EQ(engine_->images().store().leased_bytes(), 0);
  EXPECT_EQ(engine_->stats().pixel_bytes, 0u);
}

TEST_P(EngineImages, AnEngineThatSleepsIsWoken) {
  make();
  std::thread thread([this] { engine_->run(); });
  for (int i = 0; i < 20; ++i) {
    submit(request(static_cast<std::uint64_t>(i)));
    while (open_ > 0) std::this_thread::yield();
  }
  engine_->stop();
  thread.join();
}

// What the engine says of a request while it works on it (Request::progress).
TEST_P(EngineImages, SaysHowFarItIs) {
  make();
  const auto progress = std::make_shared<RequestProgress>(1);
  Request made = request(3, false);
  const auto prompt = static_cast<std::int64_t>(made.prompt->ids.size());
  made.progress = progress;
  submit(std::move(made));
  EXPECT_EQ(progress->computed(), 0);
  EXPECT_FALSE(progress->encoded(0));
  std::int64_t last = 0;
  while (open_ > 0) {
    engine_->step();
    EXPECT_GE(progress->computed(), last);
    last = progress->computed();
    // Rows that were needed had been made.
    if (last > 4) {
      EXPECT_TRUE(progress->encoded(0));
    }
  }
  EXPECT_EQ(progress->computed(), prompt);
  EXPECT_TRUE(progress->encoded(0));
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.prefill_tokens, static_cast<std::uint64_t>(prompt));
}

INSTANTIATE_TEST_SUITE_P(EncoderCaches, EngineImages,
                         testing::Values(EncoderCache::kStore, EncoderCache::kOverlay,
                                         EncoderCache::kOff));

class EngineImageStore : public EngineImages {};

TEST_P(EngineImageStore, AnImageIsDecodedOnceForAllWhoShareIt) {
  make();
  for (int i = 0; i < 6; ++i) submit(request(1));
  run_out();
  EXPECT_EQ(loads_, 1);
  submit(request(1));
  run_out();
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(engine_->stats().images_decoded, 1u);
  EXPECT_EQ(model_->images_encoded(), 1);
}

TEST_P(EngineImageStore, AnEvictedOneIsDecodedAgain) {
  make(1);
  for (const std::uint64_t seed : {1u, 2u, 1u}) {
    submit(request(seed));
    run_out();
  }
  EXPECT_EQ(loads_, 3);
}

INSTANTIATE_TEST_SUITE_P(EncoderCaches, EngineImageStore, testing::Values(EncoderCache::kStore));

}  // namespace
}  // namespace saccade
