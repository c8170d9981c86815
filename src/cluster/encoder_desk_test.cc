// What an encoder takes, refuses, makes once for all, and gives back.
#include "cluster/encoder_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace saccade::cluster {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kEpoch = 7;
constexpr std::uint64_t kRow = 8;

class Desk : public testing::Test, public ImageMaker, public RequesterLink {
 protected:
  void make(Job job) override { jobs.push_back(std::move(job)); }
  void let_go(const Digest& key) override { left.push_back(key); }
  EncodeCost cost() const override { return {0, 1, 0}; }
  void accepted(CallId call, const Accepted& said) override { taken[call] = said; }
  void refused(CallId call, Refusal refusal, Nanos, const std::string& text) override {
    refusals[call] = {refusal, text};
  }
  void send(CallId call, std::shared_ptr<const MadeRows> rows, const RowsEnd&) override {
    sent[call] = std::move(rows);
  }

  EncoderDesk& desk() {
    if (!desk_) {
      settings.self = {kProtocol, "e", kEpoch, "tower", "numerics", kRow};
      settings.max_rows = 100;
      desk_ = std::make_unique<EncoderDesk>(clock, timers, *this, *this, settings);
    }
    return *desk_;
  }
  static OrderHead head(std::uint8_t image, std::int64_t rows = 10) {
    OrderHead head;
    head.requester = "pd";
    head.epoch = kEpoch;
    head.stream = image;
    head.fingerprint = "tower";
    head.numerics = "numerics";
    head.key[0] = image;
    head.rows = rows;
    head.file_bytes = {4, 3};
    return head;
  }
  void give_media(CallId call) {
    desk().media(call, "abcde");
    desk().media(call, "fg");
    desk().media_end(call);
  }
  static Made rows(std::int64_t count) {
    return {std::vector<std::byte>(static_cast<std::size_t>(count) * kRow), 1, 2};
  }

  VirtualClock clock;
  TimerQueue timers;
  DeskSettings settings;
  std::vector<Job> jobs;
  std::vector<Digest> left;
  std::map<CallId, Accepted> taken;
  std::map<CallId, std::pair<Refusal, std::string>> refusals;
  std::map<CallId, std::shared_ptr<const MadeRows>> sent;

 private:
  std::unique_ptr<EncoderDesk> desk_;
};

TEST_F(Desk, FilesComeApartAsTheyWere) {
  desk().ask(1, head(1));
  ASSERT_TRUE(taken.contains(1));
  EXPECT_EQ(taken[1].predicted_ms, 10);
  EXPECT_EQ(desk().media_bytes(), 7u);
  give_media(1);
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].files, (std::vector<std::string>{"abcd", "efg"}));
  jobs.clear();
  EXPECT_EQ(desk().media_bytes(), 0u);
  desk().made(head(1).key, rows(10));
  ASSERT_TRUE(sent.contains(1));
  desk().done(1);
  EXPECT_EQ(desk().calls(), 0u);
  EXPECT_EQ(desk().images(), 0u);
  EXPECT_EQ(timers.waiting(), 0u);
}

TEST_F(Desk, AnImageIsMadeOnceForAllWhoAsk) {
  for (CallId call = 1; call <= 3; ++call) {
    desk().ask(call, head(1));
    give_media(call);
  }
  EXPECT_EQ(jobs.size(), 1u);
  EXPECT_EQ(desk().stats().joined, 2u);
  desk().gone(1);  // who asked first leaves: the others still wait
  EXPECT_TRUE(left.empty());
  desk().made(head(1).key, rows(10));
  EXPECT_EQ(sent.size(), 2u);
  desk().ask(4, head(1));
  EXPECT_TRUE(taken[4].cached);
  EXPECT_TRUE(sent.contains(4));
}

TEST_F(Desk, WhoseMediaAreStillComingGetsTheRowsOfAnother) {
  desk().ask(1, head(1));
  desk().ask(2, head(1));
  give_media(1);
  desk().media(2, "abc");
  desk().made(head(1).key, rows(10));
  EXPECT_TRUE(sent.contains(2));
  desk().media(2, "defg");  // was on its way
  desk().media_end(2);
  EXPECT_TRUE(refusals.empty());
  desk().done(1);
  desk().done(2);
  EXPECT_EQ(desk().stats().sent, 2u);
}

TEST_F(Desk, WhatNobodyWaitsForIsNotMade) {
  desk().ask(1, head(1));
  desk().gone(1);  // before its media
  EXPECT_EQ(desk().images(), 0u);
  EXPECT_EQ(desk().media_bytes(), 0u);
  desk().ask(2, head(1));
  give_media(2);
  desk().gone(2);
  EXPECT_EQ(left.size(), 1u);
  desk().failed(head(1).key, {ErrorCode::kCancelled, "", {}});
  EXPECT_EQ(desk().images(), 0u);
  EXPECT_EQ(desk().cache().used_bytes(), 0u);
  EXPECT_TRUE(refusals.empty());
}

