// The CUDA device's own code on the emulator with streams that run late and memory that the host
// may not touch: lists, plans and matrices arrive though the host has moved on, lanes wait for each
// other, memory is used again only when it is free; and a step in bf16, as on a GPU.
#include "ops/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "ops/cuda/emulator/emulated_device.h"
#include "ops/readback.h"

namespace saccade::cuda {
namespace {

class CudaDeviceTest : public ::testing::Test {
 protected:
  void make(std::uint64_t seed, DType activations = DType::kF32) {
    device = make_emulated_cuda_device({.late = true, .seed = seed}, activations);
    step = &device->lane(Lane::kStep);
    encode = &device->lane(Lane::kEncode);
  }
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    make(1);
  }
  Buffer sent(std::vector<float> values, std::int64_t rows, std::int64_t cols,
              DType type = DType::kF32) {
    Buffer made = *device->allocate(values.size() * size_of(type));
    step->upload(View(values.data(), DType::kF32, rows, cols), made.view(type, rows, cols));
    encode->wait(step->record());
    return made;  // `values` are gone
  }
  std::vector<float> read(View view) {
    Buffer floats = *device->allocate(
        static_cast<std::size_t>(view.rows() * view.cols()) * sizeof(float), Space::kHost);
    const View to(floats.data(), DType::kF32, view.rows(), view.cols());
    step->download(view, to);
    step->synchronize();
    return {to.row<float>(0), to.row<float>(0) + view.rows() * view.cols()};
  }

  std::unique_ptr<Device> device;
  Stream* step = nullptr;
  Stream* encode = nullptr;
};
using CudaDeviceDeathTest = CudaDeviceTest;

std::vector<float> counting(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST_F(CudaDeviceTest, MemoryIsZeroAndSaysWhereItIs) {
  const Buffer buffer = *device->allocate(40);
  EXPECT_EQ(buffer.space(), Space::kDevice);
  EXPECT_EQ(read(buffer.view(DType::kF32, 1, 10)), std::vector<float>(10, 0.0f));
  const Buffer pinned = *device->allocate(40, Space::kHost);
  EXPECT_EQ(pinned.space(), Space::kHost);
  EXPECT_EQ(pinned.view(DType::kF32, 1, 10).row<float>(0)[9], 0.0f);
}

TEST_F(CudaDeviceTest, ItsOwnMemoryEnds) {
  constexpr std::int64_t kTotal = 8 << 20;
  const auto small = make_emulated_cuda_device({.total_bytes = kTotal}, DType::kBf16);
  EXPECT_EQ(small->total_bytes(), kTotal);
  const std::int64_t free = small->free_bytes();
  EXPECT_LE(free, kTotal);
  {
    const auto half = small->allocate(kTotal / 2);
    ASSERT_TRUE(half);
    EXPECT_EQ(small->free_bytes(), free - kTotal / 2);
    const auto more = small->allocate(kTotal / 2 + 1);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ErrorCode::kExhausted);
  }
  EXPECT_EQ(small->free_bytes(), free);
}

TEST_F(CudaDeviceTest, MatricesAreConvertedAndKeepWhatLiesBetweenTheirRows) {
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Buffer wide = *device->allocate(5 * 8 * size_of(type));
    const View inner = wide.view(type, 5, 8).col_range(2, 5);
    std::vector<float> values = counting(15);
    step->upload(View(values.data(), DType::kF32, 5, 3), inner);
    values.assign(15, 0);
    EXPECT_EQ(read(inner), counting(15));
    const std::vector<float> all = read(wide.view(type, 5, 8));
    EXPECT_EQ(all[0], 0);
    EXPECT_EQ(all[5], 0);
    const Buffer copied = *device->allocate(15 * 4);
    step->copy(inner, copied.view(DType::kF32, 5, 3));
    EXPECT_EQ(read(copied.view(DType::kF32, 5, 3)), counting(15));
  }
}

// More than one band, and more than may be under way at once.
TEST_F(CudaDeviceTest, LargeMatricesGoInBands) {
  constexpr std::int64_t kRows = 40;
  constexpr std::int64_t kCols = 300'000;  // 1.2 MB a row, 48 MB in all, twice
  const Buffer to = *device->allocate(kRows * kCols * sizeof(float));
  for (int round = 0; round < 2; ++round) {
    std::vector<float> values(static_cast<std::size_t>(kRows * kCols));
    for (std::int64_t row = 0; row < kRows; ++row)
      values[static_cast<std::size_t>(row * kCols + row)] = static_cast<float>(row + 100 * round);
    step->upload(View(values.data(), DType::kF32, kRows, kCols),
                 to.view(DType::kF32, kRows, kCols));
  }
  const std::vector<float> got = read(to.view(DType::kF32, kRows, kCols).col_range(0, kRows));
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t col = 0; col < kRows; ++col)
      ASSERT_EQ(got[static_cast<std::size_t>(row * kRows + col)],
                row == col ? static_cast<float>(row + 100) : 0.0f);
}

