// Who computes which split of attention's keys, and the device that goes by it: every split once,
// scratch within its bound, launches that stay the same from step to step.
#include "ops/cuda/attention/attention_splits.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "base/rng.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_stream.h"

namespace saccade::cuda {
namespace {

struct Sequence {
  std::int32_t length, rows;  // its last ones
};

// The lists of sequences under a window.
struct Lists {
  Lists(const std::vector<Sequence>& of, std::int64_t heads, std::int64_t kv_heads,
        std::int32_t window = 0)
      : heads_(heads), kv_heads_(kv_heads) {
    for (const auto& [length, rows] : of) {
      sequences.push_back({static_cast<std::int32_t>(seen.size() / 2), rows, 0});
      for (std::int32_t row = 0; row < rows; ++row) {
        const std::int32_t end = length - rows + row + 1;
        seen.push_back(window > 0 ? std::max(0, end - window) : 0);
        seen.push_back(end);
      }
    }
    for (const bool few : {true, false}) {
      for (std::size_t i = 0; i < of.size(); ++i) {
        const std::int64_t rows = of[i].rows * heads / kv_heads;
        if ((rows <= kFewAttentionRows) != few) continue;
        for (std::int64_t at = 0; at < rows; at += kAttentionTileRows)
          tiles.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(at)});
      }
      if (few) few_tiles = static_cast<std::int64_t>(tiles.size());
    }
  }
  AttentionCall call(std::int64_t head_dim = 128) const {
    return {.tiles = tiles,
            .few_tiles = few_tiles,
            .sequences = sequences,
            .seen = seen,
            .heads = heads_,
            .kv_heads = kv_heads_,
            .head_dim = head_dim};
  }
  std::int64_t heads_, kv_heads_;
  std::vector<AttentionTile> tiles;
  std::int64_t few_tiles = 0;
  std::vector<AttentionSequence> sequences;
  std::vector<std::int32_t> seen;
};

Lists decode_of(const std::vector<std::int32_t>& lengths, std::int64_t heads, std::int64_t kv_heads,
                std::int32_t window = 0) {
  std::vector<Sequence> sequences;
  for (const std::int32_t length : lengths) sequences.push_back({length, 1});
  return {sequences, heads, kv_heads, window};
}

std::int64_t parts_of(const AttentionCall& call) {
  return static_cast<std::int64_t>(plan_splits(call).parts.size());
}

TEST(AttentionSplitPlan, OneSplitCostsNothing) {
  for (const std::int32_t length : {1, 255, 256}) {
    const AttentionSplitPlan plan = plan_splits(decode_of({length, 1, 40}, 28, 4).call());
    EXPECT_TRUE(plan.parts.empty() && plan.merges.empty());
    EXPECT_EQ(plan.band, 0);
    EXPECT_EQ(plan.partial_bytes, 0u);
  }
  EXPECT_EQ(parts_of(decode_of({257}, 28, 4).call()), 2);
  // A head that the tensor cores' kernels do not take.
  const Lists lists = decode_of({9000}, 28, 4);
  for (const std::int64_t head_dim : {13, 264}) {
    EXPECT_TRUE(plan_splits(lists.call(head_dim)).parts.empty());
    EXPECT_EQ(plan_splits(lists.call(head_dim)).partial_bytes, 0u);
  }
}

