// The emulator computes what a device would, and finds the faults that a device would hide: each
// planted below is found, and its kernel without it is not blamed.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "ops/cuda/kernel.h"

namespace saccade::cuda {
namespace {

constexpr int kSchedules = 20;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kWatchesBounds = true;
#else
constexpr bool kWatchesBounds = false;
#endif

template <typename Kernel>
void run(Kernel kernel, unsigned blocks, unsigned threads, std::size_t shared = 0) {
  emulator::launch("kernel", {blocks}, {threads}, shared, kernel);
}

// Whether `holds` fails under any of the schedules.
template <typename Holds>
bool found(Holds holds) {
  for (int schedule = 0; schedule < kSchedules; ++schedule) {
    emulator::seed(static_cast<std::uint64_t>(schedule));
    if (!holds()) return true;
  }
  return false;
}

TEST(Emulator, EveryThreadRunsOnceWithItsIndices) {
  std::vector<int> counts(2 * 3 * 4 * 64);
  emulator::launch("indices", {2, 3, 4}, {8, 4, 2}, 0, [&] {
    const std::size_t block =
        blockIdx.x + gridDim.x * (blockIdx.y + std::size_t{gridDim.y} * blockIdx.z);
    const std::size_t thread =
        threadIdx.x + blockDim.x * (threadIdx.y + std::size_t{blockDim.y} * threadIdx.z);
    __syncthreads();
    ++counts[block * 64 + thread];
  });
  for (const int count : counts) EXPECT_EQ(count, 1);
}

TEST(Emulator, LanesExchange) {
  std::vector<float> sums(64);
  std::vector<int> from(64);
  std::vector<int> up(64);
  std::vector<unsigned> votes(64);
  run(
      [&] {
        const unsigned i = threadIdx.x;
        sums[i] = warp_sum(static_cast<float>(i));
        from[i] = __shfl_sync(kFullWarp, static_cast<int>(i), 5);
        up[i] = __shfl_up_sync(kFullWarp, static_cast<int>(i), 3);
        votes[i] = __ballot_sync(kFullWarp, i % 3 == 0);
      },
      1, 64);
  for (unsigned i = 0; i < 64; ++i) {
    const unsigned warp = i / 32 * 32;
    EXPECT_EQ(sums[i], static_cast<float>(32 * warp + 31 * 16));
    EXPECT_EQ(from[i], static_cast<int>(warp + 5));
    EXPECT_EQ(up[i], static_cast<int>(i % 32 < 3 ? i : i - 3));
    for (unsigned lane = 0; lane < 32; ++lane)
      EXPECT_EQ(votes[i] >> lane & 1, (warp + lane) % 3 == 0 ? 1U : 0U);
  }
}

TEST(Emulator, VotesAndAtomics) {
  std::vector<int> counts(8);
  int largest = 0;
  int least = 1000;
  unsigned bits = 0;
  std::vector<int> any(64);
  std::vector<int> all(64);
  run(
      [&] {
        const auto i = static_cast<int>(threadIdx.x);
        atomicAdd(&counts[static_cast<std::size_t>(i % 8)], 1);
        atomicMax(&largest, i);
        atomicMin(&least, i + 5);
        atomicOr(&bits, 1U << i % 32);
        any[threadIdx.x] = __any_sync(kFullWarp, i == 40) ? 1 : 0;
        all[threadIdx.x] = __all_sync(kFullWarp, i < 40) ? 1 : 0;
      },
      1, 64);
  EXPECT_EQ(counts, std::vector<int>(8, 8));
  EXPECT_EQ(largest, 63);
  EXPECT_EQ(least, 5);
  EXPECT_EQ(bits, ~0U);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(any[i], i < 32 ? 0 : 1);
    EXPECT_EQ(all[i], i < 32 ? 1 : 0);
  }
}

// The fragments as the PTX manual lays them out, filled and read element by element.
TEST(Emulator, MultipliesTiles) {
  Rng rng(1);
  float a[16][16];
  float b[16][8];
  float want[16][8] = {};
  for (auto& row : a)
    for (float& x : row) x = to_float(to_bf16(static_cast<float>(rng.uniform())));
  for (auto& row : b)
    for (float& x : row) x = to_float(to_bf16(static_cast<float>(rng.uniform())));
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j)
      for (int k = 0; k < 16; ++k) want[i][j] += a[i][k] * b[k][j];
  const auto word = [](float low, float high) {
    return std::uint32_t{to_bf16(low).bits} | std::uint32_t{to_bf16(high).bits} << 16;
  };
  float got[16][8];
  run(
      [&] {
        const unsigned group = threadIdx.x / 4;
        const unsigned pair = threadIdx.x % 4 * 2;
        const std::uint32_t fa[4] = {word(a[group][pair], a[group][pair + 1]),
                                     word(a[group + 8][pair], a[group + 8][pair + 1]),
                                     word(a[group][pair + 8], a[group][pair + 9]),
                                     word(a[group + 8][pair + 8], a[group + 8][pair + 9])};
        const std::uint32_t fb[2] = {word(b[pair][group], b[pair + 1][group]),
                                     word(b[pair + 8][group], b[pair + 9][group])};
        float d[4] = {};
        mma(d, fa, fb);
        got[group][pair] = d[0];
        got[group][pair + 1] = d[1];
        got[group + 8][pair] = d[2];
        got[group + 8][pair + 1] = d[3];
      },
      1, 32);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) EXPECT_NEAR(got[i][j], want[i][j], 1e-5) << i << " " << j;
}

