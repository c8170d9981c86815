// Paged and segment attention on every instruction set against the reference, and bit equality
// across chunkings, batches and threads.
#include <algorithm>

#include "ops/test_devices.h"

namespace saccade {
namespace {

using PagedAttention = EveryCpu;
using SegmentAttention = EveryCpu;

// A pool of one layer whose blocks lie in shuffled order, with other bytes between them. What no
// token was written to is NaN: reading it shows.
struct Pool {
  Pool(std::int64_t blocks, std::int64_t size, std::int64_t kv_heads, std::int64_t head_dim,
       DType dtype)
      : bytes() {
    layer.block_size = size;
    layer.kv_heads = kv_heads;
    layer.head_dim = head_dim;
    const std::int64_t used = kv_block_elements(dtype, size, kv_heads, head_dim);
    const std::int64_t stride = used + 64 / static_cast<std::int64_t>(size_of(dtype));
    bytes.assign(static_cast<std::size_t>(blocks * stride) * size_of(dtype), std::byte{0xff});
    layer.blocks = View(bytes.data(), dtype, blocks, used, stride);
    for (std::int64_t i = 0; i < blocks; ++i) free.push_back(static_cast<std::int32_t>(i));
    Rng rng(3);
    std::shuffle(free.begin(), free.end(), rng);
  }
  std::int32_t take() {
    const std::int32_t block = free.back();
    free.pop_back();
    return block;
  }
  std::vector<std::byte> bytes;
  std::vector<std::int32_t> free;
  KvLayer layer;
};

// A whole sequence: its k, v and q, where it lives, and what attention gave for each of its rows.
struct Sequence {
  Sequence(Pool& pool, std::int64_t length, std::int64_t heads, Rng& rng)
      : q(length, heads * pool.layer.head_dim),
        k(length, pool.layer.kv_heads * pool.layer.head_dim),
        v(length, pool.layer.kv_heads * pool.layer.head_dim) {
    q.random(rng, 2);
    k.random(rng, 2);
    v.random(rng, 2);
    for (std::int64_t token = 0; token < length; token += pool.layer.block_size)
      blocks.push_back(pool.take());
    rows.resize(static_cast<std::size_t>(length));
  }
  std::int64_t length() const { return q.rows(); }
  Matrix q, k, v;
  std::int64_t prefix = 0;
  std::vector<TokenInterval> both_ways;
  std::int64_t done = 0;
  std::vector<std::int32_t> blocks;
  std::vector<std::vector<float>> rows;
};

struct Settings {
  std::int64_t heads = 2;
  std::int64_t window = 0;
  float softcap = 0;
  DType compute = DType::kF32;
};

// One engine step: the next counts[i] tokens of each sequence, in one call.
void step(Device& device, Pool& pool, std::vector<Sequence*> sequences,
          const std::vector<std::int64_t>& counts, const Settings& settings) {
  const std::int64_t head_dim = pool.layer.head_dim;
  std::int64_t rows = 0;
  std::vector<SequenceSpan> spans;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    SequenceSpan span;
    span.row_begin = rows;
    span.row_count = counts[i];
    span.context = sequences[i]->done;
    span.prefix = sequences[i]->prefix;
    span.both_ways = sequences[i]->both_ways;
    span.blocks = sequences[i]->blocks;
    spans.push_back(span);
    rows += counts[i];
  }
  Matrix q(rows, settings.heads * head_dim);
  Matrix k(rows, pool.layer.kv_heads * head_dim);
  Matrix v(rows, pool.layer.kv_heads * head_dim);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::int64_t row = 0; row < counts[i]; ++row) {
      const std::int64_t from = sequences[i]->done + row;
      const std::int64_t to = spans[i].row_begin + row;
      for (std::int64_t col = 0; col < q.cols(); ++col)
        q.set(to, col, sequences[i]->q.at(from, col));
      for (std::int64_t col = 0; col < k.cols(); ++col) {
        k.set(to, col, sequences[i]->k.at(from, col));
        v.set(to, col, sequences[i]->v.at(from, col));
      }
    }
  }
  Stream& stream = device.lane(Lane::kStep);
  const AttentionPlan& plan = stream.plan_attention(spans, {.block_size = pool.layer.block_size,
                                                            .heads = settings.heads,
                                                            .kv_heads = pool.layer.kv_heads,
                                                            .head_dim = head_dim,
                                                            .window = settings.window});
  stream.kv_write({&plan, k.view(), v.view(), pool.layer});
  Matrix out(rows, q.cols());
  PagedAttentionArgs args;
  args.plan = &plan;
  args.q = q.view();
  args.layer = pool.layer;
  args.scale = 1 / std::sqrt(static_cast<float>(head_dim));
  args.softcap = settings.softcap;
  args.compute = settings.compute;
  args.out = out.view();
  stream.paged_attention(args);
  stream.retire();
  EXPECT_TRUE(out.intact());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::int64_t row = 0; row < counts[i]; ++row)
      sequences[i]->rows[static_cast<std::size_t>(sequences[i]->done + row)] =
          out.row(spans[i].row_begin + row);
    sequences[i]->done += counts[i];
  }
}

