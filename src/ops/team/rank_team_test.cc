#include "ops/team/rank_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <set>
#include <thread>

#include "ops/device.h"

namespace saccade {
namespace {

TEST(RankTeam, EveryRankRunsOnAThreadOfItsOwnTheFirstOnTheCallers) {
  RankTeam team(make_thread_collectives(3));
  for (int round = 0; round < 200; ++round) {
    std::vector<std::thread::id> threads(3);
    std::atomic<int> arrived = 0;
    team.run([&](int rank) {
      threads[static_cast<std::size_t>(rank)] = std::this_thread::get_id();
      ++arrived;
      while (arrived < 3) std::this_thread::yield();  // all at once, or never
    });
    EXPECT_EQ(threads[0], std::this_thread::get_id());
    EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 3u);
  }
  EXPECT_TRUE(team.status());
}

// The others are in a sum, which one that waits for something else never comes to.
TEST(RankTeam, WhoDoesNotComeBackInTimeIsGivenUp) {
  RankTeam team(make_thread_collectives(3), std::chrono::milliseconds(100));
  const auto device = make_reference_device();
  std::vector<float> numbers(3, 1);
  const auto add_up = [&](int rank) {
    float& number = numbers[static_cast<std::size_t>(rank)];
    team.collective(rank).all_reduce(View(&number, DType::kF32, 1, 1), device->lane(Lane::kStep));
  };
  team.run(add_up);
  std::this_thread::sleep_for(std::chrono::milliseconds(250));  // between calls any time may pass
  team.run(add_up);
  EXPECT_EQ(numbers, std::vector<float>(3, 9));
  try {
    team.run([&](int rank) {
      if (rank != 1) return add_up(rank);
      while (team.collective(1).status()) std::this_thread::yield();
    });
    FAIL() << "nothing was thrown";
  } catch (const RanksFailed& failed) {
    EXPECT_EQ(std::string(failed.what()), "3 ranks did not come back from a call within 0.1 s");
  }
}

// The others are in a sum, which the one that throws never comes to.
TEST(RankTeam, NobodyWaitsForARankThatThrows) {
  RankTeam team(make_thread_collectives(3));
  std::vector<float> numbers(3);
  const auto device = make_reference_device();
  Stream& stream = device->lane(Lane::kStep);
  const auto add_up = [&](int rank) {
    float& number = numbers[static_cast<std::size_t>(rank)];
    team.collective(rank).all_reduce(View(&number, DType::kF32, 1, 1), stream);
  };
  numbers = {1, 2, 4};
  team.run(add_up);
  EXPECT_EQ(numbers, std::vector<float>({7, 7, 7}));
  try {
    team.run([&](int rank) {
      if (rank == 2) throw std::bad_alloc();
      add_up(rank);
      add_up(rank);
    });
    FAIL() << "nothing was thrown";
  } catch (const RanksFailed& failed) {
    EXPECT_EQ(std::string(failed.what()), "rank 2 of 3: std::bad_alloc");
  }
  EXPECT_FALSE(team.status());
  // Whoever goes on is told again, and who ends is let end.
  EXPECT_THROW(team.run([](int) {}), RanksFailed);
  std::atomic<int> ran = 0;
  EXPECT_FALSE(team.try_run([&](int rank) {
    add_up(rank);
    ++ran;
  }));
  EXPECT_EQ(ran, 3);
}

TEST(RankTeam, ARankThatGivesUpFromOutsideIsAFailure) {
  RankTeam team(make_thread_collectives(2));
  team.collective(1).abort({ErrorCode::kExhausted, "no memory", {}});
  EXPECT_THROW(team.run([](int) {}), RanksFailed);
  EXPECT_EQ(team.status().error().message, "no memory");
}

}  // namespace
}  // namespace saccade
