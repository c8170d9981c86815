// Who computes which split of attention's keys, and the device that goes by it: every split once,
// scratch within its bound, launches that stay the same from step to step.
#include "ops/cuda/attention_splits.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "base/rng.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulated_stream.h"

namespace saccade::cuda {
namespace {

// The lists of sequences with their last `rows` rows, under a window.
struct Lists {
  Lists(const std::vector<std::int32_t>& lengths, std::int32_t rows, std::int64_t heads,
        std::int64_t kv_heads, std::int32_t window = 0)
      : heads_(heads), kv_heads_(kv_heads) {
    for (const std::int32_t length : lengths) {
      const auto index = static_cast<std::int32_t>(sequences.size());
      sequences.push_back({static_cast<std::int32_t>(seen.size() / 2), rows, 0});
      for (std::int32_t row = 0; row < rows; ++row) {
        const std::int32_t end = length - rows + row + 1;
        seen.push_back(window > 0 ? std::max(0, end - window) : 0);
        seen.push_back(end);
      }
      for (std::int64_t at = 0; at < rows * heads / kv_heads; at += kAttentionTileRows)
        tiles.push_back({index, static_cast<std::int32_t>(at)});
    }
  }
  AttentionCall call() const {
    return {.tiles = tiles,
            .sequences = sequences,
            .seen = seen,
            .heads = heads_,
            .kv_heads = kv_heads_,
            .head_dim = 128};
  }
  std::int64_t heads_, kv_heads_;
  std::vector<AttentionTile> tiles;
  std::vector<AttentionSequence> sequences;
  std::vector<std::int32_t> seen;
};

std::int64_t parts_of(const AttentionCall& call) {
  return static_cast<std::int64_t>(plan_splits(call).parts.size());
}

TEST(AttentionSplitPlan, OneSplitCostsNothing) {
  for (const std::int32_t length : {1, 2047, 2048}) {
    const AttentionSplitPlan plan = plan_splits(Lists({length, 1, 40}, 1, 28, 4).call());
    EXPECT_TRUE(plan.parts.empty() && plan.merges.empty());
    EXPECT_EQ(plan.band, 0);
    EXPECT_EQ(plan.partial_bytes, 0u);
  }
  EXPECT_EQ(parts_of(Lists({2049}, 1, 28, 4).call()), 2);
  // A head that the tensor cores' kernels do not take.
  const Lists lists({9000}, 1, 28, 4);
  for (const std::int64_t head_dim : {13, 264}) {
    AttentionCall call = lists.call();
    call.head_dim = head_dim;
    EXPECT_TRUE(plan_splits(call).parts.empty());
    EXPECT_EQ(plan_splits(call).partial_bytes, 0u);
  }
}

TEST(AttentionSplitPlan, EverySplitOnceInItsOwnPlace) {
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int32_t> lengths(1 + rng.below(6));
    for (std::int32_t& length : lengths) length = static_cast<std::int32_t>(50 + rng.below(12000));
    const auto rows = static_cast<std::int32_t>(1 + rng.below(50));
    const auto window = static_cast<std::int32_t>(rng.below(2) * (1 + rng.below(5000)));
    const Lists lists(lengths, rows, 6, 2, window);
    AttentionCall call = lists.call();
    call.least_parts = static_cast<std::int64_t>(rng.below(40));
    const AttentionSplitPlan plan = share_splits(call);
    EXPECT_EQ(plan.parts.size() & (plan.parts.size() - 1), 0u);
    EXPECT_GE(static_cast<std::int64_t>(plan.parts.size()), call.least_parts);
    std::map<std::int32_t, std::vector<AttentionPart>> by_tile;
    bool ended = false;
    for (const AttentionPart& part : plan.parts) {
      ASSERT_FALSE(ended && part.tile >= 0);
      ended = part.tile < 0;
      if (!ended) by_tile[part.tile].push_back(part);
    }
    ASSERT_EQ(by_tile.size(), lists.tiles.size());
    ASSERT_EQ(plan.merges.size(), lists.tiles.size());
    std::set<std::int64_t> taken;  // rows of scratch
    for (const auto& [tile, parts] : by_tile) {
      const AttentionMerge& merge = plan.merges[static_cast<std::size_t>(tile)];
      const AttentionTile& of = lists.tiles[static_cast<std::size_t>(tile)];
      const AttentionSequence& sequence = lists.sequences[static_cast<std::size_t>(of.sequence)];
      const std::int32_t last = std::min(of.first + kAttentionTileRows, rows * 3);
      const auto seen = [&](std::int32_t at) {
        return lists.seen[static_cast<std::size_t>(2 * (sequence.row_begin + at / 3)) +
                          (at == of.first ? 0 : 1)];
      };
      const std::int32_t begin = seen(of.first);
      const std::int32_t end =
          lists.seen[static_cast<std::size_t>(2 * (sequence.row_begin + (last - 1) / 3)) + 1];
      EXPECT_EQ(parts.front().split, begin / kAttentionSplitTokens);
      EXPECT_EQ(parts.back().split, (end - 1) / kAttentionSplitTokens);
      ASSERT_EQ(merge.splits, static_cast<std::int32_t>(parts.size()));
      EXPECT_LE(last - of.first, plan.merge_rows);
      for (std::size_t s = 0; s < parts.size(); ++s) {
        EXPECT_EQ(parts[s].split, parts.front().split + static_cast<std::int32_t>(s));
        if (parts.size() == 1) {
          EXPECT_EQ(parts[s].partial, -1);
          continue;
        }
        EXPECT_EQ(parts[s].partial,
                  merge.partial + static_cast<std::int32_t>(s) * (last - of.first));
        for (std::int32_t row = 0; row < last - of.first; ++row)
          EXPECT_TRUE(taken.insert(parts[s].partial + row).second);
      }
    }
    const std::int64_t row_bytes = call.kv_heads * (128 + kPartialStateFloats) * 4;
    const std::int64_t needed = taken.empty() ? 0 : (*taken.rbegin() + 1) * row_bytes;
    EXPECT_LE(needed, static_cast<std::int64_t>(plan.partial_bytes));
    EXPECT_EQ(needed, static_cast<std::int64_t>(taken.size()) * row_bytes);
  }
}

TEST(AttentionSplitPlan, ManyBlocksWalkAndScratchIsBounded) {
  // A chunk of many tiles; as few as make a decode.
  EXPECT_GT(plan_splits(Lists({9000}, 8192, 28, 4).call()).band, 0);
  EXPECT_EQ(plan_splits(Lists({32768}, 1, 28, 4).call()).parts.size(), 16u);
  EXPECT_EQ(plan_splits(Lists(std::vector<std::int32_t>(8, 32769), 1, 28, 4).call()).parts.size(),
            256u);
  Rng rng(6);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int32_t> lengths(1 + rng.below(200));
    for (std::int32_t& length : lengths)
      length = static_cast<std::int32_t>(600 + rng.below(100000));
    const std::int64_t kv_heads = 1 + static_cast<std::int64_t>(rng.below(16));
    const Lists lists(lengths, static_cast<std::int32_t>(1 + rng.below(600)), kv_heads * 4,
                      kv_heads);
    const AttentionSplitPlan plan = plan_splits(lists.call());
    ASSERT_LE(static_cast<std::int64_t>(plan.partial_bytes), kMostPartialBytes);
    ASSERT_EQ(plan.parts.empty(), plan.band > 0);
    if (plan.band > 0) {
      ASSERT_LE(plan.band * kAttentionTileRows * kv_heads * (128 + kPartialStateFloats) * 4,
                static_cast<std::int64_t>(plan.partial_bytes));
    }
  }
}

// Of decode the launched blocks change when sequences have doubled, and under a window not at all.
TEST(AttentionSplitPlan, LaunchesStayTheSameFromStepToStep) {
  std::set<std::int64_t> growing;
  for (std::int32_t length = 2049; length < 40000; ++length)
    growing.insert(parts_of(Lists({length}, 1, 28, 4).call()));
  EXPECT_EQ(growing, (std::set<std::int64_t>{2, 4, 8, 16, 32}));
  for (const std::int32_t window : {500, 2048, 2049, 4096}) {
    std::set<std::int64_t> moving;
    for (std::int32_t length = 8000; length < 13000; ++length)
      moving.insert(
          parts_of(Lists({length, length + 700, length + 1900}, 1, 28, 4, window).call()));
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