// The output is a mean of values, weighted by probabilities whose relative error is that of the
// scores: a few epsilon of |q| |k| scale, here below 20. Values are below 3 in size. So 3 x 20 x a
// few epsilon, whatever the length; 400 epsilon leaves room.
constexpr double kTolerance = 400 * kEpsilon;

// Where bf16 is allowed, queries, weights (and in segments keys and values) are off by up to 2^-9
// of themselves: scores by 2^-8 of |q| |k| scale <= 6, and an output by twice that of |v| <= 3. The
// errors are random; a quarter of their bound is never met.
constexpr double kBf16Tolerance = 0x1.0p-8 * 6 * 2 * 3 / 4;

void expect_close(const std::vector<std::vector<float>>& got,
                  const std::vector<std::vector<float>>& want, double tolerance = kTolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t row = 0; row < got.size(); ++row) {
    ASSERT_EQ(got[row].size(), want[row].size());
    for (std::size_t col = 0; col < got[row].size(); ++col)
      ASSERT_NEAR(got[row][col], want[row][col], tolerance) << "row " << row << " col " << col;
  }
}

void expect_same_rows(const std::vector<std::vector<float>>& a,
                      const std::vector<std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t row = 0; row < a.size(); ++row) {
    SCOPED_TRACE(fmt::format("row {}", row));
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(a[row], b[row]));
  }
}

struct Shape {
  std::int64_t length, kv_heads, group, head_dim, block_size;
  DType dtype;
  std::int64_t window = 0;
  std::int64_t prefix = 0;
  float softcap = 0;
  DType compute = DType::kF32;
  std::vector<TokenInterval> both_ways = {};
};

// Runs one sequence in chunks of `chunk` on a fresh pool; blocks that the window let go become -1.
std::vector<std::vector<float>> run_chunks(Device& device, const Shape& shape, std::int64_t chunk) {
  Pool pool(shape.length / shape.block_size + 3, shape.block_size, shape.kv_heads, shape.head_dim,
            shape.dtype);
  Rng rng(static_cast<std::uint64_t>(shape.length + shape.head_dim));
  Settings settings;
  settings.heads = shape.kv_heads * shape.group;
  settings.window = shape.window;
  settings.softcap = shape.softcap;
  settings.compute = shape.compute;
  Sequence sequence(pool, shape.length, settings.heads, rng);
  sequence.prefix = shape.prefix;
  sequence.both_ways = shape.both_ways;
  while (sequence.done < sequence.length()) {
    std::int64_t count = std::min(chunk, sequence.length() - sequence.done);
    if (sequence.done < shape.prefix) count = std::max(count, shape.prefix - sequence.done);
    for (const TokenInterval whole : shape.both_ways) {
      if (whole.begin < sequence.done + count) count = std::max(count, whole.end - sequence.done);
    }
    if (shape.window > 0) {
      for (std::int64_t block = 0;
           (block + 1) * shape.block_size <= sequence.done - shape.window + 1; ++block)
        sequence.blocks[static_cast<std::size_t>(block)] = -1;
    }
    step(device, pool, {&sequence}, {count}, settings);
  }
  return sequence.rows;
}

