// What becomes of an image, answer by answer: who is asked next, what is stale, when a second one
// begins, and what two unequal answers mean.
#include "cluster/item_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace saccade::cluster {
namespace {

constexpr std::uint64_t kItemRow = 4;

class Items : public testing::Test, public EncoderLink, public RowsConsumer {
 protected:
  void SetUp() override { make({}); }
  void make(ItemSettings settings) {
    table.reset();
    pool = std::make_unique<EncoderPool>(
        clock, PoolSettings{{kProtocol, "pd", 0, "tower", "numerics", kItemRow}, true});
    for (int e = 0; e < 2; ++e) pool->add("e" + std::to_string(e));
    table = std::make_unique<ItemTable>(clock, timers, rng, *pool, *this, *this, settings);
    for (int e = 0; e < 2; ++e) connect(e, 10 + static_cast<std::uint64_t>(e));
    asked.clear();
    cancelled.clear();
  }
  void connect(int encoder, std::uint64_t epoch) {
    table->connected(encoder, {kProtocol, "e", epoch, "tower", "numerics", kItemRow});
  }
  void want(std::uint8_t image = 1, Nanos deadline = 0) {
    Order order;
    order.key[0] = image;
    order.name = order.content = order.key;
    order.rows = 2;
    order.row_bytes = kItemRow;
    table->want(++ticket, order, deadline);
  }
  void advance(Nanos duration) {
    // Encoders that are alive say so all the time.
    for (const Nanos end = clock.now() + duration; clock.now() < end;) {
      clock.advance(std::min<Nanos>(end - clock.now(), 100 * kMillisecond));
      for (int e = 0; e < 2; ++e)
        if (reporting[static_cast<std::size_t>(e)]) table->reported(e, {});
      timers.run_due(clock.now());
    }
  }
  // The whole of a good answer.
  void answer(const AttemptId& id, char fill = 'x') {
    table->accepted(id, {0, 1, false});
    table->offered(id, 2 * kItemRow);
    finish(id, fill);
  }
  void finish(const AttemptId& id, char fill = 'x', bool finite = true) {
    const std::string rows(2 * kItemRow, fill);
    for (auto& [attempt, pages] : receiving)
      if (attempt == id) std::memcpy(pages->bytes.data(), rows.data(), rows.size());
    std::erase_if(receiving, [&](const auto& of) { return of.first == id; });
    table->received(id, {sha256(rows), 0, 0}, sha256(rows), finite);
  }
  std::uint64_t count(Source source) const {
    return table->stats().items[static_cast<std::size_t>(source)];
  }
  std::uint64_t count(Failure failure) const {
    return table->stats().failures[static_cast<std::size_t>(failure)];
  }

  void ask(const AttemptId& attempt, const Order&, Nanos) override { asked.push_back(attempt); }
  void receive(const AttemptId& attempt, std::shared_ptr<RowPages> into) override {
    receiving.emplace_back(attempt, std::move(into));
  }
  void cancel(const AttemptId& attempt) override { cancelled.push_back(attempt); }
  LocalLoad local() const override { return {tower, kSecond, {}}; }  // busy: the last choice
  void encode_here(const Digest&, Ticket of, bool beside) override {
    here.push_back(of);
    digests_wanted += beside ? 1 : 0;
  }
  void deliver(const Digest&, Ticket of, Rows rows) override {
    delivered.emplace_back(of, static_cast<char>(rows->bytes.front()));
  }
  void fail(const Digest&, Ticket of, const Error& error) override {
    failed.emplace_back(of, error);
  }
  void verify(const Order&, Rows, const AttemptId& of) override { verifying.push_back(of); }