// Each step's lists are read when its work runs, however many steps the host is ahead.
TEST_F(CudaDeviceTest, ListsOutliveTheHostsCopyAndTheirRetirement) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    make(seed);
    const Buffer x = sent(counting(8), 8, 1);
    constexpr std::int64_t kSteps = 30;
    const Buffer y = *device->allocate(kSteps * 2 * sizeof(float));
    for (std::int64_t i = 0; i < kSteps; ++i) {
      std::vector<std::int32_t> rows = {static_cast<std::int32_t>(i % 8),
                                        static_cast<std::int32_t>((i + 3) % 8)};
      const DeviceInts list = step->upload(rows);
      rows = {0, 0};
      step->mix_rows({.x = x.view(DType::kF32, 8, 1),
                      .rows = list,
                      .weights = {},
                      .out = y.view(DType::kF32, kSteps * 2, 1).row_range(2 * i, 2 * i + 2)});
      step->retire();
      if (i % 7 == 0) step->synchronize();
    }
    const std::vector<float> got = read(y.view(DType::kF32, kSteps * 2, 1));
    for (std::int64_t i = 0; i < kSteps; ++i) {
      EXPECT_EQ(got[static_cast<std::size_t>(2 * i)], static_cast<float>(i % 8 + 1));
      EXPECT_EQ(got[static_cast<std::size_t>(2 * i + 1)], static_cast<float>((i + 3) % 8 + 1));
    }
  }
}

TEST_F(CudaDeviceTest, LanesWaitForEvents) {
  const auto sum = [&](std::uint64_t seed, bool waits) {
    make(seed);
    const Buffer from = sent({1}, 1, 1);
    const Buffer to = *device->allocate(sizeof(float));
    encode->copy(from.view(DType::kF32, 1, 1), to.view(DType::kF32, 1, 1));
    if (waits) step->wait(encode->record());
    const float got = read(to.view(DType::kF32, 1, 1))[0];
    device->synchronize();
    return got;
  };
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    EXPECT_EQ(sum(seed, true), 1) << seed;
    wrong += sum(seed, false) == 1 ? 0 : 1;
  }
  EXPECT_GT(wrong, 2);
}

TEST_F(CudaDeviceTest, EventsPassAndOutliveTheDevice) {
  const Buffer x = sent(counting(4), 1, 4);
  Event event = step->record();
  for (int i = 0; i < 1000 && !event.passed(); ++i) {
  }
  EXPECT_TRUE(event.passed());
  encode->add(x.view(DType::kF32, 1, 4), x.view(DType::kF32, 1, 4), 1);
  event = encode->record();
  event.synchronize();
  EXPECT_TRUE(event.passed());
}

TEST_F(CudaDeviceDeathTest, TheHostIsKeptOut) {
  const Buffer x = sent(counting(4), 1, 4);
  EXPECT_DEATH(x.view(DType::kF32, 1, 4).row<float>(0), "the host reads a matrix of the device");
#if defined(__SANITIZE_ADDRESS__)
  step->synchronize();
  EXPECT_DEATH(std::abs(*reinterpret_cast<volatile float*>(x.data())), "use-after-poison");
#endif
  std::vector<float> pageable(4);
  EXPECT_DEATH(step->download(x.view(DType::kF32, 1, 4), View(pageable.data(), DType::kF32, 1, 4)),
               "pageable");
}

// --- a step in bf16: products on tensor cores, attention over pages, tolerances of bf16 ---

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(difference / size);
}

std::vector<float> random_bf16(std::int64_t count, Rng& rng) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(to_float(to_bf16(static_cast<float>(rng.uniform() * 2 - 1))));
  return values;
}

struct StepCase {
  std::int64_t heads, kv_heads, head_dim, window;
  DType cache = DType::kBf16;
};