TEST_P(PagedAttention, MatchesReference) {
  const auto cpu = device();
  std::vector<Shape> shapes = {
      {1, 1, 1, 8, 1, DType::kF32},
      {5, 2, 1, 16, 4, DType::kF32},
      {63, 1, 3, 24, 16, DType::kF32},
      {64, 2, 6, 64, 16, DType::kBf16},
      {65, 1, 7, 72, 16, DType::kF16},
      {130, 2, 2, 80, 16, DType::kF32},
      {100, 1, 4, 96, 32, DType::kBf16},
      {90, 2, 6, 128, 16, DType::kBf16},
      {70, 1, 8, 256, 16, DType::kF16},
      {40, 3, 1, 40, 7, DType::kF32},
      {150, 1, 2, 32, 16, DType::kF32, 40},
      {150, 1, 2, 32, 16, DType::kBf16, 1},
      {200, 2, 2, 64, 16, DType::kF32, 64},
      {120, 1, 2, 32, 16, DType::kF32, 0, 70},
      {120, 1, 2, 32, 16, DType::kF32, 33, 20},
      {.length = 120,
       .kv_heads = 1,
       .group = 2,
       .head_dim = 32,
       .block_size = 16,
       .dtype = DType::kF32,
       .both_ways = {{0, 9}, {30, 70}, {70, 75}}},
      {.length = 700,
       .kv_heads = 2,
       .group = 2,
       .head_dim = 32,
       .block_size = 16,
       .dtype = DType::kBf16,
       .window = 70,
       .both_ways = {{11, 60}, {400, 656}, {690, 700}}},
      {120, 1, 4, 256, 16, DType::kBf16, 0, 0, 5.0f},
      {20, 1, 200, 8, 16, DType::kF32},
      {1100, 1, 2, 16, 16, DType::kF32},
      {1, 1, 1, 8, 1, DType::kI8},
      {65, 1, 7, 72, 16, DType::kI8},
      {90, 2, 6, 128, 16, DType::kI8},
      {40, 3, 1, 40, 7, DType::kE4m3},
      {100, 1, 4, 96, 32, DType::kE4m3},
      {150, 1, 2, 32, 16, DType::kI8, 40},
      {120, 1, 2, 32, 16, DType::kE4m3, 33, 20},
      {120, 1, 4, 256, 16, DType::kI8, 0, 0, 5.0f},
      {20, 1, 200, 8, 16, DType::kE4m3},
      {.length = 700,
       .kv_heads = 2,
       .group = 2,
       .head_dim = 32,
       .block_size = 16,
       .dtype = DType::kE4m3,
       .window = 70,
       .both_ways = {{11, 60}, {400, 656}, {690, 700}}},
      {1100, 1, 2, 16, 16, DType::kI8},
  };
  std::erase_if(shapes, [&](const Shape& shape) {
    return shape.length > scaled(2000, 150) || !(*cpu).caches(shape.dtype);
  });
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(fmt::format(
        "length {} kv_heads {} group {} head_dim {} block {} {} window {} "
        "prefix {} softcap {} intervals {}",
        shape.length, shape.kv_heads, shape.group, shape.head_dim, shape.block_size,
        name_of(shape.dtype), shape.window, shape.prefix, shape.softcap, shape.both_ways.size()));
    const auto want = run_chunks(*reference_, shape, shape.length);
    for (const std::int64_t chunk : {std::int64_t{17}, shape.length})
      ASSERT_NO_FATAL_FAILURE(expect_close(run_chunks(*cpu, shape, chunk), want));
    Shape bf16 = shape;
    bf16.compute = DType::kBf16;
    ASSERT_NO_FATAL_FAILURE(expect_close(run_chunks(*cpu, bf16, 33), want, kBf16Tolerance));
  }
}

