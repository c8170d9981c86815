// Paged and segment attention on every instruction set against the reference, and bit equality
// across chunkings, batches and threads.
#include <algorithm>

#include "ops/partial_attention.h"
#include "tests/ops/sequences.h"

namespace saccade {
namespace {

using paged::expect_close;
using paged::expect_same_rows;
using paged::kBf16Tolerance;
using paged::kTolerance;
using paged::Pool;
using paged::run_chunks;
using paged::Sequence;
using paged::Settings;
using paged::Shape;
using paged::step;

using PagedAttention = EveryCpu;
using SegmentAttention = EveryCpu;

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

// Each head's rows as what their codes stand for.
void round_heads(Matrix& rows, std::int64_t head_dim, DType dtype) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(head_dim));
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    for (std::int64_t first = 0; first < rows.cols(); first += head_dim) {
      std::vector<float> numbers;
      for (std::int64_t d = 0; d < head_dim; ++d) numbers.push_back(rows.at(row, first + d));
      const float scale = round_kv_row(numbers, dtype, codes);
      for (std::int64_t d = 0; d < head_dim; ++d) {
        const std::uint8_t code = codes[static_cast<std::size_t>(d)];
        const float number = dtype == DType::kI8
                                 ? static_cast<float>(static_cast<std::int8_t>(code))
                                 : to_float(E4m3{code});
        rows.set(row, first + d, number * scale);
      }
    }
  }
}

// Cross attention: rows that have no keys of their own, fewer or more than what they see, which may
// begin at any block. Against a sum written out here, over what the pool's codes stand for.
// NOLINTNEXTLINE(readability-function-size): the sum is written out
void expect_whole_prefix(Device& reference, Device& cpu, DType dtype) {
  constexpr std::int64_t kKvHeads = 2;
  constexpr std::int64_t kGroup = 3;
  constexpr std::int64_t kDim = 32;
  constexpr std::int64_t kBlock = 16;
  const std::int64_t keys = scaled(600, 90);
  Pool pool(keys / kBlock + 3, kBlock, kKvHeads, kDim, dtype);
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
  Matrix stored_k = k;
  Matrix stored_v = v;
  if (is_coded(dtype)) {
    round_heads(stored_k, kDim, dtype);
    round_heads(stored_v, kDim, dtype);
  }
  for (Device* each : {&reference, &cpu}) {
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
              score +=
                  double{q.at(row, head * kDim + d)} * stored_k.at(key, head / kGroup * kDim + d);
            sum += weights.emplace_back(std::exp(score * scale));
          }
          for (std::int64_t d = 0; d < kDim; ++d) {
            double want = 0;
            for (std::int64_t key = 0; key < looking[i].prefix; ++key)
              want += weights[static_cast<std::size_t>(key)] *
                      stored_v.at(begin + key, head / kGroup * kDim + d) / sum;
            ASSERT_NEAR(out.at(row, head * kDim + d), want, kTolerance)
                << "span " << i << " row " << row << " head " << head;
          }
        }
      }
    }
  }
}

TEST_P(PagedAttention, RowsThatOnlyLookSeeTheirWholePrefix) {
  const auto cpu = device();
  for (const DType dtype : {DType::kF32, DType::kI8, DType::kE4m3}) {
    SCOPED_TRACE(name_of(dtype));
    if (!(*cpu).caches(dtype)) continue;
    ASSERT_NO_FATAL_FAILURE(expect_whole_prefix(*reference_, *cpu, dtype));
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

// In parts of rows and heads, whatever they are, every number is that of the whole.
TEST_P(SegmentAttention, PartsAreThoseOfTheWhole) {
  if (on_cuda() || on_team())
    GTEST_SKIP() << "devices beside the host, and teams, are given the whole";
  const auto cpu = device();
  Rng rng(11);
  for (const Segments& shape : {Segments{{0, static_cast<std::int32_t>(scaled(600, 90))}, 4, 2, 80},
                                Segments{{0, 5, 5, 70, 130}, 6, 3, 32}}) {
    const std::int32_t rows = shape.begins.back();
    Matrix q(rows, shape.heads * shape.head_dim);
    Matrix k(rows, shape.kv_heads * shape.head_dim);
    Matrix v(rows, shape.kv_heads * shape.head_dim);
    q.random(rng, 2);
    k.random(rng, 2);
    v.random(rng, 2);
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      const Matrix want = run_segments(*cpu, shape, compute, q, k, v);
      Matrix got(rows, q.cols());
      Stream& stream = (*cpu).lane(Lane::kStep);
      auto* const parts = dynamic_cast<PartialAttention*>(&stream);
      ASSERT_NE(parts, nullptr);
      const SegmentAttentionArgs args = {
          .plan = &stream.plan_segments(
              shape.begins,
              {.heads = shape.heads, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim}),
          .q = q.view(),
          .k = k.view(),
          .v = v.view(),
          .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
          .compute = compute,
          .out = got.view()};
      const std::int64_t group = shape.heads / shape.kv_heads;
      for (std::int64_t head = 0; head < shape.heads;) {
        const std::int64_t heads =
            std::min<std::int64_t>(group * (1 + rng.below(2)), shape.heads - head);
        SegmentPart part = {.head_begin = head, .head_end = head + heads, .row_end = 1};
        part.keys_alone = rng.below(2) == 0;
        if (part.keys_alone) parts->attend_part(args, part);
        part.same_keys = std::exchange(part.keys_alone, false);
        for (std::int64_t row = 0; row < rows; part.same_keys = true) {
          part.row_begin = row;
          part.row_end = row = std::min<std::int64_t>(row + 1 + rng.below(100), rows);
          parts->attend_part(args, part);
        }
        head += heads;
      }
      stream.retire();
      for (std::int64_t row = 0; row < rows; ++row) expect_same_bits(got.row(row), want.row(row));
    }
  }
}

SACCADE_EVERY_CPU(PagedAttention);
SACCADE_EVERY_CPU(SegmentAttention);

}  // namespace
}  // namespace saccade