// Norm, product, rotation, pages, attention, product with residual; two sequences, one of them in
// two chunks.
std::vector<float> run_step(Device& device, const StepCase& c) {
  constexpr std::int64_t kRows = 45;
  constexpr std::int64_t kWidth = 72;
  constexpr std::int64_t kBlock = 16;
  const DType type = device.activation_dtype();
  Stream& stream = device.lane(Lane::kStep);
  Rng rng(5);
  const std::int64_t q_cols = c.heads * c.head_dim;
  const std::int64_t kv_cols = c.kv_heads * c.head_dim;
  std::vector<float> x = random_bf16(kRows * kWidth, rng);
  std::vector<float> norm = random_bf16(kWidth, rng);
  // Small enough for scores around 1: attention is no choice of one token, which would turn an
  // error of a score into one of the result.
  std::vector<float> qkv = random_bf16((q_cols + 2 * kv_cols) * kWidth, rng);
  for (float& weight : qkv) weight /= 4;
  std::vector<float> out = random_bf16(kWidth * q_cols, rng);
  std::vector<float> frequencies;
  for (std::int64_t pair = 0; pair < c.head_dim / 2; ++pair)
    frequencies.push_back(
        std::pow(1e4f, -static_cast<float>(2 * pair) / static_cast<float>(c.head_dim)));
  const auto matrix = [](std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
    return View(values.data(), DType::kF32, rows, cols);
  };
  const auto on_device = [&](std::int64_t rows, std::int64_t cols, DType of) {
    return *device.allocate(static_cast<std::size_t>(rows * cols) * size_of(of));
  };
  const StoredMatrix qkv_part = matrix(qkv, q_cols + 2 * kv_cols, kWidth);
  const StoredMatrix out_part = matrix(out, kWidth, q_cols);
  const auto qkv_weight = device.pack({&qkv_part, 1}, DType::kBf16);
  const auto out_weight = device.pack({&out_part, 1}, DType::kBf16);
  const Buffer hidden_buffer = on_device(kRows, kWidth, type);
  const Buffer normed_buffer = on_device(kRows, kWidth, type);
  const Buffer norm_buffer = on_device(1, kWidth, DType::kF32);
  const Buffer qkv_buffer = on_device(kRows, q_cols + 2 * kv_cols, type);
  const Buffer attended_buffer = on_device(kRows, q_cols, type);
  const Buffer cos_buffer = on_device(kRows, c.head_dim / 2, DType::kF32);
  const Buffer sin_buffer = on_device(kRows, c.head_dim / 2, DType::kF32);
  const Buffer freq_buffer = on_device(1, c.head_dim / 2, DType::kF32);
  const std::int64_t page = kv_block_elements(c.cache, kBlock, c.kv_heads, c.head_dim);
  const Buffer pool = on_device(6, page, c.cache);
  const View hidden = hidden_buffer.view(type, kRows, kWidth);
  const View all = qkv_buffer.view(type, kRows, q_cols + 2 * kv_cols);
  const View attended = attended_buffer.view(type, kRows, q_cols);
  const View normed = normed_buffer.view(type, kRows, kWidth);
  stream.upload(matrix(x, kRows, kWidth), hidden);
  stream.upload(matrix(norm, 1, kWidth), norm_buffer.view(DType::kF32, 1, kWidth));
  stream.upload(matrix(frequencies, 1, c.head_dim / 2),
                freq_buffer.view(DType::kF32, 1, c.head_dim / 2));
  const KvLayer layer = {.blocks = pool.view(c.cache, 6, page),
                         .block_size = kBlock,
                         .kv_heads = c.kv_heads,
                         .head_dim = c.head_dim};
  const std::array<std::int32_t, 3> first = {4, 0, 2};
  const std::array<std::int32_t, 2> second = {5, 1};
  // Rows [begin, end) of x: what of the first sequence, and from which context on.
  const auto run = [&](std::int64_t begin, std::int64_t end, std::span<const SequenceSpan> spans,
                       const std::vector<std::int32_t>& positions) {
    const auto part = [&](View view) { return view.row_range(begin, end); };
    const View cos = part(cos_buffer.view(DType::kF32, kRows, c.head_dim / 2));
    const View sin = part(sin_buffer.view(DType::kF32, kRows, c.head_dim / 2));
    stream.norm({.x = part(hidden),
                 .add = {},
                 .weight = norm_buffer.view(DType::kF32, 1, kWidth),
                 .bias = {},
                 .out = part(normed)});
    stream.gemm({.x = part(normed),
                 .weight = qkv_weight.get(),
                 .bias = {},
                 .residual = {},
                 .y = part(all)});
    stream.rope_table({.positions = stream.upload(positions),
                       .inv_freq = freq_buffer.view(DType::kF32, 1, c.head_dim / 2),
                       .axis = {},
                       .tables = {},
                       .cos = cos,
                       .sin = sin});
    const View q = part(all).col_range(0, q_cols);
    const View k = part(all).col_range(q_cols, q_cols + kv_cols);
    const View v = part(all).col_range(q_cols + kv_cols, q_cols + 2 * kv_cols);
    stream.rope({q, c.head_dim, cos, sin});
    stream.rope({k, c.head_dim, cos, sin});
    const AttentionPlan& plan = stream.plan_attention(spans, {.block_size = kBlock,
                                                              .heads = c.heads,
                                                              .kv_heads = c.kv_heads,
                                                              .head_dim = c.head_dim,
                                                              .window = c.window});
    stream.kv_write({&plan, k, v, layer});
    stream.paged_attention({.plan = &plan,
                            .q = q,
                            .layer = layer,
                            .scale = 1 / std::sqrt(static_cast<float>(c.head_dim)),
                            .out = part(attended)});
    stream.gemm({.x = part(attended),
                 .weight = out_weight.get(),
                 .bias = {},
                 .residual = part(hidden),
                 .y = part(hidden)});
    stream.retire();
  };
  const auto positions = [](std::int32_t from, std::int32_t count) {
    std::vector<std::int32_t> list(static_cast<std::size_t>(count));
    std::iota(list.begin(), list.end(), from);
    return list;
  };
  std::vector<std::int32_t> places = positions(0, 20);
  for (const std::int32_t place : positions(0, 15)) places.push_back(place);
  run(0, 35,
      std::array{SequenceSpan{.row_begin = 0, .row_count = 20, .blocks = first},
                 SequenceSpan{.row_begin = 20, .row_count = 15, .blocks = second}},
      places);
  run(35, 45,
      std::array{SequenceSpan{.row_begin = 0, .row_count = 10, .context = 20, .blocks = first}},
      positions(20, 10));
  const Buffer staging = *device.allocate(kRows * kWidth * sizeof(float), Space::kHost);
  const View result = staging.view(DType::kF32, kRows, kWidth);
  stream.download(hidden, result);
  stream.synchronize();
  return {result.row<float>(0), result.row<float>(0) + kRows * kWidth};
}

