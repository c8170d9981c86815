#include "memory/layer_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace saccade {
namespace {

std::unique_ptr<LayerPolicy> policy_of(CacheKind kind, std::int64_t block_tokens,
                                       std::int64_t window = 0) {
  GroupPlan group;
  group.kind = kind;
  group.block_tokens = block_tokens;
  group.window = window;
  return make_layer_policy(group);
}

// A sequence computed in random chunks holds what needed() names, never less than any token reads
// and never more blocks than peak_blocks() says.
TEST(LayerPolicy, WindowsHoldWhatIsReadAndNoMoreThanThePeak) {
  Rng rng(1);
  for (int round = 0; round < 400; ++round) {
    const auto block = static_cast<std::int64_t>(1 + rng.below(6));
    const auto window = static_cast<std::int64_t>(1 + rng.below(20));
    const auto chunk = static_cast<std::int64_t>(1 + rng.below(12));
    const auto length = static_cast<std::int64_t>(1 + rng.below(80));
    const auto policy = policy_of(CacheKind::kSlidingWindow, block, window);
    const std::int64_t peak = policy->peak_blocks(length, chunk, {});
    for (std::int64_t begin = 0; begin < length;) {
      const std::int64_t end = std::min(
          length,
          begin + 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(chunk))));
      const BlockRange needed = policy->needed(begin, end, {});
      for (std::int64_t token = begin; token < end; ++token) {
        for (std::int64_t read = std::max<std::int64_t>(0, token - window + 1); read <= token;
             ++read) {
          ASSERT_GE(read / block, needed.first);
          ASSERT_LT(read / block, needed.last);
        }
      }
      ASSERT_LE(needed.last - policy->first_live(begin), peak);
      // Nothing that the next chunk needs is let go.
      ASSERT_LE(policy->first_live(end), policy->needed(end, end + 1, {}).first);
      begin = end;
    }
  }
}

TEST(LayerPolicy, WindowHitsAreThoseWithTheirLastWindowCached) {
  Rng rng(2);
  for (int round = 0; round < 2000; ++round) {
    const auto block = static_cast<std::int64_t>(1 + rng.below(5));
    const auto window = static_cast<std::int64_t>(1 + rng.below(14));
    const auto policy = policy_of(CacheKind::kSlidingWindow, block, window);
    std::vector<BlockId> cached(1 + rng.below(10));
    for (BlockId& id : cached) id = rng.below(4) == 0 ? kNoBlock : 1;
    const auto limit =
        static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(block) * cached.size() + 1));
    const auto usable = [&](std::int64_t length) {
      // A hit inside a block goes on in a copy of that block.
      if (length % block != 0 && cached[static_cast<std::size_t>(length / block)] == kNoBlock) {
        return false;
      }
      for (std::int64_t read = std::max<std::int64_t>(0, length - window + 1); read < length;
           ++read) {
        if (cached[static_cast<std::size_t>(read / block)] == kNoBlock) return false;
      }
      return true;
    };
    const std::int64_t hit = policy->longest_hit(limit, cached);
    // The limit itself or a block boundary, usable, and nothing longer of the kind is.
    ASSERT_TRUE(hit == limit || hit % block == 0);
    ASSERT_TRUE(usable(hit));
    for (std::int64_t longer = hit + 1; longer <= limit; ++longer) {
      if (longer == limit || longer % block == 0) {
        ASSERT_FALSE(usable(longer)) << hit << " " << longer;
      }
    }
  }
}

TEST(LayerPolicy, FullAttentionStopsAtTheFirstHole) {
  const auto policy = policy_of(CacheKind::kFull, 4);
  const std::vector<BlockId> cached = {7, 8, kNoBlock, 9};
  EXPECT_EQ(policy->longest_hit(16, cached), 8);
  EXPECT_EQ(policy->longest_hit(6, cached), 6);
  EXPECT_EQ(policy->longest_hit(20, std::vector<BlockId>{1, 2}), 8);
  EXPECT_EQ(policy->kept(6).last, 2);
  EXPECT_EQ(policy->first_live(100), 0);
}

TEST(LayerPolicy, CrossAttentionIsAllOrNothing) {
  const auto policy = policy_of(CacheKind::kCrossAttention, 4);
  EXPECT_EQ(policy->longest_hit(8, std::vector<BlockId>{1, 2}), 8);
  EXPECT_EQ(policy->longest_hit(8, std::vector<BlockId>{1, kNoBlock}), 0);
}

TEST(LayerPolicy, StatesAreResumedAtCheckpoints) {
  const auto policy = policy_of(CacheKind::kState, 8);
  EXPECT_EQ(policy->longest_hit(31, std::vector<BlockId>{1, 2, kNoBlock, 4}), 16);
  EXPECT_EQ(policy->longest_hit(7, std::vector<BlockId>{1}), 0);
  EXPECT_EQ(policy->chunk_end(5, 30), 8);
  EXPECT_EQ(policy->chunk_end(8, 30), 16);
  // At a checkpoint the completed block is the source of the next one.
  EXPECT_EQ(policy->needed(16, 20, {}).first, 1);
  EXPECT_EQ(policy->needed(16, 20, {}).last, 3);
  EXPECT_EQ(policy->first_live(17), 2);
  const auto single = policy_of(CacheKind::kState, 0);
  EXPECT_EQ(single->needed(100, 200, {}).last, 1);
  EXPECT_EQ(single->chunk_end(5, 30), 30);
  EXPECT_FALSE(single->cacheable());
}

TEST(LayerPolicy, EmbeddingsAreHeldForImagesThatAChunkTouches) {
  const auto policy = policy_of(CacheKind::kVisionEmbedding, 4);
  const std::vector<PrefixImage> images = {{6, 9}, {30, 4}};
  EXPECT_EQ(policy->needed(0, 6, images).count(), 0);
  EXPECT_EQ(policy->needed(0, 7, images).last, 4);
  EXPECT_EQ(policy->needed(14, 20, images).first, 3);
  EXPECT_TRUE(policy->skips(0, images));
  EXPECT_FALSE(policy->skips(1, images));
  EXPECT_TRUE(policy->skips(5, images));
  EXPECT_FALSE(policy->skips(7, images));
  EXPECT_EQ(policy->first_live(9), 2);
}

}  // namespace
}  // namespace saccade