TEST(Emulator, MultipliesTilesOfBytes) {
  Rng rng(2);
  std::int8_t a[16][32];
  std::int8_t b[32][8];
  std::int32_t want[16][8];
  for (auto& row : a)
    for (std::int8_t& x : row) x = static_cast<std::int8_t>(static_cast<int>(rng.below(256)) - 128);
  for (auto& row : b)
    for (std::int8_t& x : row) x = static_cast<std::int8_t>(static_cast<int>(rng.below(256)) - 128);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      want[i][j] = i * 1000 - j;
      for (int k = 0; k < 32; ++k) want[i][j] += a[i][k] * b[k][j];
    }
  std::int32_t got[16][8];
  run(
      [&] {
        const unsigned group = threadIdx.x / 4;
        const unsigned quad = threadIdx.x % 4;
        const auto word = [](const auto& element) {
          std::uint32_t bits = 0;
          for (unsigned i = 0; i < 4; ++i)
            bits |= std::uint32_t{static_cast<std::uint8_t>(element(i))} << 8 * i;
          return bits;
        };
        std::uint32_t fa[4];
        for (unsigned i = 0; i < 4; ++i)
          fa[i] = word([&](unsigned k) { return a[group + i % 2 * 8][i / 2 * 16 + quad * 4 + k]; });
        std::uint32_t fb[2];
        for (unsigned i = 0; i < 2; ++i)
          fb[i] = word([&](unsigned k) { return b[i * 16 + quad * 4 + k][group]; });
        std::int32_t d[4];
        for (int i = 0; i < 4; ++i)
          d[i] = (static_cast<int>(group) + i / 2 * 8) * 1000 - static_cast<int>(quad * 2) - i % 2;
        mma(d, fa, fb);
        for (unsigned i = 0; i < 4; ++i) got[group + i / 2 * 8][quad * 2 + i % 2] = d[i];
      },
      1, 32);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) EXPECT_EQ(got[i][j], want[i][j]) << i << " " << j;
}

TEST(Emulator, LoadsMatrices) {
  std::vector<std::uint32_t> got(32 * 4);
  std::vector<std::uint32_t> turned(32 * 4);
  run(
      [&] {
        SACCADE_DYNAMIC_SHARED(std::uint16_t, tile);  // 32 rows of 8: four matrices
        for (unsigned c = 0; c < 8; ++c)
          tile[threadIdx.x * 8 + c] = static_cast<std::uint16_t>(threadIdx.x * 8 + c);
        __syncwarp();
        std::uint32_t d[4];
        ldmatrix(d, tile + threadIdx.x * 8);
        std::copy_n(d, 4, got.begin() + threadIdx.x * 4);
        ldmatrix_transposed(d, tile + threadIdx.x * 8);
        std::copy_n(d, 4, turned.begin() + threadIdx.x * 4);
      },
      1, 32, 32 * 8 * 2);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned first = i * 64 + lane / 4 * 8 + lane % 4 * 2;
      EXPECT_EQ(got[lane * 4 + i], first | (first + 1) << 16);
      const unsigned down = i * 64 + lane % 4 * 2 * 8 + lane / 4;
      EXPECT_EQ(turned[lane * 4 + i], down | (down + 8) << 16);
    }
}

