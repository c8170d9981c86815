// Which encoder is asked: by predicted finish, own accounting, health and where an image belongs.
#include "cluster/encoder_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace saccade::cluster {
namespace {

Digest content_of(std::uint64_t number) {
  Digest digest{};
  const std::uint64_t mixed = mix64(number);
  std::memcpy(digest.data(), &mixed, sizeof mixed);
  return digest;
}

Order order_of(std::uint64_t image, std::int64_t rows) {
  Order order;
  order.key = order.name = order.content = content_of(image);
  order.rows = rows;
  order.row_bytes = 8;
  return order;
}

Greeting greeting(std::uint64_t epoch) { return {kProtocol, "e", epoch, "tower", "numerics", 8}; }

class Pool : public testing::Test {
 protected:
  void SetUp() override {
    for (int e = 0; e < 3; ++e) {
      pool_.add("encoder " + std::to_string(e));
      EXPECT_EQ(pool_.connected(e, greeting(1 + static_cast<std::uint64_t>(e))), "");
      report(e, 0);
    }
  }
  void report(int encoder, double backlog_ms, std::uint64_t last_seen = 0, double b = 1) {
    Report said;
    said.backlog_ms = backlog_ms;
    said.cost = {0, b, 0};
    said.last_seen = last_seen;
    pool_.reported(encoder, said);
  }
  VirtualClock clock_;
  EncoderPool pool_{clock_, {greeting(0), true}};
};

TEST_F(Pool, WhatWasDispatchedCountsUntilAReportHasSeenIt) {
  report(0, 50);
  const std::uint64_t stream = pool_.dispatched(0, order_of(1, 100));
  EXPECT_EQ(pool_.backlog(0), 150 * kMillisecond);
  report(0, 50, stream - 1);  // sent before it came there
  EXPECT_EQ(pool_.backlog(0), 150 * kMillisecond);
  report(0, 140, stream);
  EXPECT_EQ(pool_.backlog(0), 140 * kMillisecond);
  clock_.advance(100 * kMillisecond);  // a report grows old
  EXPECT_EQ(pool_.backlog(0), 40 * kMillisecond);
  clock_.advance(kSecond);
  EXPECT_EQ(pool_.backlog(0), 0);
  const std::uint64_t lost = pool_.dispatched(0, order_of(2, 100));
  pool_.ended(0, lost, Outcome::kNeutral);
  EXPECT_EQ(pool_.backlog(0), 0);
}

TEST_F(Pool, TheFirstToFinishIsChosen) {
  report(0, 300);
  report(1, 0, 0, 5);  // slow
  report(2, 100);
  EXPECT_EQ(pool_.best(order_of(1, 10), {})->encoder, 1);    // 50 ms against 110
  EXPECT_EQ(pool_.best(order_of(1, 100), {})->encoder, 2);   // 500 ms against 200
  EXPECT_EQ(pool_.best(order_of(1, 100), {2})->encoder, 0);  // 400 ms
  EXPECT_EQ(pool_.best(order_of(1, 100), {0, 1, 2}), std::nullopt);
}

TEST_F(Pool, EqualImagesMeetWhileThatCostsNothing) {
  std::map<int, int> counts;
  for (std::uint64_t image = 0; image < 300; ++image) {
    const int first = pool_.best(order_of(image, 10), {})->encoder;
    EXPECT_EQ(pool_.best(order_of(image, 10), {})->encoder, first);
    ++counts[first];
    // Without one encoder only its images move.
    for (int gone = 0; gone < 3; ++gone) {
      if (gone == first) continue;
      EXPECT_EQ(pool_.best(order_of(image, 10), {gone})->encoder, first);
    }
  }
  for (int e = 0; e < 3; ++e) EXPECT_GT(counts[e], 60) << e;
}

TEST_F(Pool, AnImageGoesHomeForAsMuchAsHitsHaveSaved) {
  const Order order = order_of(7, 100);
  const int home = pool_.best(order, {})->encoder;
  for (int i = 0; i < 200; ++i) pool_.accepted(true);  // every one was a hit
  report(home, 60);
  EXPECT_EQ(pool_.best(order, {})->encoder, home);  // 60 ms of waiting against 100 of encoding
  report(home, 160);
  EXPECT_NE(pool_.best(order, {})->encoder, home);
}

TEST_F(Pool, AWayThatWasLateByChanceDoesNotMoveAnImage) {
  const Order order = order_of(7, 100);
  const auto first = pool_.best(order, {});
  EXPECT_FALSE(first->away);
  report(first->encoder, 4);
  EXPECT_EQ(pool_.best(order, {})->encoder, first->encoder);
  report(first->encoder, 6);
  EXPECT_NE(pool_.best(order, {})->encoder, first->encoder);
  EXPECT_TRUE(pool_.best(order, {})->away);
}

TEST_F(Pool, TwoFailuresMeanOneAtATimeUntilThreeAnswers) {
  const Order order = order_of(1, 10);
  for (int i = 0; i < 2; ++i) pool_.ended(0, pool_.dispatched(0, order), Outcome::kFailure);
  EXPECT_EQ(pool_.state(0), EncoderPool::State::kProbation);
  EXPECT_TRUE(pool_.may_be_asked(0));
  const std::uint64_t one = pool_.dispatched(0, order);
  EXPECT_FALSE(pool_.may_be_asked(0));
  pool_.ended(0, one, Outcome::kRows);
  for (int i = 0; i < 2; ++i) pool_.ended(0, pool_.dispatched(0, order), Outcome::kRows);
  EXPECT_EQ(pool_.state(0), EncoderPool::State::kUp);
}

TEST_F(Pool, RefusalsForLackOfRoomAreNoFault) {
  for (int i = 0; i < 10; ++i)
    pool_.ended(0, pool_.dispatched(0, order_of(1, 10)), Outcome::kNeutral);
  EXPECT_EQ(pool_.state(0), EncoderPool::State::kUp);
}

TEST_F(Pool, AnotherEpochIsAnotherEncoder) {
  pool_.dispatched(0, order_of(1, 1000));
  pool_.quarantine(0);
  EXPECT_FALSE(pool_.may_be_asked(0));
  pool_.disconnected(0, true);
  EXPECT_EQ(pool_.connected(0, greeting(1)), "its rows were wrong");  // the same process
  EXPECT_FALSE(pool_.may_be_asked(0));
  pool_.disconnected(0, false);
  EXPECT_EQ(pool_.connected(0, greeting(9)), "");
  EXPECT_TRUE(pool_.may_be_asked(0));
  EXPECT_EQ(pool_.backlog(0), 0);
}

TEST_F(Pool, WhoWouldMakeOtherRowsIsNotAsked) {
  Greeting other = greeting(1);
  other.fingerprint = "another tower";
  EXPECT_NE(pool_.connected(0, other).find("its tower is"), std::string::npos);
  EXPECT_EQ(pool_.state(0), EncoderPool::State::kIncompatible);
  other = greeting(1);
  other.numerics = "others";
  EXPECT_NE(pool_.connected(0, other).find("--numerics any"), std::string::npos);
  other = greeting(1);
  other.protocol = 2;
  EXPECT_NE(pool_.connected(0, other).find("protocol 2"), std::string::npos);
  other = greeting(1);
  other.row_bytes = 4;
  EXPECT_NE(pool_.connected(0, other).find("4 bytes"), std::string::npos);
  EXPECT_FALSE(pool_.may_be_asked(0));

  EncoderPool any(clock_, {greeting(0), false});
  any.add("e");
  other = greeting(1);
  other.numerics = "others";
  EXPECT_EQ(any.connected(0, other), "");
}

}  // namespace
}  // namespace saccade::cluster