  VirtualClock clock;
  TimerQueue timers;
  Rng rng{1};
  bool tower = true;
  std::array<bool, 2> reporting{true, true};
  std::unique_ptr<EncoderPool> pool;
  std::unique_ptr<ItemTable> table;
  Ticket ticket = 0;
  std::vector<AttemptId> asked;
  std::vector<AttemptId> cancelled;
  std::vector<std::pair<AttemptId, std::shared_ptr<RowPages>>> receiving;
  std::vector<Ticket> here;
  int digests_wanted = 0;
  std::vector<std::pair<Ticket, char>> delivered;
  std::vector<std::pair<Ticket, Error>> failed;
  std::vector<AttemptId> verifying;
};

TEST_F(Items, RowsComeFromTheEncoderThatWasAsked) {
  want();
  ASSERT_EQ(asked.size(), 1u);
  answer(asked[0]);
  EXPECT_THAT(delivered, testing::ElementsAre(std::pair<Ticket, char>(1, 'x')));
  EXPECT_EQ(count(Source::kRemote), 1u);
  EXPECT_EQ(table->items(), 0u);
  EXPECT_EQ(table->receiving_bytes(), 0u);
}

TEST_F(Items, AFailureAsksTheNextAndThenThisProcess) {
  want();
  table->refused(asked[0], Refusal::kInternal, 0, "broken");
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_NE(asked[1].encoder, asked[0].encoder);
  table->lost(asked[1], "cut");
  EXPECT_EQ(here.size(), 1u);
  table->made_here(Digest{1}, ticket, std::nullopt);
  EXPECT_EQ(count(Source::kLocal), 1u);
  EXPECT_EQ(count(Failure::kRefused), 1u);
  EXPECT_EQ(count(Failure::kLost), 1u);
}

TEST_F(Items, AnswersOfAnotherTimeAreStale) {
  want();
  std::vector<AttemptId> others(3, asked[0]);
  others[0].epoch += 1;
  others[1].stream += 1;
  others[2].encoder = 1 - others[2].encoder;
  for (const AttemptId& other : others) {
    table->accepted(other, {});
    table->offered(other, 2 * kItemRow);
    finish(other, 'y');
  }
  EXPECT_EQ(table->stats().stale, 9u);
  EXPECT_TRUE(delivered.empty());
  answer(asked[0]);
  EXPECT_EQ(delivered.size(), 1u);
  finish(asked[0]);  // once more
  EXPECT_EQ(table->stats().stale, 10u);
  EXPECT_EQ(delivered.size(), 1u);
}

TEST_F(Items, RowsThatAreNotGoodAreNotTaken) {
  want();
  table->accepted(asked[0], {0, 1, false});
  table->offered(asked[0], 2 * kItemRow);
  table->received(asked[0], {sha256("a"), 0, 0}, sha256("b"), true);
  EXPECT_EQ(count(Failure::kDigest), 1u);
  ASSERT_EQ(asked.size(), 2u);
  table->accepted(asked[1], {0, 1, false});
  table->offered(asked[1], 2 * kItemRow);
  finish(asked[1], 'x', false);
  EXPECT_EQ(count(Failure::kNotFinite), 1u);
  EXPECT_EQ(here.size(), 1u);
  want(2);
  table->offered(asked[2], 3 * kItemRow);
  EXPECT_EQ(count(Failure::kShape), 1u);
  EXPECT_TRUE(delivered.empty());
}

TEST_F(Items, ALateOneGetsAnotherBesideIt) {
  want();
  table->accepted(asked[0], {1000, 1000, false});  // three times two seconds
  advance(5900 * kMillisecond);
  EXPECT_TRUE(here.empty());
  advance(200 * kMillisecond);
  EXPECT_EQ(here.size(), 1u);
  EXPECT_EQ(digests_wanted, 1);
  EXPECT_EQ(table->stats().hedges, 1u);
  EXPECT_TRUE(cancelled.empty());
  table->offered(asked[0], 2 * kItemRow);
  finish(asked[0]);  // the first one is first after all
  EXPECT_EQ(delivered.size(), 1u);
  EXPECT_EQ(table->stats().hedge_wins, 0u);
  table->made_here(Digest{1}, ticket, std::nullopt);
  EXPECT_EQ(count(Source::kRemote), 1u);
  EXPECT_EQ(count(Source::kHedge), 0u);
}

TEST_F(Items, NobodyIsWaitedForAllDay) {
  want();
  table->accepted(asked[0], {1e300, 1e300, false});
  advance(179 * kSecond);
  EXPECT_TRUE(here.empty());
  advance(2 * kSecond);  // three times a minute, the most that is believed
  EXPECT_EQ(here.size(), 1u);
}

TEST_F(Items, TheDeadlineBringsTheSecondOneForward) {
  want(1, clock.now() + kSecond);
  table->accepted(asked[0], {100, 100, false});
  advance(940 * kMillisecond);
  EXPECT_TRUE(here.empty());
  advance(60 * kMillisecond);
  EXPECT_EQ(here.size(), 1u);
}

TEST_F(Items, FewAreHedgedWhenAllAreLate) {
  ItemSettings settings;
  settings.hedge_burst = 2;
  make(settings);
  for (std::uint8_t image = 1; image <= 10; ++image) {
    want(image);
    table->accepted(asked.back(), {0, 0, false});
  }
  advance(10 * kSecond);
  EXPECT_EQ(table->stats().hedges, 3u);  // two, and a tenth of ten
}

TEST_F(Items, TwoAnswersThatDifferEndAnEncoder) {
  want();
  table->accepted(asked[0], {0, 0, false});
  table->offered(asked[0], 2 * kItemRow);
  advance(2100 * kMillisecond);
  ASSERT_EQ(here.size(), 1u);
  table->made_here(Digest{1}, ticket, sha256(std::string(2 * kItemRow, 'x')));
  EXPECT_EQ(count(Source::kHedge), 1u);
  ASSERT_EQ(cancelled.size(), 1u);
  finish(asked[0], 'x');  // was on its way already: equal
  EXPECT_EQ(table->stats().mismatches, 0u);

  want(2);
  const AttemptId second = asked.back();
  table->accepted(second, {0, 0, false});
  table->offered(second, 2 * kItemRow);
  advance(2100 * kMillisecond);
  table->made_here(Digest{2}, ticket, sha256(std::string(2 * kItemRow, 'x')));
  finish(second, 'y');
  EXPECT_EQ(table->stats().mismatches, 1u);
  EXPECT_EQ(pool->state(second.encoder), EncoderPool::State::kQuarantined);
}

TEST_F(Items, ASilentEncodersImagesBeginElsewhereToo) {
  want();
  table->accepted(asked[0], {0, 60'000, false});
  reporting[static_cast<std::size_t>(asked[0].encoder)] = false;
  advance(2200 * kMillisecond);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(cancelled.empty());
  answer(asked[1]);
  EXPECT_EQ(delivered.size(), 1u);
  EXPECT_EQ(cancelled, (std::vector<AttemptId>{asked[0]}));
}

TEST_F(Items, PagesBoundWhatIsOnItsWay) {
  ItemSettings settings;
  settings.receive_bytes = 3 * kItemRow;
  make(settings);
  for (std::uint8_t image = 1; image <= 3; ++image) {
    want(image);
    table->accepted(asked.back(), {0, 1, false});
    table->offered(asked.back(), 2 * kItemRow);
  }
  EXPECT_EQ(receiving.size(), 1u);
  EXPECT_LE(table->receiving_bytes(), 3 * kItemRow);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(receiving.size(), 1u) << i;
    finish(receiving.front().first);
    advance(100 * kMillisecond);
  }
  EXPECT_EQ(delivered.size(), 3u);
  EXPECT_EQ(table->receiving_bytes(), 0u);
}

TEST_F(Items, WhatIsNoImageIsSaidToBeNoneAfterALookHere) {
  want();
  table->refused(asked[0], Refusal::kBadMedia, 0, "no image");
  EXPECT_EQ(asked.size(), 1u);
  ASSERT_EQ(here.size(), 1u);
  table->failed_here(Digest{1}, ticket, {ErrorCode::kUndecodable, "image 0: no image", {}});
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].second.code, ErrorCode::kUndecodable);
}

