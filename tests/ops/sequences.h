// For the tests of paged attention: sequences that run through a pool in steps of any size.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/ops/devices.h"

namespace saccade::paged {

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
inline void step(Device& device, Pool& pool, std::vector<Sequence*> sequences,
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
inline constexpr double kTolerance = 400 * kEpsilon;

// Where bf16 is allowed, queries, weights (and in segments keys and values) are off by up to 2^-9
// of themselves: scores by 2^-8 of |q| |k| scale <= 6, and an output by twice that of |v| <= 3. The
// errors are random; a quarter of their bound is never met.
inline constexpr double kBf16Tolerance = 0x1.0p-8 * 6 * 2 * 3 / 4;

inline void expect_close(const std::vector<std::vector<float>>& got,
                         const std::vector<std::vector<float>>& want,
                         double tolerance = kTolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t row = 0; row < got.size(); ++row) {
    ASSERT_EQ(got[row].size(), want[row].size());
    for (std::size_t col = 0; col < got[row].size(); ++col)
      ASSERT_NEAR(got[row][col], want[row][col], tolerance) << "row " << row << " col " << col;
  }
}

inline void expect_same_rows(const std::vector<std::vector<float>>& a,
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
inline std::vector<std::vector<float>> run_chunks(Device& device, const Shape& shape,
                                                  std::int64_t chunk) {
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

}  // namespace saccade::paged