TEST_F(CudaDeviceTest, AStepInBf16) {
  const auto reference = make_reference_device();
  for (const StepCase& c : {StepCase{4, 2, 64, 0}, StepCase{3, 1, 72, 9}, StepCase{2, 2, 80, 0},
                            StepCase{1, 1, 128, 20}}) {
    SCOPED_TRACE(fmt::format("heads {} over {} of {}", c.heads, c.kv_heads, c.head_dim));
    const std::vector<float> want = run_step(*reference, c);
    make(3, DType::kBf16);
    EXPECT_LT(relative_error(run_step(*device, c), want), 1e-2);
    make(4, DType::kF32);
    // Keys and values are rounded to bf16 in both.
    EXPECT_LT(relative_error(run_step(*device, c), want), 1e-3);
  }
}

// Numbers that differ by a rounding to bf16, 2^-9 of themselves, become different codes where they
// are as near to one: an element is then off by a step, of at most an eighth of itself, once in
// some twenty times; in the mean over tokens little is left of it.
TEST_F(CudaDeviceTest, AStepInBf16OverBytes) {
  const auto reference = make_reference_device();
  for (const DType cache : {DType::kI8, DType::kE4m3}) {
    for (const StepCase& c : {StepCase{4, 2, 64, 0, cache}, StepCase{3, 1, 72, 9, cache},
                              StepCase{2, 2, 80, 0, cache}, StepCase{1, 1, 128, 20, cache}}) {
      SCOPED_TRACE(fmt::format("{} heads {} over {} of {}", name_of(cache), c.heads, c.kv_heads,
                               c.head_dim));
      const std::vector<float> want = run_step(*reference, c);
      make(3, DType::kBf16);
      const double error = relative_error(run_step(*device, c), want);
      EXPECT_LT(error, 2e-2);
      StepCase numbers = c;
      numbers.cache = DType::kBf16;
      EXPECT_GT(relative_error(run_step(*reference, numbers), want), 1e-3);  // bytes are bytes
      make(4, DType::kF32);
      EXPECT_LT(relative_error(run_step(*device, c), want), 1e-3);
      RecordProperty(fmt::format("{}_{}", name_of(cache), c.head_dim), fmt::format("{}", error));
    }
  }
}