// What token `row` of `length` gets as the last of `end` tokens that sees `seen` of them: all that
// it can be told about an interval, without one.
std::vector<float> as_last(Device& device, const Shape& shape, std::int64_t row, std::int64_t end,
                           std::int64_t seen) {
  Pool pool(shape.length / shape.block_size + 3, shape.block_size, shape.kv_heads, shape.head_dim,
            shape.dtype);
  Rng rng(static_cast<std::uint64_t>(shape.length + shape.head_dim));
  Settings settings;
  settings.heads = shape.kv_heads * shape.group;
  settings.window = seen;
  Sequence sequence(pool, shape.length, settings.heads, rng);
  for (std::int64_t col = 0; col < sequence.q.cols(); ++col)
    sequence.q.set(end - 1, col, sequence.q.at(row, col));
  step(device, pool, {&sequence}, {end}, settings);
  return sequence.rows[static_cast<std::size_t>(end - 1)];
}

TEST_P(PagedAttention, TokensOfAnIntervalSeeItsEnd) {
  const auto cpu = device();
  Shape shape = {100, 2, 2, 32, 16, DType::kF32};
  shape.both_ways = {{16, 40}, {70, 90}};
  Shape causal = shape;
  causal.both_ways = {};
  for (const std::int64_t window : {0, 30}) {
    SCOPED_TRACE(fmt::format("window {}", window));
    shape.window = causal.window = window;
    const auto got = run_chunks(*cpu, shape, 13);
    const auto by_reference = run_chunks(*reference_, shape, 13);
    const auto unlike = run_chunks(*cpu, causal, 13);
    for (std::int64_t row = 0; row < shape.length; ++row) {
      SCOPED_TRACE(fmt::format("row {}", row));
      const auto at = static_cast<std::size_t>(row);
      std::int64_t end = row + 1;
      for (const TokenInterval whole : shape.both_ways)
        if (whole.begin <= row && row < whole.end) end = whole.end;
      const std::int64_t begin = window > 0 ? std::max<std::int64_t>(0, row + 1 - window) : 0;
      const auto want = as_last(*reference_, shape, row, end, end - begin);
      ASSERT_NO_FATAL_FAILURE(expect_close({got[at]}, {want}));
      ASSERT_NO_FATAL_FAILURE(expect_close({by_reference[at]}, {want}));
      EXPECT_EQ(got[at] == unlike[at], end == row + 1);
    }
  }
}