TEST(AttentionSplitPlan, EverySplitOnceInItsOwnPlace) {
  Rng rng(5);
  for (int i = 0; i < 300; ++i) {
    std::vector<Sequence> sequences(1 + rng.below(6));
    for (auto& [length, rows] : sequences) {
      length = static_cast<std::int32_t>(50 + rng.below(1500));
      rows = static_cast<std::int32_t>(1 + rng.below(rng.below(2) == 0 ? 6 : 50));
    }
    const auto window = static_cast<std::int32_t>(rng.below(2) * (1 + rng.below(700)));
    const Lists lists(sequences, 6, 2, window);
    const std::int64_t head_dim = rng.below(2) == 0 ? 128 : 256;
    AttentionCall call = lists.call(head_dim);
    call.least_parts = static_cast<std::int64_t>(rng.below(40));
    const auto max_walked = static_cast<std::int64_t>(1 + rng.below(4));
    const AttentionSplitPlan plan = share_splits(call, max_walked);
    EXPECT_EQ(plan.parts.size() & (plan.parts.size() - 1), 0u);
    EXPECT_GE(static_cast<std::int64_t>(plan.parts.size()), call.least_parts);
    std::map<std::int32_t, std::vector<AttentionPart>> by_tile;
    bool ended = false;
    for (std::size_t at = 0; at < plan.parts.size(); ++at) {
      const AttentionPart& part = plan.parts[at];
      ASSERT_FALSE(ended && part.tile >= 0);
      ended = part.tile < 0;
      if (ended) continue;
      by_tile[part.tile].push_back(part);
      ASSERT_EQ(part.tile < lists.few_tiles, static_cast<std::int64_t>(at) < plan.few_parts);
    }
    ASSERT_EQ(by_tile.size(), lists.tiles.size());
    ASSERT_EQ(plan.merges.size(), lists.tiles.size());
    std::set<std::int64_t> taken;  // rows of scratch
    for (const auto& [tile, parts] : by_tile) {
      const AttentionMerge& merge = plan.merges[static_cast<std::size_t>(tile)];
      const AttentionTile& of = lists.tiles[static_cast<std::size_t>(tile)];
      const AttentionSequence& sequence = lists.sequences[static_cast<std::size_t>(of.sequence)];
      const std::int32_t last = std::min(of.first + kAttentionTileRows, sequence.row_count * 3);
      const std::int32_t begin =
          lists.seen[static_cast<std::size_t>(2 * (sequence.row_begin + of.first / 3))];
      const std::int32_t end =
          lists.seen[static_cast<std::size_t>(2 * (sequence.row_begin + (last - 1) / 3)) + 1];
      const std::int32_t first_split = begin / kAttentionSplitTokens;
      const std::int32_t splits = (end - 1) / kAttentionSplitTokens + 1 - first_split;
      ASSERT_EQ(merge.rows, last - of.first);
      const auto take = [&](std::int32_t partial) {
        for (std::int32_t row = 0; row < merge.rows; ++row)
          EXPECT_TRUE(taken.insert(partial + row).second);
      };
      if (window == 0) {
        EXPECT_EQ(merge.splits > 1, splits > max_walked);
      }
      ASSERT_EQ(parts.size(), static_cast<std::size_t>(merge.splits));
      if (merge.splits == 1) {
        EXPECT_EQ(parts.front().split, -1);
        const bool placed = head_dim == 256 && tile >= lists.few_tiles && splits > 1;
        ASSERT_EQ(parts.front().partial >= 0, placed);
        if (placed) take(parts.front().partial);
        continue;
      }
      ASSERT_EQ(merge.splits, splits);
      if (tile < lists.few_tiles && joined_by_last(merge))
        EXPECT_EQ(plan.ended, lists.few_tiles * lists.kv_heads_);
      else
        EXPECT_LE(merge.rows, plan.merge_rows);
      for (std::int32_t s = 0; s < splits; ++s) {
        const AttentionPart& part = parts[static_cast<std::size_t>(s)];
        EXPECT_EQ(part.split, first_split + s);
        EXPECT_EQ(part.partial, merge.partial + s * merge.rows);
        take(part.partial);
      }
    }
    const std::int64_t row_bytes = call.kv_heads * (head_dim + kPartialStateFloats) * 4;
    const std::int64_t needed = taken.empty() ? 0 : (*taken.rbegin() + 1) * row_bytes;
    EXPECT_LE(needed, static_cast<std::int64_t>(plan.partial_bytes));
    EXPECT_EQ(needed, static_cast<std::int64_t>(taken.size()) * row_bytes);
  }
}

TEST(AttentionSplitPlan, FewSequencesAreSharedAndManyAreNot) {
  EXPECT_EQ(parts_of(decode_of({32768}, 28, 4).call()), 128);
  EXPECT_EQ(parts_of(decode_of(std::vector<std::int32_t>(8, 8192), 28, 4).call()), 256);
  // A block for each multiprocessor.
  EXPECT_EQ(parts_of(decode_of(std::vector<std::int32_t>(64, 8192), 28, 4).call()), 0);
  EXPECT_EQ(parts_of(decode_of(std::vector<std::int32_t>(64, 8192), 12, 2).call()), 0);
  // A chunk of many tiles, which wants scratch where its heads are wide.
  EXPECT_EQ(parts_of(Lists({{9000, 8192}}, 28, 4).call()), 0);
  EXPECT_EQ(plan_splits(Lists({{9000, 8192}}, 28, 4).call()).band, 0);
  EXPECT_GT(plan_splits(Lists({{9000, 8192}}, 28, 4).call(256)).band, 0);
}

