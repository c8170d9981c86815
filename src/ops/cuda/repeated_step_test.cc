// Steps that become graphs, on streams that run late: the same numbers as without, whatever lists
// hold and however they grow; and other calls than last time are never answered with last time's.
#include "ops/cuda/repeated_step.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_stream.h"

namespace saccade::cuda {
namespace {

class RepeatedSteps : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 64;

  void make(std::uint64_t seed) {
    for (Buffer* const buffer : {&x_, &y_, &back_}) buffer->reset();
    device = std::make_unique<CudaDevice>(
        emulator::make_emulated_runtime({.late = true, .seed = seed}), 1, DType::kF32);
    x_ = floats(kRows, Space::kDevice);
    y_ = floats(kRows, Space::kDevice);
    back_ = floats(kRows * kMaxSteps, Space::kHost);
    std::vector<float> values(kRows);
    std::iota(values.begin(), values.end(), 1.0f);
    step().upload(View(values.data(), DType::kF32, kRows, 1), x());
    done = 0;
  }
  void SetUp() override { make(1); }
  void TearDown() override {
    for (Buffer* const buffer : {&x_, &y_, &back_}) buffer->reset();
    device.reset();
  }

  Buffer floats(std::int64_t count, Space space) {
    return *device->allocate(static_cast<std::size_t>(count) * sizeof(float), space);
  }
  CudaStream& step() { return static_cast<CudaStream&>(device->lane(Lane::kStep)); }
  const RepeatedStep& repeated() { return step().repeated(); }
  View x() const { return x_.view(DType::kF32, kRows, 1); }
  View y() const { return y_.view(DType::kF32, kRows, 1); }

  // y[i] = 2 x[rows[i]], by way of a list; what comes of it is looked at in the end. `before`: an
  // other list before it.
  void run(std::int64_t kind, const std::vector<std::int32_t>& rows, std::size_t before = 0,
           float scale = 1) {
    const View to = y().row_range(0, static_cast<std::int64_t>(rows.size()));
    step().begin_repeated(kind);
    if (before > 0) step().upload(std::vector<std::int32_t>(before, 7));
    step().mix_rows({.x = x(), .rows = step().upload(rows), .weights = {}, .out = to});
    step().add(to, to, scale);
    step().end_repeated();
    look(rows, 1 + scale);
  }
  void look(const std::vector<std::int32_t>& rows, float times) {
    const auto count = static_cast<std::int64_t>(rows.size());
    ASSERT_LT(done, kMaxSteps);
    step().download(y().row_range(0, count), back_.view(DType::kF32, kRows * kMaxSteps, 1)
                                                 .row_range(done * kRows, done * kRows + count));
    step().retire();
    want.emplace_back();
    for (const std::int32_t row : rows) want.back().push_back(times * static_cast<float>(row + 1));
    ++done;
  }
  void check() {
    step().synchronize();
    for (std::size_t i = 0; i < want.size(); ++i) {
      const float* const got =
          back_.view(DType::kF32, kRows * kMaxSteps, 1).row<float>(0) + i * kRows;
      ASSERT_EQ(std::vector<float>(got, got + want[i].size()), want[i]) << "step " << i;
    }
    want.clear();
    done = 0;
  }
  static std::vector<std::int32_t> rows(std::int32_t from, std::size_t count = 4) {
    std::vector<std::int32_t> list(count);
    for (std::size_t i = 0; i < count; ++i)
      list[i] = static_cast<std::int32_t>((static_cast<std::size_t>(from) * 5 + i * 3) % kRows);
    return list;
  }

  static constexpr std::int64_t kMaxSteps = 128;
  std::unique_ptr<CudaDevice> device;
  std::vector<std::vector<float>> want;
  std::int64_t done = 0;

 private:
  Buffer x_, y_, back_;
};

TEST_F(RepeatedSteps, BecomeAGraphTheThirdTime) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    make(seed);
    for (std::int32_t i = 0; i < 20; ++i) run(4, rows(i));
    EXPECT_EQ(repeated().captures(), 1);
    EXPECT_EQ(repeated().replays(), 18);
    check();
  }
}

TEST_F(RepeatedSteps, EachKindHasItsGraph) {
  for (std::int32_t i = 0; i < 30; ++i)
    run(1 + i % 3, rows(i, static_cast<std::size_t>(1 + i % 3)));
  EXPECT_EQ(repeated().graphs(), 3);
  EXPECT_EQ(repeated().replays(), 24);
  check();
}