TEST_F(Desk, RefusesBeforeMediaAreRead) {
  settings.row_bytes = 20 * kRow;
  settings.media_bytes = 16;
  desk().ask(1, head(1));
  desk().ask(2, head(2));
  desk().ask(3, head(3));  // 7 bytes of media each, 10 rows each
  EXPECT_EQ(refusals[3].first, Refusal::kOverloaded);
  EXPECT_THAT(refusals[3].second, HasSubstr("14 bytes of media are here, the limit is 16"));
  give_media(1);
  jobs.clear();
  desk().ask(4, head(4));
  EXPECT_EQ(refusals[4].first, Refusal::kOverloaded);
  EXPECT_THAT(refusals[4].second, HasSubstr("160 bytes of rows are here, the limit is 160"));
  // Kept rows make room, those that are being sent do not.
  desk().made(head(1).key, rows(10));
  desk().ask(5, head(5));
  EXPECT_EQ(refusals[5].first, Refusal::kOverloaded);
  desk().done(1);
  sent.clear();
  desk().ask(6, head(6));
  EXPECT_TRUE(taken.contains(6));
}

TEST_F(Desk, SaysWhyItDoesNotTakeAnOrder) {
  const auto refusal = [&](CallId call, const OrderHead& order) {
    desk().ask(call, order);
    EXPECT_FALSE(taken.contains(call));
    return refusals[call];
  };
  OrderHead order = head(1);
  order.epoch = 8;
  EXPECT_THAT(refusal(1, order).second, HasSubstr("has been restarted"));
  order = head(1);
  order.fingerprint = "another";
  EXPECT_EQ(refusal(2, order).first, Refusal::kIncompatible);
  order = head(1);
  order.numerics = "others";
  EXPECT_EQ(refusal(3, order).first, Refusal::kIncompatible);
  order.any_numerics = true;
  desk().ask(4, order);
  EXPECT_TRUE(taken.contains(4));
  EXPECT_EQ(refusal(5, head(2, 101)).first, Refusal::kTooLarge);
  EXPECT_EQ(refusal(6, head(2, -1)).first, Refusal::kTooLarge);
  order = head(2);
  order.file_bytes = {};
  EXPECT_EQ(refusal(7, order).first, Refusal::kTooLarge);
  order.file_bytes = {~std::uint64_t{0}, ~std::uint64_t{0}};
  EXPECT_EQ(refusal(8, order).first, Refusal::kTooLarge);
  desk().drain();
  EXPECT_EQ(refusal(9, head(3)).first, Refusal::kDraining);
}

TEST_F(Desk, MediaThatAreNotAsAnnouncedAreRefused) {
  desk().ask(1, head(1));
  desk().media(1, "abcdefgh");
  EXPECT_EQ(refusals[1].first, Refusal::kCorrupt);
  desk().ask(2, head(2));
  desk().media(2, "abc");
  desk().media_end(2);
  EXPECT_EQ(refusals[2].first, Refusal::kCorrupt);
  EXPECT_EQ(desk().images(), 0u);
  EXPECT_EQ(desk().media_bytes(), 0u);
}

TEST_F(Desk, NothingIsHeldForThoseWhoDoNotComeForIt) {
  desk().ask(1, head(1));
  clock.advance(settings.media_time);
  timers.run_due(clock.now());
  EXPECT_EQ(refusals[1].first, Refusal::kDeadline);  // no media
  OrderHead order = head(2);
  order.left = kSecond;
  desk().ask(2, order);
  give_media(2);
  clock.advance(kSecond);
  timers.run_due(clock.now());
  EXPECT_EQ(refusals[2].first, Refusal::kDeadline);
  EXPECT_EQ(left.size(), 1u);
  desk().ask(3, head(3));
  give_media(3);
  desk().made(head(3).key, rows(10));
  clock.advance(settings.lease);
  timers.run_due(clock.now());
  EXPECT_EQ(refusals[3].first, Refusal::kDeadline);  // the rows were not taken
  EXPECT_EQ(desk().calls(), 0u);
}

TEST_F(Desk, AFailureIsToldToAllWhoWait) {
  for (CallId call = 1; call <= 2; ++call) {
    desk().ask(call, head(1));
    give_media(call);
  }
  desk().failed(head(1).key, {ErrorCode::kUndecodable, "no image", {}});
  EXPECT_EQ(refusals[1].first, Refusal::kBadMedia);
  EXPECT_EQ(refusals[2].first, Refusal::kBadMedia);
  EXPECT_EQ(desk().images(), 0u);
  EXPECT_EQ(desk().cache().used_bytes(), 0u);
}

TEST_F(Desk, TheBacklogIsWhatIsBeingMade) {
  desk().ask(1, head(1, 30));
  desk().ask(2, head(2, 50));
  EXPECT_EQ(desk().report("pd").backlog_ms, 0);  // their media have not come
  clock.advance(kMillisecond);
  give_media(1);
  give_media(2);
  EXPECT_EQ(desk().report("pd").backlog_ms, 80);
  EXPECT_EQ(desk().report("pd").last_seen, 2u);
  EXPECT_EQ(desk().report("another").last_seen, 0u);
  clock.advance(20 * kMillisecond);
  EXPECT_EQ(desk().report("pd").backlog_ms, 60);
}

}  // namespace
}  // namespace saccade::cluster