TEST_F(CudaDeviceTest, SegmentsAndWeightsInF32UnderBf16Activations) {
  make(7, DType::kBf16);
  Rng rng(2);
  const auto reference = make_reference_device();
  constexpr std::int64_t kRows = 50;
  constexpr std::int64_t kDim = 40;
  std::vector<float> x = random_bf16(kRows * 3 * kDim, rng);
  std::vector<float> w = random_bf16(33 * kDim, rng);
  const auto run = [&](Device& on) {
    const DType type = on.activation_dtype();
    Stream& stream = on.lane(Lane::kStep);
    const StoredMatrix part = View(w.data(), DType::kF32, 33, kDim);
    const auto weight = on.pack({&part, 1}, DType::kF32);
    const Buffer in = *on.allocate(kRows * 3 * kDim * size_of(type));
    const Buffer out = *on.allocate(kRows * kDim * size_of(type));
    const Buffer y = *on.allocate(kRows * 33 * sizeof(float));
    const View all = in.view(type, kRows, 3 * kDim);
    stream.upload(View(x.data(), DType::kF32, kRows, 3 * kDim), all);
    const SegmentPlan& plan = stream.plan_segments(std::array<std::int32_t, 4>{0, 13, 13, 50},
                                                   {.heads = 1, .kv_heads = 1, .head_dim = kDim});
    stream.segment_attention({.plan = &plan,
                              .q = all.col_range(0, kDim),
                              .k = all.col_range(kDim, 2 * kDim),
                              .v = all.col_range(2 * kDim, 3 * kDim),
                              .scale = 0.15f,
                              .out = out.view(type, kRows, kDim)});
    stream.gemm({.x = out.view(type, kRows, kDim),
                 .weight = weight.get(),
                 .bias = {},
                 .activation = Activation::kSilu,
                 .residual = {},
                 .y = y.view(DType::kF32, kRows, 33)});
    stream.retire();
    Buffer staging;
    const View got = *readable(stream, y.view(DType::kF32, kRows, 33), staging);
    return std::vector<float>(got.row<float>(0), got.row<float>(0) + kRows * 33);
  };
  EXPECT_LT(relative_error(run(*device), run(*reference)), 1e-2);
}

// The counts of a sequence that has ended serve another one, from zero.
TEST_F(CudaDeviceTest, CountsBeginAnewForEachSequence) {
  constexpr std::int64_t kVocab = 300;
  std::vector<float> logits(kVocab, 0.0f);
  logits[7] = 5;
  logits[9] = 4.5f;
  const Buffer on_device = sent(logits, 1, kVocab);
  const Buffer stats = *device->allocate(sizeof(RowStats));
  const Buffer sampled = *device->allocate(sizeof(SampledToken));
  const Buffer back = *device->allocate(sizeof(SampledToken), Space::kHost);
  const View row = on_device.view(DType::kF32, 1, kVocab);
  step->row_stats(row, stats.view(DType::kU8, 1, sizeof(RowStats)));
  const auto sample = [&](TokenCounts& counts) {
    const SamplingRow of{.counts = &counts, .repetition_penalty = 2};
    step->sample({.logits = row,
                  .stats = stats.view(DType::kU8, 1, sizeof(RowStats)),
                  .rows = {&of, 1},
                  .last_tokens = {},
                  .sampled = sampled.view(DType::kU8, 1, sizeof(SampledToken)),
                  .alternatives = {}});
    step->retire();
    step->download(sampled.view(DType::kU8, 1, sizeof(SampledToken)),
                   back.view(DType::kU8, 1, sizeof(SampledToken)));
    step->synchronize();
    SampledToken token;
    std::memcpy(&token, back.data(), sizeof(token));
    EXPECT_EQ(token.failed, 0);
    return token.token;
  };
  for (int round = 0; round < 3; ++round) {
    const auto counts = device->count_tokens({});
    EXPECT_EQ(sample(*counts), 7);  // halved from now on
    EXPECT_EQ(sample(*counts), 9);
    EXPECT_EQ(sample(*counts), 7);
    const auto seen = device->count_tokens(std::array<std::int32_t, 2>{7, -1});
    EXPECT_EQ(sample(*seen), 9);
  }
}

}  // namespace
}  // namespace saccade::cuda
