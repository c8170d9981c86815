// An encoder that fails, or makes numbers that are none: who waits for that image is told, in every
// mode of the embedding cache; nobody else notices, and nothing stays behind.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/local_engine.h"
#include "tests/support/fake_model.h"

namespace saccade {
namespace {

constexpr std::int64_t kGood = 16;    // tokens of an image
constexpr std::int64_t kBroken = 12;  // of one that the encoder will not have

struct RequestEnd {
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::kNone;
  ErrorCode code = ErrorCode::kInternal;
  std::string error;
};

class EncoderFailures : public testing::TestWithParam<EncoderCache> {
 protected:
  EncoderFailures() : model_(options()) {
    log::set_level(log::Level::kError);
    EngineSettings settings;
    settings.encoder_cache = GetParam();
    settings.kv_cache_bytes = 4 << 20;
    settings.max_model_len = 500;
    settings.prefix_caching = false;
    auto made = Engine::create(settings, model_, *device_, clock_);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    engine_.reset(static_cast<LocalEngine*>(made->release()));
  }
  static FakeModelOptions options() {
    FakeModelOptions options;
    options.max_image_tokens = kGood;
    return options;
  }

  RequestId submit(const std::vector<FakeImageAt>& images) {
    Request request = fake_request(std::vector<TokenId>(60, 7), images, 5);
    request.sampling.ignore_eos = true;
    request.sampling.temperature = 0;
    const auto id = engine_->submit(
        std::move(request),
        [this](RequestId of, Delta&& delta, const RequestUsage&, const RequestTimes&) {
          RequestEnd& to = ended_[of];
          EXPECT_EQ(to.finish, FinishReason::kNone) << "a delta after the last one";
          to.tokens.insert(to.tokens.end(), delta.tokens.begin(), delta.tokens.end());
          to.finish = delta.finish;
          to.code = delta.error_code;
          to.error = delta.error;
        });
    EXPECT_TRUE(id.has_value());
    return *id;
  }
  void run_out() {
    for (int idle = 0; idle < 3;) idle = engine_->step() ? 0 : idle + 1;
  }
  // A good image alone, and beside the others: same tokens.
  std::vector<TokenId> alone() {
    const RequestId id = submit({{4, 1, kGood}});
    run_out();
    EXPECT_EQ(ended_[id].finish, FinishReason::kLength);
    engine_->reset_mm_cache();
    return ended_[id].tokens;
  }
  void expect_nothing_left() {
    const EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.num_requests_running, 0);
    EXPECT_EQ(stats.num_requests_waiting, 0);
    EXPECT_EQ(stats.encoder_queue_images, 0);
    EXPECT_EQ(stats.kv_cache_usage, 0);
    EXPECT_EQ(stats.memory.useful, 0);
  }

  VirtualClock clock_;
  std::unique_ptr<Device> device_ = make_reference_device();
  FakeModel model_;
  std::unique_ptr<LocalEngine> engine_;
  std::map<RequestId, RequestEnd> ended_;
};

TEST_P(EncoderFailures, AreTheAnswerOfWhoWaits) {
  const std::vector<TokenId> want = alone();
  for (const bool spoilt : {false, true}) {
    SCOPED_TRACE(spoilt);
    model_.break_images(spoilt ? 0 : kBroken, spoilt ? kBroken : 0);
    const RequestId before = submit({{4, 1, kGood}});
    const RequestId broken = submit({{4, 2, kBroken}});
    const RequestId shares = submit({{10, 2, kBroken}});
    const RequestId second = submit({{4, 1, kGood}, {30, 2, kBroken}});
    const RequestId text = submit({});
    run_out();
    EXPECT_EQ(ended_[before].tokens, want);
    EXPECT_EQ(ended_[text].finish, FinishReason::kLength);
    for (const RequestId id : {broken, shares, second}) {
      EXPECT_EQ(ended_[id].finish, FinishReason::kError);
      EXPECT_TRUE(ended_[id].tokens.empty());
      EXPECT_EQ(ended_[id].code, spoilt ? ErrorCode::kInternal : ErrorCode::kUnavailable);
      EXPECT_EQ(ended_[id].error, spoilt ? "the image's embedding has values that are not finite"
                                         : "the encoder is gone");
    }
    expect_nothing_left();
  }
  // Nothing of the failures was stored: the same image works once the encoder does.
  model_.break_images(0, 0);
  const RequestId again = submit({{4, 2, kBroken}});
  run_out();
  EXPECT_EQ(ended_[again].finish, FinishReason::kLength);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Modes, EncoderFailures,
                         testing::Values(EncoderCache::kStore, EncoderCache::kOverlay,
                                         EncoderCache::kOff),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace saccade