TEST(Emulator, SharedMemoryIsBornAsNaNForEachBlock) {
  std::vector<int> numbers(3);
  run(
      [&] {
        SACCADE_SHARED(float, named, 64);
        SACCADE_DYNAMIC_SHARED(float, dynamic);
        if (!std::isnan(named[threadIdx.x]) || !std::isnan(dynamic[threadIdx.x]))
          ++numbers[blockIdx.x];
        named[threadIdx.x] = dynamic[threadIdx.x] = 1;
      },
      3, 64, 64 * sizeof(float));
  EXPECT_EQ(numbers, std::vector<int>(3));
}

// A sum over the block through shared memory; `barrier` leaves the middle one out.
bool sums_up(bool barrier) {
  bool right = true;
  run(
      [&] {
        SACCADE_SHARED(float, partial, 4);
        const float sum = warp_sum(1);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
        if (barrier) __syncthreads();
        float total = 0;
        for (int i = 0; i < 4; ++i) total += partial[i];
        if (!(total == 128)) right = false;
      },
      2, 128);
  return right;
}

TEST(EmulatorFinds, AMissingBarrier) {
  EXPECT_FALSE(found([] { return sums_up(true); }));
  EXPECT_TRUE(found([] { return sums_up(false); }));
}

struct Pipeline {
  bool wait_for_all_but_one = true;  // false: for all but two, one too few
  bool barrier_before_reuse = true;
};

// Two stages of cp.async through shared memory, summed by other threads than copied them.
bool pipeline_holds(const Pipeline& faults) {
  constexpr int kThreads = 128;
  constexpr int kSteps = 6;
  std::vector<float> input(kThreads * 4 * kSteps);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 97);
  std::vector<float> sums(kThreads);
  run(
      [&] {
        SACCADE_DYNAMIC_SHARED(float, stages);  // [2][kThreads * 4]
        const int thread = static_cast<int>(threadIdx.x);
        const auto fetch = [&](int step) {
          async_copy(stages + step % 2 * kThreads * 4 + thread * 4,
                     input.data() + (step * kThreads + thread) * 4, 16);
          async_commit();
        };
        fetch(0);
        float sum = 0;
        for (int step = 0; step < kSteps; ++step) {
          if (step + 1 < kSteps) {
            fetch(step + 1);
            if (faults.wait_for_all_but_one)
              async_wait<1>();
            else
              async_wait<2>();
          } else {
            async_wait<0>();
          }
          __syncthreads();
          const float* const stage = stages + step % 2 * kThreads * 4;
          for (int i = 0; i < 4; ++i) sum += stage[(thread * 4 + i + 200) % (kThreads * 4)];
          if (faults.barrier_before_reuse) __syncthreads();
        }
        sums[threadIdx.x] = sum;
      },
      1, kThreads, 2 * kThreads * 4 * sizeof(float));
  for (int thread = 0; thread < kThreads; ++thread) {
    float want = 0;
    for (int step = 0; step < kSteps; ++step)
      for (int i = 0; i < 4; ++i)
        want += input[static_cast<std::size_t>(step * kThreads * 4 +
                                               (thread * 4 + i + 200) % (kThreads * 4))];
    if (!(sums[static_cast<std::size_t>(thread)] == want)) return false;
  }
  return true;
}

TEST(EmulatorFinds, AWrongWaitCount) {
  EXPECT_FALSE(found([] { return pipeline_holds({}); }));
  EXPECT_TRUE(found([] { return pipeline_holds({.wait_for_all_but_one = false}); }));
}

TEST(EmulatorFinds, AnEarlyReuse) {
  EXPECT_TRUE(found([] { return pipeline_holds({.barrier_before_reuse = false}); }));
}

// One warp writes what the other reads; only a barrier orders them.
bool handed_over(bool barrier) {
  bool right = true;
  run(
      [&] {
        SACCADE_SHARED(int, box, 1);
        if (threadIdx.x == 0) box[0] = 1;
        __syncthreads();
        if (threadIdx.x == 32) box[0] = 2;
        if (barrier) __syncthreads();
        if (threadIdx.x == 0 && box[0] != 2) right = false;
      },
      1, 64);
  return right;
}

