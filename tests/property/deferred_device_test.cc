// The device that punishes finds what it is there for: one planted bug of each kind that a device
// which computes at once would let pass.
#include "tests/support/deferred_device.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "ops/readback.h"

namespace saccade {
namespace {

struct DeferredDeviceTest : ::testing::Test {
  void make(std::uint64_t seed) {
    device = make_deferred_device("reference", seed);
    step = &device->lane(Lane::kStep);
    encode = &device->lane(Lane::kEncode);
  }
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    make(1);
  }
  // [rows, cols] of f32 on the device, row r all r + 1.
  Buffer matrix(std::int64_t rows, std::int64_t cols) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows * cols; ++i)
      values.push_back(static_cast<float>(i / cols + 1));
    Buffer made = *device->allocate(values.size() * sizeof(float));
    step->upload(View(values.data(), DType::kF32, rows, cols), made.view(DType::kF32, rows, cols));
    encode->wait(step->record());
    return made;
  }
  float first_of(View view) {
    Buffer staging;
    return (*readable(*step, view, staging)).row<float>(0)[0];
  }

  std::unique_ptr<Device> device;
  Stream* step = nullptr;
  Stream* encode = nullptr;
};
using DeferredDeviceDeathTest = DeferredDeviceTest;

TEST_F(DeferredDeviceTest, WorkIsDoneWhenItIsWaitedFor) {
  const Buffer x = matrix(3, 4);
  const Buffer y = *device->allocate(2 * 4 * sizeof(float));
  std::vector<std::int32_t> rows = {2, 1};
  step->mix_rows({.x = x.view(DType::kF32, 3, 4),
                  .rows = step->upload(rows),
                  .weights = {},
                  .out = y.view(DType::kF32, 2, 4)});
  rows = {0, 0};  // written again: what was uploaded is what it was
  step->retire();
  EXPECT_EQ(first_of(y.view(DType::kF32, 2, 4)), 3);
}

TEST_F(DeferredDeviceDeathTest, AListOfTheHost) {
  const Buffer x = matrix(3, 4);
  const Buffer y = *device->allocate(4 * sizeof(float));
  const std::array<std::int32_t, 1> rows = {2};
  EXPECT_DEATH(step->mix_rows({.x = x.view(DType::kF32, 3, 4),
                               .rows = DeviceInts(rows.data(), 1, Space::kHost),
                               .weights = {},
                               .out = y.view(DType::kF32, 1, 4)}),
               "on the host");
}

TEST_F(DeferredDeviceDeathTest, AListAfterItsLife) {
  const Buffer x = matrix(3, 4);
  const Buffer y = *device->allocate(4 * sizeof(float));
  const DeviceInts rows = step->upload(std::vector<std::int32_t>{2});
  step->retire();
  EXPECT_DEATH(step->mix_rows({.x = x.view(DType::kF32, 3, 4),
                               .rows = rows,
                               .weights = {},
                               .out = y.view(DType::kF32, 1, 4)}),
               "after the stream's retire");
}

TEST_F(DeferredDeviceDeathTest, AListOfAnotherLane) {
  const Buffer x = matrix(3, 4);
  const Buffer y = *device->allocate(4 * sizeof(float));
  const DeviceInts rows = encode->upload(std::vector<std::int32_t>{2});
  EXPECT_DEATH(step->mix_rows({.x = x.view(DType::kF32, 3, 4),
                               .rows = rows,
                               .weights = {},
                               .out = y.view(DType::kF32, 1, 4)}),
               "not of this stream");
}

TEST_F(DeferredDeviceDeathTest, APlanAfterItsLife) {
  const Buffer qkv = matrix(4, 8);
  const View x = qkv.view(DType::kF32, 4, 8);
  const SegmentPlan& plan = step->plan_segments(std::array<std::int32_t, 2>{0, 4},
                                                {.heads = 1, .kv_heads = 1, .head_dim = 8});
  step->retire();
  EXPECT_DEATH(step->segment_attention({.plan = &plan, .q = x, .k = x, .v = x, .out = x}),
               "before the stream's retire");
}

TEST_F(DeferredDeviceDeathTest, AMatrixOfTheHostAsAnOperand) {
  const Buffer y = matrix(1, 4);
  std::vector<float> values(4, 1);
  EXPECT_DEATH(step->add(View(values.data(), DType::kF32, 1, 4), y.view(DType::kF32, 1, 4), 1),
               "on the host");
  EXPECT_DEATH(step->copy(View(values.data(), DType::kF32, 1, 4), y.view(DType::kF32, 1, 4)),
               "on the host");
}