TEST_F(Items, WithoutATowerRoomIsWaitedForAndThenRefused) {
  tower = false;
  ItemSettings settings;
  settings.fallback = false;
  make(settings);
  want();
  table->refused(asked[0], Refusal::kOverloaded, 100 * kMillisecond, "full");
  ASSERT_EQ(asked.size(), 2u);
  table->refused(asked[1], Refusal::kOverloaded, 100 * kMillisecond, "full");
  EXPECT_TRUE(failed.empty());
  advance(150 * kMillisecond);
  EXPECT_EQ(asked.size(), 3u);
  for (int i = 0; i < 100 && failed.empty(); ++i) {
    table->refused(asked.back(), Refusal::kOverloaded, 100 * kMillisecond, "full");
    advance(200 * kMillisecond);
  }
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].second.code, ErrorCode::kUnavailable);
  EXPECT_LE(seconds(clock.now()), 15.0);

  table->disconnected(0, "gone");
  table->disconnected(1, "gone");
  want(2);
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_THAT(failed[1].second.message, testing::HasSubstr("no encoder can be reached"));
}

TEST_F(Items, ALeavingClientEndsEverything) {
  want();
  const AttemptId id = asked[0];
  table->accepted(id, {0, 1, false});
  table->offered(id, 2 * kItemRow);
  table->unwant(Digest{1}, ticket);
  receiving.clear();
  EXPECT_EQ(cancelled, (std::vector<AttemptId>{id}));
  EXPECT_EQ(table->attempts(), 0u);
  EXPECT_EQ(table->receiving_bytes(), 0u);
  EXPECT_EQ(pool->open(id.encoder), 0);
  finish(id);
  EXPECT_TRUE(delivered.empty());
}

}  // namespace
}  // namespace saccade::cluster