// A list that grows has its room; beyond it those behind it move, and the old graph with them.
TEST_F(RepeatedSteps, ListsGrow) {
  for (std::int32_t i = 0; i < 120; ++i) run(4, rows(i), static_cast<std::size_t>(1 + i * 4));
  EXPECT_GT(repeated().replays(), 60);
  EXPECT_GE(repeated().captures(), 3);
  EXPECT_EQ(repeated().graphs(), 1);
  check();
}

TEST_F(RepeatedSteps, OtherArgumentsAreNotAnsweredWithAGraph) {
  for (std::int32_t i = 0; i < 10; ++i) run(4, rows(i));
  const std::int64_t replays = repeated().replays();
  run(4, rows(3), 0, 5);  // another scale
  run(4, rows(3, 3));     // fewer rows
  EXPECT_EQ(repeated().replays(), replays);
  EXPECT_EQ(repeated().graphs(), 0);
  for (std::int32_t i = 0; i < 10; ++i) run(4, rows(i));
  EXPECT_EQ(repeated().graphs(), 1);
  check();
}

// What is not a launch ends the keeping: in order, and the rest of the step is launched as it
// comes.
TEST_F(RepeatedSteps, WhatCannotBeKeptComesInItsTurn) {
  for (std::int32_t i = 0; i < 8; ++i) {
    const View to = y().row_range(0, 4);
    const View copied = y().row_range(8, 12);
    step().begin_repeated(4);
    step().mix_rows({.x = x(), .rows = step().upload(rows(i)), .weights = {}, .out = to});
    step().copy(to, copied);
    step().add(copied, to, 2);
    step().mix_rows({.x = x(), .rows = step().upload(rows(0)), .weights = {}, .out = copied});
    step().end_repeated();
    look(rows(i), 3);
  }
  EXPECT_EQ(repeated().replays(), 0);
  check();
}

TEST_F(RepeatedSteps, TooLongListsMakeRoom) {
  const std::size_t large = std::size_t{3} << 18;  // 3 MB, over the first room
  for (std::int32_t i = 0; i < 8; ++i) run(4, rows(i), large);
  EXPECT_GT(repeated().replays(), 0);
  check();
}

TEST_F(RepeatedSteps, WhatNeverRepeatsIsNeverCaptured) {
  for (std::int32_t i = 0; i < 40; ++i) run(4, rows(i), 0, static_cast<float>(i));
  EXPECT_EQ(repeated().captures(), 0);
  check();
}

// A capture is of launches alone, as on a GPU: the emulator's runtime refuses what a GPU's would.
TEST(CaptureDeathTest, WaitsAndAllocatesNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_capture = [](const std::function<void(Runtime&, cudaStream_t)>& what) {
    const auto runtime = emulator::make_emulated_runtime({});
    cudaStream_t const stream = runtime->make_stream(0);
    runtime->begin_capture(stream);
    what(*runtime, stream);
  };
  EXPECT_DEATH(in_capture([](Runtime& runtime, cudaStream_t) { runtime.allocate(16); }),
               "allocates in a capture");
  EXPECT_DEATH(
      in_capture([](Runtime& runtime, cudaStream_t stream) { runtime.synchronize(stream); }),
      "waits in a capture");
}

// What a graph runs is what was captured: arguments as they were, memory as it is then.
TEST(Capture, KeepsArgumentsAndRunsWhenLaunched) {
  const auto runtime = emulator::make_emulated_runtime({.late = true});
  cudaStream_t const stream = runtime->make_stream(0);
  std::vector<int> ran;
  int argument = 1;
  runtime->begin_capture(stream);
  emulator::enqueue(stream, [&ran, argument] { ran.push_back(argument); });
  cudaGraphExec_t const graph = runtime->end_capture(stream);
  argument = 2;
  runtime->synchronize(stream);
  EXPECT_TRUE(ran.empty());
  runtime->launch(graph, stream);
  emulator::enqueue(stream, [&ran, argument] { ran.push_back(argument); });
  runtime->launch(graph, stream);
  runtime->synchronize(stream);
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 1}));
  runtime->destroy(graph);
  runtime->destroy(stream);
}

}  // namespace
}  // namespace saccade::cuda
