// Several devices as one, over devices that punish: their memory is closed to the host, addresses
// of one mean nothing to another, and work runs late. (saccade_ops_on_team_test has the ops.)
#include "ops/team/team_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "ops/readback.h"
#include "tests/support/deferred_device.h"

namespace saccade {
namespace {

class TeamDeviceTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    std::vector<std::unique_ptr<Device>> devices;
    for (int rank = 0; rank < kRanks; ++rank)
      devices.push_back(make_deferred_device("reference", static_cast<std::uint64_t>(rank + 5)));
    device = std::make_unique<TeamDevice>(std::move(devices), make_thread_collectives(kRanks));
    step = static_cast<TeamStream*>(&device->lane(Lane::kStep));
    encode = static_cast<TeamStream*>(&device->lane(Lane::kEncode));
  }
  Buffer make(std::int64_t count, float first = 1) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), first);
    Buffer made = *device->allocate(values.size() * sizeof(float), Space::kDevice);
    step->upload(View(values.data(), DType::kF32, 1, count), made.view(DType::kF32, 1, count));
    return made;
  }
  // What every rank has in the place of `view`.
  std::vector<std::vector<float>> of_ranks(View view) {
    std::vector<std::vector<float>> all;
    for (int rank = 0; rank < kRanks; ++rank) {
      Buffer staging;
      const View own = *readable(step->rank(rank), step->of(rank, view), staging);
      auto& values = all.emplace_back();
      for (std::int64_t row = 0; row < own.rows(); ++row)
        values.insert(values.end(), own.row<float>(row), own.row<float>(row) + own.cols());
    }
    return all;
  }

  std::unique_ptr<TeamDevice> device;
  TeamStream* step = nullptr;
  TeamStream* encode = nullptr;
};
using TeamDeviceDeathTest = TeamDeviceTest;

// Pieces of buffers and of lists too.
TEST_F(TeamDeviceTest, EveryRankWorksOnItsOwnMemory) {
  const Buffer x = make(12);
  const Buffer y = make(12, 100);
  const DeviceInts rows = step->upload(std::vector<std::int32_t>{9, 9, 2, 0, 9});
  const View to = y.view(DType::kF32, 4, 3).row_range(1, 3);
  step->mix_rows({.x = x.view(DType::kF32, 4, 3).row_range(1, 4).col_range(1, 3),
                  .rows = rows.slice(2, 2),
                  .weights = {},
                  .out = to.col_range(0, 2)});
  step->retire();
  const std::vector<float> want = {11, 12, 105, 5, 6, 108};
  EXPECT_EQ(of_ranks(to), (std::vector<std::vector<float>>(kRanks, want)));
  std::vector<const std::byte*> places;
  for (int rank = 0; rank < kRanks; ++rank) places.push_back(step->of(rank, to).data());
  EXPECT_EQ(places[0], to.data());
  EXPECT_NE(places[1], places[0]);
  EXPECT_NE(places[2], places[1]);
}

// What one lane records holds for all ranks of another; and an event is over when the last is.
TEST_F(TeamDeviceTest, EventsAreOfAllRanks) {
  for (int round = 0; round < 20; ++round) {
    const Buffer x = make(8);
    const Buffer y = *device->allocate(8 * sizeof(float), Space::kDevice);
    const View from = x.view(DType::kF32, 1, 8);
    const View to = y.view(DType::kF32, 1, 8);
    step->add(from, from, 1);
    encode->wait(step->record());
    encode->copy(from, to);
    const Event done = encode->record();
    step->wait(done);
    step->add(to, from, 1);
    // One rank has more to do than the others.
    bool ran = false;
    auto& longest = static_cast<DeferredStream&>(step->rank(round % kRanks));
    for (int i = 0; i < 5; ++i) longest.launch([] {});
    longest.launch([&] { ran = true; });
    const Event last = step->record();
    while (!last.passed()) {
    }
    EXPECT_TRUE(ran);
    EXPECT_TRUE(done.passed());
    const std::vector<float> want = {4, 8, 12, 16, 20, 24, 28, 32};
    EXPECT_EQ(of_ranks(from), (std::vector<std::vector<float>>(kRanks, want)));
  }
  EXPECT_TRUE(Event().passed());
  step->wait(Event());  // one that nobody made
}

// The host's memory is read during the call, and a download is the first rank's.
TEST_F(TeamDeviceTest, UploadsAndDownloads) {
  std::vector<float> values = {1, 2, 3};
  const Buffer x = *device->allocate(3 * sizeof(float), Space::kDevice);
  const Buffer host = *device->allocate(3 * sizeof(float), Space::kHost);
  const View view = x.view(DType::kF32, 1, 3);
  step->upload(View(values.data(), DType::kF32, 1, 3), view);
  values = {7, 7, 7};
  step->rank(1).add(step->of(1, view), step->of(1, view), 1);
  step->download(view, host.view(DType::kF32, 1, 3));
  step->synchronize();
  EXPECT_EQ(std::memcmp(host.data(), std::vector<float>({1, 2, 3}).data(), 12), 0);
  EXPECT_EQ(of_ranks(view), (std::vector<std::vector<float>>{{1, 2, 3}, {2, 4, 6}, {1, 2, 3}}));
}

