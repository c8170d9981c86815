// Sums over GPUs by a library that is opened at run time: finding and refusing it, sums in the
// order of streams, and ranks that fail. The library is one of the tests' own, and so are the GPUs;
// where the machine has NVIDIA's, it is opened too.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/rng.h"
#include "ops/team/cuda_ranks.h"
#include "tests/gpu/nccl_ranks.h"

namespace saccade::cuda {
namespace {

using test::fake_nccl;
using test::FakeNccl;
using test::NcclRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kFake = SACCADE_FAKE_NCCL;

// --- finding it ---

std::string refusal(const std::string& said) {
  const auto found = find_nccl(said);
  return found ? std::string() : found.error().message;
}

TEST_F(NcclRanks, TheLibraryIsFoundWhereItIsSaid) {
  namespace fs = std::filesystem;
  for (const std::string& said : {std::string(kFake), fs::path(kFake).parent_path().string(),
                                  (fs::path(kFake).parent_path() / "libcublasLt.so.13").string()}) {
    const auto library = find_nccl(said);
    ASSERT_TRUE(library) << library.error().message;
    EXPECT_EQ((*library)->description(), fmt::format("NCCL 2.32.3 ({})", kFake));
  }
  // As Python's packages lie: a folder a library.
  const fs::path root = fs::path(::testing::TempDir()) / "saccade_nccl_places";
  fs::remove_all(root);
  fs::create_directories(root / "nvidia/cu13/lib");
  fs::create_directories(root / "nvidia/nccl/lib");
  fs::copy(kFake, root / "nvidia/nccl/lib" / kNcclFile);
  EXPECT_EQ(refusal((root / "nvidia/cu13/lib").string()), "");
  fs::remove_all(root);
}

TEST_F(NcclRanks, WhatWillNotDoIsRefusedByName) {
  EXPECT_THAT(refusal("none"), HasSubstr("NVIDIA's libraries were refused"));
  EXPECT_THAT(refusal("/nowhere/at/all/libnccl.so.2"),
              AllOf(HasSubstr("/nowhere/at/all/libnccl.so.2"), HasSubstr("nvidia-nccl-cu13")));
  EXPECT_THAT(refusal(SACCADE_FAKE_NCCL_LACKING), HasSubstr("has no ncclCommAbort"));
  fake_nccl().version = 21700;
  EXPECT_THAT(refusal(kFake), HasSubstr("is of version 21700, and 21800 is the least"));
}

TEST_F(NcclRanks, KernelsAreLoadedWithTheDevicesUnlessSomebodySaidOtherwise) {
  const auto set = [] {
    const char* const value = std::getenv("CUDA_MODULE_LOADING");
    return std::string(value != nullptr ? value : "");
  };
  ::unsetenv("CUDA_MODULE_LOADING");
  EXPECT_TRUE(make_cuda_ranks(1, {.libraries = kFake}));
  EXPECT_EQ(set(), "");
  EXPECT_FALSE(make_cuda_ranks(2, {.libraries = kFake}));
  EXPECT_EQ(set(), "EAGER");
  ::setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  EXPECT_FALSE(make_cuda_ranks(2, {.libraries = kFake}));
  EXPECT_EQ(set(), "LAZY");
  ::unsetenv("CUDA_MODULE_LOADING");
}

// What a step sends is memory that was there before the first sum.
TEST_F(NcclRanks, UploadsOfAStepTakeNoMemory) {
  constexpr std::int64_t kTotal = std::int64_t{1} << 30;
  std::vector<CudaDevice*> all;
  for (int rank = 0; rank < 2; ++rank) {
    devices.push_back(make_emulated_cuda_device({.late = true, .total_bytes = kTotal}));
    all.push_back(static_cast<CudaDevice*>(devices.back().get()));
  }
  const auto library = find_nccl(kFake);
  ASSERT_TRUE(library);
  auto made = make_nccl_collectives(*library, all);
  ASSERT_TRUE(made) << made.error().message;
  collectives = *std::move(made);
  const Buffer memory = *device(1).allocate(std::size_t{4} << 20);
  const std::int64_t left = device(1).free_bytes();
  Stream& stream = device(1).lane(Lane::kStep);
  const std::vector<float> numbers(std::size_t{1} << 20, 1.0f);
  for (int step = 0; step < 4; ++step) {
    stream.upload(std::vector<std::int32_t>(8192, step));
    stream.upload(View(const_cast<float*>(numbers.data()), DType::kF32, 1024, 1024),
                  memory.view(DType::kF32, 1024, 1024));
    stream.retire();
    EXPECT_EQ(device(1).free_bytes(), left);
    stream.synchronize();
  }
}

TEST_F(NcclRanks, MoreRanksThanGpusAreRefused) {
  const auto made = make_cuda_ranks(2, {.libraries = kFake});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message,
              AllOf(HasSubstr("2 ranks want a GPU each"), HasSubstr("there is 1")));
  const auto without = make_cuda_ranks(2, {.libraries = "/nowhere/libnccl.so.2"});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, ErrorCode::kNotFound);
}