TEST_P(PagedAttention, RowsDoNotDependOnChunksOrThreads) {
  std::vector<Shape> shapes = {
      {700, 2, 6, 128, 16, DType::kBf16},
      {650, 1, 2, 72, 16, DType::kF32},
      {300, 1, 3, 64, 16, DType::kF16, 50},
      {300, 2, 2, 80, 16, DType::kF32, 200},
      {300, 1, 2, 64, 16, DType::kF32, 0, 130},
      {700, 2, 6, 128, 16, DType::kBf16, 0, 0, 0, DType::kBf16},
      {600, 1, 4, 72, 16, DType::kBf16, 270, 0, 3.0f, DType::kBf16},
      {300, 1, 2, 80, 16, DType::kBf16, 0, 140, 0, DType::kBf16},
      {300, 1, 2, 64, 16, DType::kBf16, 50, 0, 0, DType::kBf16, {{20, 45}, {100, 160}}},
      {700, 2, 6, 128, 16, DType::kI8},
      {600, 1, 4, 72, 16, DType::kE4m3, 270, 0, 3.0f},
      {700, 2, 6, 128, 16, DType::kE4m3, 0, 0, 0, DType::kBf16},
      {300, 1, 2, 64, 16, DType::kI8, 50, 0, 0, DType::kBf16, {{20, 45}, {100, 160}}},
  };
  if (emulated())
    shapes = {{130, 2, 3, 64, 16, DType::kBf16},
              {100, 1, 2, 72, 16, DType::kF32, 40},
              {90, 1, 2, 32, 16, DType::kF16, 0, 70},
              {100, 1, 2, 32, 16, DType::kBf16, 50, 0, 3.0f, DType::kBf16, {{20, 45}, {60, 90}}},
              {100, 1, 2, 72, 16, DType::kI8, 40},
              {90, 1, 2, 32, 16, DType::kE4m3, 0, 70, 0, DType::kBf16}};
  const bool bytes = (*device()).caches(DType::kI8);
  std::erase_if(shapes, [&](const Shape& shape) { return is_coded(shape.dtype) && !bytes; });
  for (const Shape& shape : shapes) {
    const auto want = run_chunks(*device(1), shape, shape.length);
    for (const int threads : {1, 3}) {
      const auto cpu = device(threads);
      for (const std::int64_t chunk : {1, 16, 37, 512}) {
        if (chunk == 1 && threads != 1) continue;  // slow, and one row is one tile anyway
        SCOPED_TRACE(
            fmt::format("head_dim {} chunk {} threads {}", shape.head_dim, chunk, threads));
        ASSERT_NO_FATAL_FAILURE(expect_same_rows(run_chunks(*cpu, shape, chunk), want));
      }
    }
  }
}

void expect_any_batch(Device& cpu, DType dtype) {
  constexpr std::int64_t kHeads = 4;
  const std::vector<std::int64_t> lengths = {1, 40, scaled(610, 150), scaled(130, 70), 64};
  Settings settings;
  settings.heads = kHeads;
  const auto make = [&](Pool& pool) {
    std::vector<Sequence> sequences;
    Rng rng(11);
    for (const std::int64_t length : lengths) sequences.emplace_back(pool, length, kHeads, rng);
    return sequences;
  };
  Pool alone_pool(100, 16, 2, 64, dtype);
  std::vector<Sequence> alone = make(alone_pool);
  for (Sequence& sequence : alone)
    step(cpu, alone_pool, {&sequence}, {sequence.length()}, settings);
  Pool pool(100, 16, 2, 64, dtype);
  std::vector<Sequence> together = make(pool);
  Rng rng(5);
  while (true) {
    std::vector<Sequence*> chosen;
    std::vector<std::int64_t> counts;
    for (Sequence& sequence : together) {
      const std::int64_t left = sequence.length() - sequence.done;
      if (left == 0) continue;
      chosen.push_back(&sequence);
      counts.push_back(std::min<std::int64_t>(left, static_cast<std::int64_t>(rng.below(150))));
    }
    if (chosen.empty()) break;
    step(cpu, pool, chosen, counts, settings);
  }
  for (std::size_t i = 0; i < lengths.size(); ++i)
    ASSERT_NO_FATAL_FAILURE(expect_same_rows(together[i].rows, alone[i].rows));
}

TEST_P(PagedAttention, RowsDoNotDependOnTheBatch) {
  const auto cpu = device();
  for (const DType dtype : {DType::kBf16, DType::kI8, DType::kE4m3}) {
    SCOPED_TRACE(name_of(dtype));
    if (!(*cpu).caches(dtype)) continue;
    ASSERT_NO_FATAL_FAILURE(expect_any_batch(*cpu, dtype));
  }
}

// What is stored in bytes is the definition's, whatever the instruction set and the chunks.
TEST_P(PagedAttention, BytesInThePoolAreTheReferences) {
  for (const DType dtype : {DType::kI8, DType::kE4m3}) {
    if (!(*device()).caches(dtype)) GTEST_SKIP() << "no keys and values in bytes";
    const auto stored = [&](Device& device, std::int64_t chunk) {
      Pool pool(9, 16, 2, 72, dtype);
      Rng rng(8);
      Sequence sequence(pool, 100, 4, rng);
      Settings settings;
      settings.heads = 4;
      while (sequence.done < sequence.length())
        step(device, pool, {&sequence}, {std::min(chunk, sequence.length() - sequence.done)},
             settings);
      return pool.bytes;
    };
    const auto want = stored(*reference_, 100);
    for (const std::int64_t chunk : {1, 17, 100}) EXPECT_EQ(stored(*device(3), chunk), want);
  }
}