// Counts are kept by every rank: penalties are the same in the next step. A slot has the token on
// all.
TEST_F(TeamDeviceTest, SamplingIsTheSameOnAllRanks) {
  constexpr std::int64_t kVocab = 6;
  const Buffer logits = make(kVocab, 0);
  const Buffer stats = *device->allocate(sizeof(RowStats), Space::kDevice);
  const Buffer sampled = *device->allocate(sizeof(SampledToken), Space::kDevice);
  const Buffer last = *device->allocate(2 * sizeof(std::int32_t), Space::kDevice);
  const auto counts = device->count_tokens(std::vector<std::int32_t>{1});
  SamplingRow row;
  row.slot = 1;
  row.counts = counts.get();
  row.frequency_penalty = 1.5F;
  std::vector<std::int32_t> tokens;
  for (int token = 0; token < 4; ++token) {
    const View view = logits.view(DType::kF32, 1, kVocab);
    const View its_stats = stats.view(DType::kU8, 1, sizeof(RowStats));
    step->row_stats(view, its_stats);
    step->sample({.logits = view,
                  .stats = its_stats,
                  .rows = {&row, 1},
                  .last_tokens = last.view(DType::kI32, 2, 1),
                  .sampled = sampled.view(DType::kU8, 1, sizeof(SampledToken)),
                  .alternatives = {}});
    std::vector<std::int32_t> each;
    for (int rank = 0; rank < kRanks; ++rank) {
      Buffer staging;
      const View own =
          *readable(step->rank(rank), step->of(rank, last.view(DType::kI32, 2, 1)), staging);
      each.push_back(*own.row<std::int32_t>(1));
    }
    EXPECT_EQ(each, std::vector<std::int32_t>(kRanks, each[0])) << token;
    tokens.push_back(each[0]);
  }
  EXPECT_EQ(tokens, std::vector<std::int32_t>({5, 4, 5, 3}));
}

TEST_F(TeamDeviceTest, MemoryIsFreedOnEveryRank) {
  for (int round = 0; round < 3; ++round) {
    Buffer x = make(1000);
    const View view = x.view(DType::kF32, 1, 1000);
    step->softcap(view, 30);
    step->synchronize();
    x.reset();
  }
  EXPECT_EQ(device->allocate(0, Space::kDevice)->bytes(), 0u);
  EXPECT_GT(device->free_bytes(), 0);
}

TEST_F(TeamDeviceDeathTest, WhatIsInNoMemoryOfTheTeam) {
  Buffer x = make(4);
  const View view = x.view(DType::kF32, 1, 4);
  step->synchronize();
  x.reset();
  EXPECT_DEATH(step->softcap(view, 30), "in no memory of the team");
  EXPECT_DEATH(step->upload(view, view), "in no memory of the team");
}

// Lists are good until retire() and on their own lane.
TEST_F(TeamDeviceDeathTest, AListAfterItsLife) {
  const DeviceInts rows = step->upload(std::vector<std::int32_t>{2});
  EXPECT_DEATH(encode->of(1, rows), "in no memory of the team");
  step->retire();
  EXPECT_DEATH(step->of(1, rows), "in no memory of the team");
  step->synchronize();
}

// Of the host's memory, which they share, a rank may take its part.
TEST(TeamOfCpus, SharesTheHostsMemory) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int rank = 0; rank < 2; ++rank) devices.push_back(*make_cpu_device(1));
  TeamDevice team(std::move(devices), make_thread_collectives(2));
  EXPECT_EQ(team.total_bytes(), 0);
  EXPECT_EQ(team.space(), Space::kHost);
  const auto whole = static_cast<double>(team.rank(0).free_bytes());
  EXPECT_NEAR(static_cast<double>(team.free_bytes()), whole / 2, whole / 10);
  EXPECT_EQ(team.description(), team.rank(0).description() + ", on each of 2 ranks");
  // Work is over when its call returns, as on one.
  EXPECT_EQ(team.lane(Lane::kStep).record().state(), nullptr);
}

// Who waits for an event is told that a rank has failed, whatever the event says of itself.
TEST_F(TeamDeviceTest, AFailedRankIsSaidWhereSomebodyWaits) {
  const Buffer x = make(4);
  const Event done = step->record();
  device->team().collective(2).abort({ErrorCode::kUnavailable, "rank 2 is gone", {}});
  EXPECT_THROW(done.synchronize(), RanksFailed);
  EXPECT_THROW(static_cast<void>(done.passed()), RanksFailed);
  EXPECT_THROW(step->softcap(x.view(DType::kF32, 1, 4), 30), RanksFailed);
  EXPECT_THROW(step->synchronize(), RanksFailed);
  // Memory, events and the device end all the same.
}

}  // namespace
}  // namespace saccade