// --- coming together ---

TEST_F(NcclRanks, GpusThatDoNotComeTogetherAreAnError) {
  fake_nccl().init_status = 3;
  Result<void> made = make(3);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(made.error().message,
              AllOf(HasSubstr("3 GPUs do not come together"),
                    HasSubstr("internal error (status 3)"), HasSubstr("the stand-in was told to")));
  EXPECT_EQ(fake_nccl().aborted, 2);

  fake_nccl().reset();
  fake_nccl().never_ready = true;
  made = make(2, DType::kF32, std::chrono::milliseconds(50));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("not within 0.05 s"));
  EXPECT_EQ(fake_nccl().aborted, 2);

  fake_nccl().reset();
  fake_nccl().id_status = 2;
  made = make(2);
  ASSERT_FALSE(made);
  EXPECT_EQ(fake_nccl().communicators, 0);
}

// --- sums ---

// x := x + x; the sum; x := x + x, all in the stream, with rows apart and without, over and over:
// what comes before the sum is in it, what comes after sees it, and between rows nothing is
// written.
TEST_F(NcclRanks, SumsAreInTheStreamsOrder) {
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kCols = 24;
  constexpr std::int64_t kWide = 32;
  constexpr int kRounds = 12;
  const auto value = [](int rank, int round, std::int64_t i) {
    return static_cast<float>((rank + 1) * (i % 13) - round);
  };
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const int ranks : {1, 2, 3}) {
      fake_nccl().calls.clear();
      const Result<void> made = make(ranks, type);
      ASSERT_TRUE(made) << made.error().message;
      std::vector<int> wrong(static_cast<std::size_t>(ranks));
      on_ranks([&](int rank) {
        Device& mine = device(rank);
        Stream& stream = mine.lane(Lane::kStep);
        const Buffer memory = *mine.allocate(kRows * kWide * size_of(type));
        const Buffer twice = *mine.allocate(kRows * kWide * size_of(type));
        const Buffer got = *mine.allocate(kRows * kWide * sizeof(float), Space::kHost);
        const View whole = memory.view(type, kRows, kWide);
        const View copy = twice.view(type, kRows, kWide);
        std::vector<float> numbers(kRows * kWide);
        for (int round = 0; round < kRounds; ++round) {
          const bool apart = round % 2 == 1;
          for (std::int64_t i = 0; i < kRows * kWide; ++i)
            numbers[static_cast<std::size_t>(i)] = value(rank, round, i);
          stream.upload(View(numbers.data(), DType::kF32, kRows, kWide, kWide), whole);
          stream.copy(whole, copy);
          stream.add(copy, whole, 1);
          const View x = apart ? whole.col_range(0, kCols) : whole;
          collective(rank).all_reduce(x, stream);
          stream.copy(whole, copy);
          stream.add(copy, whole, 1);
          const View back = got.view(DType::kF32, kRows, kWide);
          stream.download(whole, back);
          stream.retire();
          stream.synchronize();
          for (std::int64_t i = 0; i < kRows * kWide; ++i) {
            float want = 0;
            if (apart && i % kWide >= kCols) {
              want = 4 * value(rank, round, i);
            } else {
              for (int each = 0; each < ranks; ++each) want += 4 * value(each, round, i);
            }
            wrong[static_cast<std::size_t>(rank)] +=
                back.row<float>(i / kWide)[i % kWide] != want ? 1 : 0;
          }
        }
      });
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(wrong[static_cast<std::size_t>(rank)], 0) << rank << " of " << ranks;
        EXPECT_EQ(collective(rank).rank(), rank);
        EXPECT_EQ(collective(rank).ranks(), ranks);
        EXPECT_TRUE(collective(rank).status());
      }
      int whole = 0;
      for (const FakeNccl::Call& call : fake_nccl().calls) {
        EXPECT_EQ(call.type, type == DType::kF32 ? 7 : 9);
        EXPECT_EQ(call.in_group, call.count == kCols);
        whole += call.count == kRows * kWide ? 1 : 0;
      }
      EXPECT_EQ(whole, ranks * kRounds / 2);
      EXPECT_EQ(std::ssize(fake_nccl().calls), ranks * kRounds / 2 * (1 + kRows));
      collectives.clear();
      EXPECT_EQ(fake_nccl().communicators, 0);
      EXPECT_EQ(fake_nccl().aborted, 0);
    }
  }
  EXPECT_EQ(fake_nccl().finalized, 2 * (1 + 2 + 3));
}