// How far attention over bytes is from attention over the numbers that they were made of. A key's
// element is off by half a step at most: for kI8 the row's scale, for kE4m3 a sixteenth of the
// element, or half of 2^-9 of the scale where it is smaller. So is a score, by |q| times that
// summed over the dims, times `scale`, and no score by more than the largest such D: weights are
// off by factors within e^(2 D), which moves a mean of values below V by (e^(2 D) - 1) V at most;
// and the values themselves are off by half a step of theirs.
TEST_P(PagedAttention, BytesAreWithinTheirStepsOfNumbers) {
  const auto cpu = device();
  for (const DType dtype : {DType::kI8, DType::kE4m3}) {
    SCOPED_TRACE(name_of(dtype));
    if (!(*cpu).caches(dtype)) GTEST_SKIP() << "no keys and values in bytes";
    const Shape numbers = {scaled(200, 60), 2, 3, 64, 16, DType::kF32};
    Shape bytes = numbers;
    bytes.dtype = dtype;
    const auto want = run_chunks(*reference_, numbers, numbers.length);
    const auto got = run_chunks(*cpu, bytes, 37);
    Pool pool(numbers.length / 16 + 3, 16, 2, 64, DType::kF32);
    Rng rng(static_cast<std::uint64_t>(numbers.length + numbers.head_dim));
    const Sequence sequence(pool, numbers.length, 6, rng);
    const auto off = [&](double element, double largest) {  // by the rounding
      return dtype == DType::kI8 ? largest / 127 / 2
                                 : std::max(std::abs(element) / 16, largest / 448 * 0x1.0p-10);
    };
    double most_score = 0;
    double most_value = 0;
    double value_off = 0;
    for (std::int64_t token = 0; token < numbers.length; ++token) {
      for (std::int64_t head = 0; head < 2; ++head) {
        double largest_k = 0;
        double largest_v = 0;
        for (std::int64_t d = head * 64; d < head * 64 + 64; ++d) {
          largest_k = std::max(largest_k, std::abs(double{sequence.k.at(token, d)}));
          largest_v = std::max(largest_v, std::abs(double{sequence.v.at(token, d)}));
        }
        most_value = std::max(most_value, largest_v);
        value_off = std::max(value_off, off(largest_v, largest_v));
        for (std::int64_t query = 0; query < 3; ++query) {
          for (std::int64_t row = token; row < numbers.length; ++row) {
            double moved = 0;
            for (std::int64_t d = 0; d < 64; ++d)
              moved += std::abs(double{sequence.q.at(row, (head * 3 + query) * 64 + d)}) *
                       off(sequence.k.at(token, head * 64 + d), largest_k);
            most_score = std::max(most_score, moved / 8);
          }
        }
      }
    }
    const double bound = std::expm1(2 * most_score) * most_value + value_off + kTolerance;
    EXPECT_LT(bound, most_value * 3);  // says something
    double most = 0;
    for (std::size_t row = 0; row < got.size(); ++row)
      for (std::size_t col = 0; col < got[row].size(); ++col)
        most = std::max(most, std::abs(double{got[row][col]} - double{want[row][col]}));
    EXPECT_LT(most, bound);
    EXPECT_GT(most, 100 * kTolerance / 400);  // something was rounded
    RecordProperty(std::string(name_of(dtype)), fmt::format("{} of {}", most, bound));
  }
}