// Of many short sequences and a long one the long one alone is shared.
TEST(AttentionSplitPlan, WhatDominatesIsShared) {
  std::vector<std::int32_t> lengths(128, 1024);
  lengths[50] = 32768;
  const Lists lists = decode_of(lengths, 28, 4);
  const AttentionSplitPlan plan = plan_splits(lists.call());
  ASSERT_EQ(plan.merges.size(), lists.tiles.size());
  for (std::size_t i = 0; i < lengths.size(); ++i)
    EXPECT_EQ(plan.merges[i].splits, i == 50 ? 128 : 1);
  EXPECT_EQ(plan.parts.size(), 256u);
  // What has been shared before is on, a little beyond the border.
  EXPECT_EQ(parts_of(decode_of(std::vector<std::int32_t>(100, 32 * 256), 4, 1).call()), 4096);
  const Lists more = decode_of(std::vector<std::int32_t>(115, 32 * 256), 4, 1);
  AttentionCall call = more.call();
  EXPECT_EQ(parts_of(call), 0);
  call.least_parts = 4096;
  EXPECT_EQ(parts_of(call), 4096);
}

TEST(AttentionSplitPlan, ScratchIsBounded) {
  Rng rng(6);
  bool walked = false;
  bool shared = false;
  for (int i = 0; i < 200; ++i) {
    std::vector<Sequence> sequences(1 + rng.below(200));
    for (auto& [length, rows] : sequences) {
      length = static_cast<std::int32_t>(600 + rng.below(100000));
      rows = static_cast<std::int32_t>(1 + rng.below(rng.below(2) == 0 ? 3 : 600));
    }
    const std::int64_t kv_heads = 1 + static_cast<std::int64_t>(rng.below(16));
    const std::int64_t head_dim = rng.below(2) == 0 ? 128 : 256;
    const Lists lists(sequences, kv_heads * 4, kv_heads);
    const AttentionSplitPlan plan = plan_splits(lists.call(head_dim));
    ASSERT_LE(static_cast<std::int64_t>(plan.partial_bytes), kMaxPartialBytes);
    walked = walked || plan.band > 0;
    shared = shared || !plan.parts.empty();
    ASSERT_FALSE(plan.band > 0 && !plan.parts.empty());
    const bool many = lists.few_tiles < static_cast<std::int64_t>(lists.tiles.size());
    if (plan.parts.empty()) {
      ASSERT_EQ(plan.band > 0, many && head_dim == 256);
    }
    if (plan.band > 0) {
      ASSERT_LE(plan.band * kAttentionTileRows * kv_heads * (head_dim + kPartialStateFloats) * 4,
                static_cast<std::int64_t>(plan.partial_bytes));
    }
  }
  EXPECT_TRUE(walked && shared);
}

// Of decode the launched blocks change when sequences have doubled, and under a window not at all.
TEST(AttentionSplitPlan, LaunchesStayTheSameFromStepToStep) {
  std::set<std::int64_t> growing;
  for (std::int32_t length = 257; length < 5000; ++length)
    growing.insert(parts_of(decode_of({length}, 28, 4).call()));
  EXPECT_EQ(growing, (std::set<std::int64_t>{2, 4, 8, 16, 32}));
  for (const std::int32_t window : {62, 256, 257, 512}) {
    std::set<std::int64_t> moving;
    for (std::int32_t length = 1000; length < 1625; ++length)
      moving.insert(parts_of(decode_of({length, length + 87, length + 237}, 28, 4, window).call()));
    EXPECT_EQ(moving.size(), 1u) << window;
  }
}

// Two sequences in decode, the first from 56 tokens on, over splits of 64: keys are written and
// read step by step.
class Decode {
 public:
  static constexpr std::int64_t kBlock = 16, kHeads = 4, kKvHeads = 2, kHeadDim = 16;
  static constexpr std::int64_t kBlocks = 6;  // of a sequence
  static constexpr std::int64_t kFrom = 56, kOther = 40;

  explicit Decode(std::uint64_t seed)
      : device_(emulator::make_emulated_runtime({.late = true, .seed = seed}), 1, DType::kBf16),
        cols_(kv_block_elements(DType::kBf16, kBlock, kKvHeads, kHeadDim)) {
    stream().split_keys_at(64);
    pool_ = random(2 * kBlocks, cols_, 1);
    layer_ = {.blocks = pool_.view(DType::kBf16, 2 * kBlocks, cols_),
              .block_size = kBlock,
              .kv_heads = kKvHeads,
              .head_dim = kHeadDim};
    for (std::int32_t b = 0; b < kBlocks; ++b) {
      tables_[0].push_back(2 * b);
      tables_[1].push_back(2 * b + 1);
    }
  }
  CudaStream& stream() { return static_cast<CudaStream&>(device_.lane(Lane::kStep)); }