TEST_F(DeferredDeviceDeathTest, TheHostReadsTheDevice) {
  const Buffer x = matrix(1, 4);
  step->synchronize();
  EXPECT_DEATH(x.view(DType::kF32, 1, 4).row<float>(0), "the host reads a matrix of the device");
  EXPECT_DEATH(std::abs(*reinterpret_cast<volatile float*>(x.data())), "");
  EXPECT_DEATH(step->upload(std::vector<std::int32_t>{2})[0], "the host reads a list");
}

TEST_F(DeferredDeviceTest, ADownloadIsReadTooEarly) {
  const Buffer x = matrix(1, 4);
  const Buffer y = *device->allocate(4 * sizeof(float), Space::kHost);
  const View to = y.view(DType::kF32, 1, 4);
  step->download(x.view(DType::kF32, 1, 4), to);
  const Event downloaded = step->record();
  EXPECT_TRUE(std::isnan(to.row<float>(0)[0]));
  downloaded.synchronize();
  EXPECT_EQ(to.row<float>(0)[0], 1);
}

TEST_F(DeferredDeviceDeathTest, ADownloadToPageableMemory) {
  const Buffer x = matrix(1, 4);
  std::vector<float> values(4);
  EXPECT_DEATH(step->download(x.view(DType::kF32, 1, 4), View(values.data(), DType::kF32, 1, 4)),
               "not of allocate");
}

TEST_F(DeferredDeviceDeathTest, MemoryIsFreedBeforeTheStreamHasPassed) {
  const Buffer x = matrix(1, 4);
  Buffer y = matrix(1, 4);
  step->add(y.view(DType::kF32, 1, 4), x.view(DType::kF32, 1, 4), 1);
  EXPECT_DEATH(
      {
        y.reset();
        step->synchronize();
      },
      "has been freed");
}

// Two lanes and one matrix: with an event between them every order is right; without, one is not.
TEST_F(DeferredDeviceTest, AMissingWaitBetweenLanes) {
  const auto sum = [&](std::uint64_t seed, bool waits) {
    make(seed);
    const Buffer from = matrix(1, 4);
    const Buffer to = *device->allocate(4 * sizeof(float));
    encode->copy(from.view(DType::kF32, 1, 4), to.view(DType::kF32, 1, 4));
    if (waits) step->wait(encode->record());
    const Buffer out = *device->allocate(4 * sizeof(float));
    step->copy(to.view(DType::kF32, 1, 4), out.view(DType::kF32, 1, 4));
    const float got = first_of(out.view(DType::kF32, 1, 4));
    encode->synchronize();
    return got;
  };
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    EXPECT_EQ(sum(seed, true), 1) << seed;
    wrong += sum(seed, false) == 1 ? 0 : 1;
  }
  EXPECT_GT(wrong, 4);
}

// What a plan refers to may change as soon as it is made.
TEST_F(DeferredDeviceTest, ABlockTableChangesBehindItsPlan) {
  const Buffer pool = *device->allocate(4 * 2 * 2 * 8 * sizeof(float));
  const KvLayer layer = {.blocks = pool.view(DType::kF32, 4, 2 * 2 * 8),
                         .block_size = 2,
                         .kv_heads = 1,
                         .head_dim = 8};
  const Buffer rows = matrix(2, 8);
  const View x = rows.view(DType::kF32, 2, 8);
  const Buffer out = *device->allocate(2 * 8 * sizeof(float));
  std::vector<std::int32_t> blocks = {3};
  const std::array spans = {SequenceSpan{.row_count = 2, .blocks = blocks}};
  const AttentionPlan& plan =
      step->plan_attention(spans, {.block_size = 2, .heads = 1, .kv_heads = 1, .head_dim = 8});
  step->kv_write({.plan = &plan, .k = x, .v = x, .layer = layer});
  step->paged_attention(
      {.plan = &plan, .q = x, .layer = layer, .out = out.view(DType::kF32, 2, 8)});
  step->retire();
  blocks = {-1};
  EXPECT_EQ(first_of(out.view(DType::kF32, 2, 8)), 1);
}

}  // namespace
}  // namespace saccade