// Cross attention: rows that have no keys of their own, fewer or more than what they see, which may
// begin at any block. Against a sum written out here.
TEST_P(PagedAttention, RowsThatOnlyLookSeeTheirWholePrefix) {
  constexpr std::int64_t kKvHeads = 2;
  constexpr std::int64_t kGroup = 3;
  constexpr std::int64_t kDim = 32;
  constexpr std::int64_t kBlock = 16;
  const std::int64_t keys = scaled(600, 90);
  Pool pool(keys / kBlock + 3, kBlock, kKvHeads, kDim, DType::kF32);
  std::vector<std::int32_t> blocks;
  for (std::int64_t token = 0; token < keys; token += kBlock) blocks.push_back(pool.take());
  struct Looking {
    std::int64_t rows, prefix, first_block;
  };
  const std::vector<Looking> looking = {
      {3, keys, 0}, {1, 20, 0}, {5, keys - 32, 2}, {1, 1, 1}, {20, 20, 0}};
  std::vector<SequenceSpan> spans;
  std::int64_t rows = 0;
  for (const Looking& each : looking) {
    spans.push_back({.row_begin = rows,
                     .row_count = each.rows,
                     .context = 0,
                     .prefix = each.prefix,
                     .blocks = std::span<const std::int32_t>(blocks).subspan(
                         static_cast<std::size_t>(each.first_block))});
    rows += each.rows;
  }
  Rng rng(21);
  Matrix k(keys, kKvHeads * kDim);
  Matrix v(keys, kKvHeads * kDim);
  Matrix q(rows, kKvHeads * kGroup * kDim);
  k.random(rng, 2);
  v.random(rng, 2);
  q.random(rng, 2);
  const float scale = 1 / std::sqrt(static_cast<float>(kDim));
  const AttentionGeometry geometry = {.block_size = kBlock,
                                      .heads = kKvHeads * kGroup,
                                      .kv_heads = kKvHeads,
                                      .head_dim = kDim,
                                      .window = 0};
  const SequenceSpan whole = {.row_begin = 0, .row_count = keys, .context = 0, .blocks = blocks};
  const auto cpu = device();
  for (Device* each : {&*reference_, &*cpu}) {
    Stream& stream = each->lane(Lane::kStep);
    stream.kv_write(
        {&stream.plan_attention({&whole, 1}, geometry), k.view(), v.view(), pool.layer});
    Matrix out(rows, q.cols());
    PagedAttentionArgs args;
    args.plan = &stream.plan_attention(spans, geometry);
    args.q = q.view();
    args.layer = pool.layer;
    args.scale = scale;
    args.out = out.view();
    stream.paged_attention(args);
    stream.retire();
    for (std::size_t i = 0; i < looking.size(); ++i) {
      const std::int64_t begin = looking[i].first_block * kBlock;
      for (std::int64_t row = spans[i].row_begin; row < spans[i].row_begin + looking[i].rows;
           ++row) {
        for (std::int64_t head = 0; head < kKvHeads * kGroup; ++head) {
          std::vector<double> weights;
          double sum = 0;
          for (std::int64_t key = begin; key < begin + looking[i].prefix; ++key) {
            double score = 0;
            for (std::int64_t d = 0; d < kDim; ++d)
              score += double{q.at(row, head * kDim + d)} * k.at(key, head / kGroup * kDim + d);
            sum += weights.emplace_back(std::exp(score * scale));
          }
          for (std::int64_t d = 0; d < kDim; ++d) {
            double want = 0;
            for (std::int64_t key = 0; key < looking[i].prefix; ++key)
              want += weights[static_cast<std::size_t>(key)] *
                      v.at(begin + key, head / kGroup * kDim + d) / sum;
            ASSERT_NEAR(out.at(row, head * kDim + d), want, kTolerance)
                << "span " << i << " row " << row << " head " << head;
          }
        }
      }
    }
  }
}

struct Segments {
  std::vector<std::int32_t> begins;
  std::int64_t heads, kv_heads, head_dim;
};