TEST(EmulatorFinds, ARaceBetweenWarps) {
  EXPECT_FALSE(found([] { return handed_over(true); }));
  EXPECT_TRUE(found([] { return handed_over(false); }));
}

// The lanes of a warp are no lockstep either.
bool lanes_agree(bool barrier) {
  bool right = true;
  run(
      [&] {
        SACCADE_SHARED(int, box, 32);
        box[threadIdx.x] = static_cast<int>(threadIdx.x);
        if (barrier) __syncwarp();
        if (box[(threadIdx.x + 1) % 32] != static_cast<int>((threadIdx.x + 1) % 32)) right = false;
      },
      1, 32);
  return right;
}

TEST(EmulatorFinds, ARaceBetweenLanes) {
  EXPECT_FALSE(found([] { return lanes_agree(true); }));
  EXPECT_TRUE(found([] { return lanes_agree(false); }));
}

using EmulatorDeathTest = testing::Test;

TEST(EmulatorDeathTest, DivergentBarriersSayWhere) {
  EXPECT_DEATH(run(
                   [] {
                     if (threadIdx.x < 32) __syncthreads();
                   },
                   1, 64),
               "deadlock: kernel block .0, 0, 0.; 32 threads have returned, of warps 1; 32 threads "
               "wait at __syncthreads \\(emulator_test.cc:[0-9]+\\), of warps 0");
  EXPECT_DEATH(run(
                   [] {
                     if (threadIdx.x / 32 != 2) __syncthreads();
                   },
                   1, 160),
               "128 threads wait at __syncthreads .*, of warps 0-1, 3-4");
  EXPECT_DEATH(run(
                   [] {
                     if (threadIdx.x < 7)
                       __syncwarp();
                     else
                       __syncthreads();
                   },
                   1, 32),
               "deadlock: .*25 threads wait at __syncthreads.*7 threads wait at __syncwarp");
  EXPECT_DEATH(run(
                   [] {
                     if (threadIdx.x % 2 == 0)
                       __syncwarp();
                     else
                       static_cast<void>(warp_sum(1));
                   },
                   1, 32),
               "divergent: .*16 threads wait at __shfl_xor_sync");
}

TEST(EmulatorDeathTest, RefusesWhatADeviceWould) {
  EXPECT_DEATH(run([] {}, 1, 33), "33 threads a block");
  EXPECT_DEATH(run([] {}, 1, 2048), "2048 threads a block");
  EXPECT_DEATH(run([] {}, 1, 32, 200 * 1024), "bytes of shared memory");
  EXPECT_DEATH(static_cast<void>(emulator::dynamic_shared()), "outside of a kernel");
  EXPECT_DEATH(run(
                   [] {
                     SACCADE_DYNAMIC_SHARED(float, shared);
                     async_copy(shared + 1, shared, 16);
                   },
                   1, 32, 64),
               "cp.async \\(emulator_test.cc:[0-9]+\\) is not aligned");
}

TEST(EmulatorDeathTest, OutOfBoundsIsFound) {
  if (!kWatchesBounds) GTEST_SKIP() << "needs AddressSanitizer";
  const auto global = std::make_unique<float[]>(32);
  EXPECT_DEATH(run([&] { global[threadIdx.x + 1] = 1; }, 1, 32), "heap-buffer-overflow");
  EXPECT_DEATH(run(
                   [] {
                     SACCADE_DYNAMIC_SHARED(float, shared);
                     shared[threadIdx.x + 1] = 1;
                   },
                   1, 32, 32 * sizeof(float)),
               "heap-buffer-overflow");
  EXPECT_DEATH(run(
                   [] {
                     SACCADE_SHARED(float, named, 16);
                     named[threadIdx.x] = 1;
                   },
                   1, 32),
               "heap-buffer-overflow");
  EXPECT_DEATH(run(
                   [&] {
                     SACCADE_DYNAMIC_SHARED(float, shared);
                     async_copy(shared, global.get() + 32, 16);
                   },
                   1, 32, 64),
               "cp.async \\(emulator_test.cc:[0-9]+\\) reads out of bounds");
}

TEST(Emulator, SchedulesDifferBySeedAlone) {
  const auto order = [](std::uint64_t seed) {
    emulator::seed(seed);
    std::vector<unsigned> threads;
    run([&] { threads.push_back(threadIdx.x); }, 1, 128);
    return threads;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

}  // namespace
}  // namespace saccade::cuda