// --- failures ---

// Each rank adds up until it is told that something is wrong, or to the end; false where it waited
// for a stream after that.
constexpr int kSums = 8;
void add_up(Device& device, Collective& collective, std::vector<int>& done) {
  Stream& stream = device.lane(Lane::kStep);
  const Buffer memory = *device.allocate(64 * sizeof(float));
  for (int i = 0; i < kSums && collective.status(); ++i) {
    collective.all_reduce(memory.view(DType::kF32, 1, 64), stream);
    stream.synchronize();
    ++done[static_cast<std::size_t>(collective.rank())];
  }
}

TEST_F(NcclRanks, AFailedSumLetsAllRanksGo) {
  for (const auto& [fault, words] :
       {std::pair{FakeNccl::Fault::kRefused, "internal error (status 3)"},
        {FakeNccl::Fault::kFailsLater, "remote process exited"}}) {
    for (const int call : {0, 3}) {
      fake_nccl().reset();
      fake_nccl().enqueue = emulator::enqueue_later;
      fake_nccl().fault = fault;
      fake_nccl().fault_rank = 1;
      fake_nccl().fault_call = call;
      const Result<void> made = make(3);
      ASSERT_TRUE(made) << made.error().message;
      std::vector<int> done(3);
      on_ranks([&](int rank) { add_up(device(rank), collective(rank), done); });
      for (int rank = 0; rank < 3; ++rank) {
        const Result<void> status = collective(rank).status();
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
        EXPECT_THAT(status.error().message,
                    AllOf(HasSubstr("the sum over 3 GPUs failed on rank 1"), HasSubstr(words)));
        EXPECT_LE(done[static_cast<std::size_t>(rank)], call + 1);
      }
      EXPECT_EQ(fake_nccl().aborted, 3);
      EXPECT_EQ(fake_nccl().communicators, 0);
    }
  }
}

// A rank that never adds up, and gives up for a reason of its own.
TEST_F(NcclRanks, NobodyWaitsForWhoGivesUp) {
  const Result<void> made = make(2);
  ASSERT_TRUE(made) << made.error().message;
  std::vector<int> done(2);
  on_ranks([&](int rank) {
    if (rank == 0) return add_up(device(rank), collective(rank), done);
    // Once the other one waits.
    while (true) {
      const std::lock_guard lock(fake_nccl().mutex);
      if (!fake_nccl().calls.empty()) break;
    }
    collective(1).abort({ErrorCode::kExhausted, "no memory", {}});
  });
  EXPECT_EQ(collective(0).status().error().message, "no memory");
  EXPECT_EQ(done[0], 1);
  // Whatever is called after that waits for nobody either.
  done.assign(2, 0);
  collective(0).all_reduce({}, device(0).lane(Lane::kStep));
  add_up(device(0), collective(0), done);
  EXPECT_EQ(done[0], 0);
}

// A sum that never comes, on one rank: the others are let go by a fourth thread.
TEST_F(NcclRanks, AHangingSumIsEndedFromOutside) {
  fake_nccl().fault = FakeNccl::Fault::kHangs;
  fake_nccl().fault_call = 2;
  const Result<void> made = make(3);
  ASSERT_TRUE(made) << made.error().message;
  std::vector<int> done(3);
  std::thread watch([&] {
    while (true) {
      const std::lock_guard lock(fake_nccl().mutex);
      if (fake_nccl().calls.size() >= 9) break;
    }
    collective(0).abort({ErrorCode::kTimeout, "a sum takes too long", {}});
  });
  on_ranks([&](int rank) { add_up(device(rank), collective(rank), done); });
  watch.join();
  EXPECT_EQ(done, (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(collective(2).status().error().code, ErrorCode::kTimeout);
}

// --- NVIDIA's own ---

TEST(Nccl, NvidiasLibraryIsOpened) {
  const auto library = find_nccl("");
  if (!library && library.error().code == ErrorCode::kNotFound)
    GTEST_SKIP() << library.error().message;
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_THAT((*library)->description(), HasSubstr("NCCL 2."));
  nccl::UniqueId id = {};
  const nccl::Status status = (*library)->calls().ncclGetUniqueId(&id);
  if (status != nccl::kSuccess) {
    EXPECT_NE((*library)->meaning(status, nullptr), "");
    return;
  }
  EXPECT_NE(std::count(std::begin(id.bytes), std::end(id.bytes), 0), 128);
}

}  // namespace
}  // namespace saccade::cuda
