#include "engine/embedding_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace saccade {
namespace {

using ::testing::HasSubstr;

// A text's embedding: its length and the sum of its ids.
class CountingEncoder final : public SentenceEncoder {
 public:
  CountingEncoder() {
    shape_.dimensions = 2;
    shape_.vocab = 100;
    shape_.max_tokens = 8;
  }
  Result<void> reserve(Device&, std::int64_t rows, std::int64_t sequences) override {
    rows_ = rows;
    sequences_ = sequences;
    return {};
  }
  void forward(Stream&, std::span<const TokenId> ids, std::span<const std::int32_t> begins,
               View out, const Tap&) override {
    EXPECT_LE(static_cast<std::int64_t>(ids.size()), rows_);
    EXPECT_LE(out.rows(), sequences_);
    if (broken) throw std::runtime_error("a step that fails");
    batches.push_back(out.rows());
    for (std::int64_t i = 0; i < out.rows(); ++i) {
      const auto first = ids.begin() + begins[static_cast<std::size_t>(i)];
      const auto last = ids.begin() + begins[static_cast<std::size_t>(i) + 1];
      out.row<float>(i)[0] = static_cast<float>(last - first);
      out.row<float>(i)[1] = static_cast<float>(std::accumulate(first, last, 0));
    }
  }
  std::vector<std::int64_t> batches;
  bool broken = false;

 private:
  std::int64_t rows_ = 0;
  std::int64_t sequences_ = 0;
};

class EmbeddingEngineTest : public ::testing::Test {
 protected:
  void make(EmbeddingSettings settings) {
    auto engine = EmbeddingEngine::create(settings, encoder_, *device_);
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = *std::move(engine);
  }
  RequestId submit(std::vector<std::vector<TokenId>> inputs) {
    auto id = engine_->submit(std::move(inputs), [this](std::vector<float> rows) {
      delivered_.push_back(std::move(rows));
    });
    EXPECT_TRUE(id) << id.error().message;
    return id.value_or(0);
  }
  CountingEncoder encoder_;
  std::unique_ptr<Device> device_ = make_reference_device();
  std::unique_ptr<EmbeddingEngine> engine_;
  std::vector<std::vector<float>> delivered_;
};

TEST_F(EmbeddingEngineTest, OneStepTakesTextsOfSeveralRequests) {
  make({.max_batched_tokens = 16, .max_sequences = 8});
  submit({{1, 2}, {3}});
  submit({{4, 5, 6}});
  EXPECT_TRUE(engine_->step());
  EXPECT_FALSE(engine_->step());
  EXPECT_EQ(encoder_.batches, std::vector<std::int64_t>{3});
  EXPECT_EQ(delivered_, (std::vector<std::vector<float>>{{2, 3, 1, 3}, {3, 15}}));
  EXPECT_EQ(engine_->stats().prompt_tokens, 6U);
  EXPECT_EQ(engine_->stats().waiting, 0);
}

TEST_F(EmbeddingEngineTest, ABigRequestIsSpreadOverSteps) {
  make({.max_batched_tokens = 8, .max_sequences = 3});
  submit({{1, 1, 1, 1, 1}, {2, 2, 2}, {3, 3}, {4}, {5}, {6}});
  submit({{7}});
  while (engine_->step()) {
  }
  // By tokens: 5 + 3; by sequences: 3 of one or two tokens; then the rest.
  EXPECT_EQ(encoder_.batches, (std::vector<std::int64_t>{2, 3, 2}));
  ASSERT_EQ(delivered_.size(), 2U);
  EXPECT_EQ(delivered_[0], (std::vector<float>{5, 5, 3, 6, 2, 6, 1, 4, 1, 5, 1, 6}));
  EXPECT_EQ(delivered_[1], (std::vector<float>{1, 7}));
}

TEST_F(EmbeddingEngineTest, WhatCannotBeEmbeddedIsRefused) {
  make({.max_batched_tokens = 8, .max_sequences = 8});
  const auto refused = [&](std::vector<std::vector<TokenId>> inputs) {
    const auto id = engine_->submit(std::move(inputs), [](const std::vector<float>&) {});
    return id ? Error{} : id.error();
  };
  EXPECT_THAT(refused({{}}).message, HasSubstr("no tokens"));
  EXPECT_THAT(refused({{1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}}).message, HasSubstr("8 tokens"));
  EXPECT_THAT(refused({{100}}).message, HasSubstr("100"));
  EXPECT_THAT(refused({{-1}}).message, HasSubstr("-1"));
}

TEST_F(EmbeddingEngineTest, TheQueueCountsRequestsAndTheirTokens) {
  make({.max_batched_tokens = 8, .max_sequences = 8, .max_waiting = 2, .max_waiting_tokens = 9});
  const auto refused = [&](std::vector<std::vector<TokenId>> inputs) {
    const auto id = engine_->submit(std::move(inputs), [](const std::vector<float>&) {});
    return id ? Error{} : id.error();
  };
  submit({{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}});  // over the limit alone: nobody waits
  Error full = refused({{1}});
  EXPECT_EQ(full.code, ErrorCode::kExhausted);
  EXPECT_THAT(full.message, HasSubstr("12 tokens are waiting, 1 more go over the limit of 9"));
  while (engine_->step()) {
  }
  submit({{1}, {1}, {1}, {1}, {1}});  // more texts than requests may wait
  submit({{1, 1, 1, 1}});             // nine tokens now: just as many as may be
  full = refused({{1}});
  EXPECT_EQ(full.code, ErrorCode::kExhausted);
  EXPECT_THAT(full.message, HasSubstr("2 requests are waiting, the limit is 2"));
  while (engine_->step()) {
  }
  // Who leaves makes room as well.
  const RequestId gone = submit({{1, 1, 1, 1, 1, 1, 1, 1}});
  EXPECT_EQ(refused({{1, 1}}).code, ErrorCode::kExhausted);
  engine_->cancel(gone);
  EXPECT_FALSE(engine_->step());
  submit({{1, 1}});
  submit({{1, 1, 1, 1, 1, 1, 1}});
  EXPECT_EQ(engine_->stats().rejections, 3U);
  EXPECT_EQ(delivered_.size(), 3U);
  while (engine_->step()) {
  }
  EXPECT_EQ(delivered_.size(), 5U);
  EXPECT_EQ(engine_->stats().requests, 0);
  EXPECT_EQ(engine_->stats().request_tokens, 0);
}

TEST_F(EmbeddingEngineTest, TheCancelledIsNotComputed) {
  make({.max_batched_tokens = 8, .max_sequences = 1});
  const RequestId first = submit({{1}, {2}});
  const RequestId second = submit({{3}});
  submit({{4}});
  engine_->step();  // one text of the first
  engine_->cancel(first);
  engine_->cancel(second);
  engine_->cancel(999);
  while (engine_->step()) {
  }
  EXPECT_EQ(delivered_, (std::vector<std::vector<float>>{{1, 4}}));
  EXPECT_EQ(encoder_.batches.size(), 2U);
  EXPECT_EQ(engine_->stats().waiting, 0);
}

TEST_F(EmbeddingEngineTest, ManyThreadsSubmitToARunningEngine) {
  make({.max_batched_tokens = 32, .max_sequences = 8, .max_waiting = 10'000});
  std::thread runner([this] { engine_->run(); });
  std::atomic<int> right = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 50; ++i) {
        const auto id = engine_->submit({{client, i}}, [&, client, i](const auto& rows) {
          if (rows == std::vector<float>{2, static_cast<float>(client + i)}) ++right;
        });
        EXPECT_TRUE(id);
      }
    });
  }
  for (auto& client : clients) client.join();
  while (engine_->stats().sequences < 200) std::this_thread::yield();
  engine_->stop();
  runner.join();
  EXPECT_EQ(right, 200);
}