Matrix run_segments(Device& device, const Segments& shape, DType compute, Matrix& q, Matrix& k,
                    Matrix& v) {
  Matrix out(q.rows(), q.cols());
  SegmentAttentionArgs args;
  Stream& stream = device.lane(Lane::kStep);
  args.plan = &stream.plan_segments(
      shape.begins, {.heads = shape.heads, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim});
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  args.compute = compute;
  args.out = out.view();
  stream.segment_attention(args);
  stream.retire();
  return out;
}

TEST_P(SegmentAttention, MatchesReference) {
  const auto cpu = device();
  // So many that their packed keys and values are not held for all heads at once.
  Segments many{{0}, 4, 2, 256};
  for (std::int32_t end = 3; end <= scaled(120, 12); end += 3) many.begins.push_back(end);
  const std::vector<Segments> shapes = {
      many,
      {{0, 0}, 1, 1, 8},
      {{0, 1}, 2, 2, 8},
      {{0, 5, 5, 70}, 4, 4, 64},
      {{0, 64, 128}, 2, 2, 72},
      {{0, 210}, 2, 2, 80},
      {{0, 33}, 6, 2, 96},
      {{0, 3, 40}, 2, 1, 128},
      {{0, 20}, 1, 1, 256},
      {{0, 100}, 1, 1, 24},
      {{0, static_cast<std::int32_t>(scaled(1100, 140))}, 1, 1, 16},
  };
  for (const Segments& shape : shapes) {
    SCOPED_TRACE(fmt::format("rows {} head_dim {}", shape.begins.back(), shape.head_dim));
    Rng rng(9);
    Matrix q(shape.begins.back(), shape.heads * shape.head_dim);
    Matrix k(shape.begins.back(), shape.kv_heads * shape.head_dim);
    Matrix v(shape.begins.back(), shape.kv_heads * shape.head_dim);
    q.random(rng, 2);
    k.random(rng, 2);
    v.random(rng, 2);
    const Matrix want = run_segments(*reference_, shape, DType::kF32, q, k, v);
    const Matrix got = run_segments(*cpu, shape, DType::kF32, q, k, v);
    expect_near(got, want, [](std::int64_t, std::int64_t) { return kTolerance; });
    const Matrix coarse = run_segments(*cpu, shape, DType::kBf16, q, k, v);
    expect_near(coarse, want, [](std::int64_t, std::int64_t) { return kBf16Tolerance; });
  }
}

TEST_P(SegmentAttention, RowsDoNotDependOnOtherSegmentsOrThreads) {
  Rng rng(9);
  const auto first = static_cast<std::int32_t>(scaled(300, 70));
  const auto second = static_cast<std::int32_t>(scaled(390, 90));
  const std::int32_t rows = first + second;
  const Segments both{{0, first, rows}, 2, 2, 80};
  Matrix q(rows, 160);
  Matrix k(rows, 160);
  Matrix v(rows, 160);
  q.random(rng, 2);
  k.random(rng, 2);
  v.random(rng, 2);
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    const Matrix want = run_segments(*device(1), both, compute, q, k, v);
    const Matrix threaded = run_segments(*device(3), both, compute, q, k, v);
    Matrix q2(second, 160);
    Matrix k2(second, 160);
    Matrix v2(second, 160);
    for (std::int64_t row = 0; row < second; ++row) {
      for (std::int64_t col = 0; col < 160; ++col) {
        q2.set(row, col, q.at(first + row, col));
        k2.set(row, col, k.at(first + row, col));
        v2.set(row, col, v.at(first + row, col));
      }
    }
    const Matrix alone = run_segments(*device(2), {{0, second}, 2, 2, 80}, compute, q2, k2, v2);
    for (std::int64_t row = 0; row < rows; ++row) {
      expect_same_bits(threaded.row(row), want.row(row));
      if (row >= first) expect_same_bits(alone.row(row - first), want.row(row));
    }
  }
}

SACCADE_EVERY_CPU(PagedAttention);
SACCADE_EVERY_CPU(SegmentAttention);

}  // namespace
}  // namespace saccade
