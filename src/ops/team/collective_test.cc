#include "ops/team/collective.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "ops/device.h"

namespace saccade {
namespace {

// Sums in the order of ranks, the same bits on all of them, over and over, with rows apart.
TEST(ThreadCollective, EveryRankGetsTheSameSum) {
  for (const int ranks : {1, 2, 3}) {
    constexpr std::int64_t kRows = 5;
    constexpr std::int64_t kCols = 7;
    constexpr std::int64_t kStride = 9;
    constexpr int kRounds = 50;
    const auto collectives = make_thread_collectives(ranks);
    std::vector<std::vector<float>> memory(static_cast<std::size_t>(ranks),
                                           std::vector<float>(kRows * kStride, -1));
    const auto value = [](int rank, int round, std::int64_t i) {
      Rng rng(static_cast<std::uint64_t>((rank * kRounds + round) * 1000 + i));
      return static_cast<float>(rng.uniform() - 0.5);
    };
    std::vector<int> wrong(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        auto& mine = memory[static_cast<std::size_t>(rank)];
        const auto device = make_reference_device();
        Stream& stream = device->lane(Lane::kStep);
        const View x(mine.data(), DType::kF32, kRows, kCols, kStride);
        for (int round = 0; round < kRounds; ++round) {
          for (std::int64_t i = 0; i < kRows * kCols; ++i)
            x.row<float>(i / kCols)[i % kCols] = value(rank, round, i);
          collectives[static_cast<std::size_t>(rank)]->all_reduce(x, stream);
          for (std::int64_t i = 0; i < kRows * kCols; ++i) {
            float want = 0;
            for (int each = 0; each < ranks; ++each) want += value(each, round, i);
            wrong[static_cast<std::size_t>(rank)] +=
                std::bit_cast<std::uint32_t>(want) !=
                std::bit_cast<std::uint32_t>(x.row<float>(i / kCols)[i % kCols]);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(collectives[static_cast<std::size_t>(rank)]->rank(), rank);
      EXPECT_EQ(wrong[static_cast<std::size_t>(rank)], 0) << rank << " of " << ranks;
      for (std::int64_t row = 0; row < kRows; ++row)
        EXPECT_EQ(memory[static_cast<std::size_t>(rank)][row * kStride + kCols], -1);
    }
  }
}

// One rank of three stops after some rounds: the others come back from what they wait in, and from
// whatever they call later, with the reason.
TEST(ThreadCollective, NobodyWaitsForWhoGivesUp) {
  constexpr int kRanks = 3;
  constexpr int kRounds = 1000;
  for (int round_of_failure : {0, 1, 500}) {
    const auto collectives = make_thread_collectives(kRanks);
    std::vector<std::thread> threads;
    std::vector<int> good(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        Collective& mine = *collectives[static_cast<std::size_t>(rank)];
        const auto device = make_reference_device();
        Stream& stream = device->lane(Lane::kStep);
        for (int round = 0; round < kRounds; ++round) {
          if (rank == 1 && round == round_of_failure) {
            // The others are asleep by then.
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            mine.abort({ErrorCode::kExhausted, "rank 1 has no memory", {}});
            return;
          }
          float value = 1;
          mine.all_reduce(View(&value, DType::kF32, 1, 1, 1), stream);
          if (!mine.status()) continue;
          good[static_cast<std::size_t>(rank)] += value == kRanks ? 1 : 0;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(good[0], round_of_failure);
    for (const auto& collective : collectives) {
      const Result<void> status = collective->status();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::kExhausted);
      EXPECT_EQ(status.error().message, "rank 1 has no memory");
      collective->abort({ErrorCode::kInternal, "later", {}});
      EXPECT_EQ(collective->status().error().message, "rank 1 has no memory");
    }
  }
}

}  // namespace
}  // namespace saccade