TEST_F(EmbeddingEngineTest, WhoWaitsForAStepThatThrewHearsOfItAndNobodyMayCome) {
  make({});
  encoder_.broken = true;
  auto waiting = std::make_shared<int>();
  const std::weak_ptr<int> asked = waiting;
  // Its sink asks again as it goes: the engine's lock is not held then.
  struct AsksAgain {
    explicit AsksAgain(EmbeddingEngine& engine) : engine_(engine) {}
    ~AsksAgain() { EXPECT_EQ(engine_.stats().requests, 1); }
    EmbeddingEngine& engine_;
  };
  auto again = std::make_shared<AsksAgain>(*engine_);
  ASSERT_TRUE(engine_->submit({{1}}, [waiting, again](const auto&) {}));
  waiting.reset();
  again.reset();
  EXPECT_THROW(engine_->run(), std::runtime_error);
  EXPECT_TRUE(asked.expired());
  const auto late = engine_->submit({{1}}, [](const auto&) {});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
}

TEST_F(EmbeddingEngineTest, AStepMustHoldTheLongestText) {
  const auto engine = EmbeddingEngine::create({.max_batched_tokens = 7}, encoder_, *device_);
  ASSERT_FALSE(engine);
  EXPECT_THAT(engine.error().message, HasSubstr("8 tokens"));
}

}  // namespace
}  // namespace saccade