  // Outputs of `steps` steps, [step][column of both rows]; `kind` below 0: launched one by one.
  std::vector<std::vector<float>> run(std::int64_t steps, std::int64_t kind) {
    const Buffer q = random(2 * steps, kHeads * kHeadDim, 2);
    const Buffer k = random(2 * steps, kKvHeads * kHeadDim, 3);
    const Buffer out = *device_.allocate(2 * kHeads * kHeadDim * 2, Space::kDevice);
    const Buffer q_now = *device_.allocate(2 * kHeads * kHeadDim * 2, Space::kDevice);
    const Buffer k_now = *device_.allocate(2 * kKvHeads * kHeadDim * 2, Space::kDevice);
    const auto q_view = [](const Buffer& of, std::int64_t rows) {
      return of.view(DType::kBf16, rows, kHeads * kHeadDim);
    };
    const auto k_view = [](const Buffer& of, std::int64_t rows) {
      return of.view(DType::kBf16, rows, kKvHeads * kHeadDim);
    };
    const Buffer back = *device_.allocate(
        static_cast<std::size_t>(steps * 2 * kHeads * kHeadDim) * 4, Space::kHost);
    const View results = back.view(DType::kF32, 2 * steps, kHeads * kHeadDim);
    for (std::int64_t step = 0; step < steps; ++step) {
      stream().copy(q_view(q, 2 * steps).row_range(2 * step, 2 * step + 2), q_view(q_now, 2));
      stream().copy(k_view(k, 2 * steps).row_range(2 * step, 2 * step + 2), k_view(k_now, 2));
      if (kind >= 0) stream().begin_repeated(kind);
      const std::array<SequenceSpan, 2> spans = {SequenceSpan{0, 1, kFrom + step, 0, tables_[0]},
                                                 SequenceSpan{1, 1, kOther, 0, tables_[1]}};
      const AttentionPlan& plan = stream().plan_attention(
          spans,
          {.block_size = kBlock, .heads = kHeads, .kv_heads = kKvHeads, .head_dim = kHeadDim});
      stream().kv_write({&plan, k_view(k_now, 2), k_view(k_now, 2), layer_});
      stream().paged_attention({.plan = &plan,
                                .q = q_view(q_now, 2),
                                .layer = layer_,
                                .scale = 0.3f,
                                .compute = DType::kBf16,
                                .out = q_view(out, 2)});
      if (kind >= 0) stream().end_repeated();
      stream().download(q_view(out, 2), results.row_range(2 * step, 2 * step + 2));
      stream().retire();
    }
    stream().synchronize();
    std::vector<std::vector<float>> rows;
    for (std::int64_t row = 0; row < 2 * steps; ++row)
      rows.emplace_back(results.row<float>(row), results.row<float>(row) + results.cols());
    return rows;
  }

 private:
  Buffer random(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
    Rng rng(seed);
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    for (float& value : values) value = static_cast<float>(rng.uniform() * 2 - 1);
    Buffer made = *device_.allocate(values.size() * 2, Space::kDevice);
    stream().upload(View(values.data(), DType::kF32, rows, cols),
                    made.view(DType::kBf16, rows, cols));
    return made;
  }

  CudaDevice device_;
  std::int64_t cols_;
  Buffer pool_;
  KvLayer layer_;
  std::vector<std::int32_t> tables_[2];
};

// Twenty steps over the border between two splits: at it other kernels are launched, and a graph is
// made anew; no other step does that.
TEST(SplitDecode, IsAGraphOnBothSidesOfABorder) {
  constexpr std::int64_t kSteps = 20;
  Decode plain(3);
  const auto want = plain.run(kSteps, -1);
  EXPECT_EQ(plain.stream().repeated().captures(), 0);
  for (const std::uint64_t seed : {4U, 5U}) {
    Decode graphs(seed);
    const auto got = graphs.run(kSteps, 2);
    for (std::size_t row = 0; row < want.size(); ++row) ASSERT_EQ(got[row], want[row]) << row;
    EXPECT_EQ(graphs.stream().repeated().captures(), 2);
    // Of 57 to 64 tokens the first two of eight steps are no graph. Of the twelve after them, five
    // are none: the first has the scratch made, and the second graph waits twice as long.
    EXPECT_EQ(graphs.stream().repeated().replays(), 6 + 7);
  }
}

}  // namespace
}  // namespace saccade::cuda
