#include "memory/kv_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "memory/accounting.h"

namespace saccade {
namespace {

constexpr std::int64_t kBlock = 4;

LayerSpec full() { return {CacheKind::kFull, 0, 1, 1, 0, 1, 0}; }
LayerSpec window(std::int64_t tokens) { return {CacheKind::kSlidingWindow, tokens, 1, 1, 0, 1, 0}; }

// A page of one such layer is 8 bytes.
std::unique_ptr<KvAllocator> make(std::vector<LayerSpec> layers, std::int64_t pages,
                                  KvPolicy policy = KvPolicy::kJenga, bool caching = true) {
  KvSettings settings;
  settings.plan.policy = policy;
  settings.plan.block_tokens = kBlock;
  settings.pool_bytes = pages * 8;
  settings.plan.max_sequences = 8;
  settings.prefix_caching = caching;
  auto made = KvAllocator::create(layers, settings);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return made ? *std::move(made) : nullptr;
}

std::vector<std::int32_t> count_up(std::int64_t tokens, std::int32_t from = 0) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
  std::iota(ids.begin(), ids.end(), from);
  return ids;
}

Admission admit(KvAllocator& kv, KvSequence& sequence, const PrefixContent& content) {
  const KvShape shape{static_cast<std::int64_t>(content.tokens.size()), 0, {}};
  return kv.admit(sequence, content, shape, kv.match(content, shape, shape.prompt_tokens - 1), 64);
}

void compute(KvAllocator& kv, KvSequence& sequence, const PrefixContent& content,
             std::int64_t end) {
  kv.free_skipped(sequence);
  ASSERT_TRUE(kv.extend(sequence, end));
  std::vector<KvCopy> copies;
  kv.take_copies(sequence, copies);
  kv.commit(sequence, content, end);
}

void run(KvAllocator& kv, const PrefixContent& content) {
  KvSequence sequence;
  ASSERT_EQ(admit(kv, sequence, content), Admission::kNow);
  compute(kv, sequence, content, static_cast<std::int64_t>(content.tokens.size()));
  kv.release(sequence);
}

TEST(KvAllocator, ASecondRequestFindsAllButTheLastToken) {
  auto kv = make({full()}, 16);
  const auto tokens = count_up(13);
  const PrefixContent content{tokens, {}, {}, "", 0};
  run(*kv, content);
  KvSequence again;
  ASSERT_EQ(admit(*kv, again, content), Admission::kNow);
  EXPECT_EQ(again.computed(), 12);
  kv->release(again);
  // Of a prompt that ends with a block the last token is still computed, in a copy of that block.
  const PrefixContent shorter{std::span(tokens).first(12), {}, {}, "", 0};
  ASSERT_EQ(admit(*kv, again, shorter), Admission::kNow);
  EXPECT_EQ(again.computed(), 11);
  ASSERT_TRUE(kv->extend(again, 12));
  std::vector<KvCopy> copies;
  kv->take_copies(again, copies);
  EXPECT_EQ(copies.size(), 1u);
  EXPECT_NE(copies[0].from, again.table(0)[2]);
  EXPECT_EQ(copies[0].to, again.table(0)[2]);
  kv->commit(again, shorter, 12);
  kv->release(again);
  kv->check();
}

TEST(KvAllocator, ABlockThatEndsAnImageIsSharedByItsImage) {
  auto kv = make({full()}, 16);
  const Digest identity = sha256("image");
  const std::vector<PrefixImage> images = {{2, 8, 0, identity}};
  auto first = count_up(14);
  auto second = count_up(14);
  std::fill(first.begin() + 2, first.begin() + 10, 99);
  second = first;
  second[11] = 77;  // another question about the same image, one token later
  run(*kv, {first, images, {}, "", 0});
  KvSequence again;
  ASSERT_EQ(admit(*kv, again, {second, images, {}, "", 0}), Admission::kNow);
  EXPECT_EQ(again.computed(), 10);  // all of the image: no encoding
  kv->release(again);
  // Also where the block never becomes full, whatever the chunks.
  for (const std::int64_t chunk : {8, 9, 10, 11}) {
    kv->reset_prefix_cache();
    const PrefixContent brief{std::span(first).first(11), images, {}, "", 0};
    KvSequence sequence;
    ASSERT_EQ(admit(*kv, sequence, brief), Admission::kNow);
    compute(*kv, sequence, brief, chunk);
    compute(*kv, sequence, brief, 11);
    kv->release(sequence);
    ASSERT_EQ(admit(*kv, again, {second, images, {}, "", 0}), Admission::kNow);
    EXPECT_EQ(again.computed(), 10) << chunk;
    kv->release(again);
  }
  const std::vector<PrefixImage> other = {{2, 8, 0, sha256("another")}};
  ASSERT_EQ(admit(*kv, again, {second, other, {}, "", 0}), Admission::kNow);
  EXPECT_EQ(again.computed(), 0);
  kv->release(again);
}

TEST(KvAllocator, AWindowLetsGoAndItsLeftoversAreEvictedFirst) {
  auto kv = make({full(), window(5)}, 40);
  const auto tokens = count_up(32);
  const PrefixContent content{tokens, {}, {}, "", 0};
  KvSequence sequence;
  ASSERT_EQ(admit(*kv, sequence, content), Admission::kNow);
  for (std::int64_t end = 4; end <= 32; end += 4) compute(*kv, sequence, content, end);
  kv->free_skipped(sequence);
  EXPECT_EQ(sequence.table(1)[6], kNoPage);
  EXPECT_NE(sequence.table(1)[7], kNoPage);
  const MemoryUse use = measure(*kv);
  EXPECT_EQ(use.useful, (32 + 4) * 2);
  EXPECT_EQ(use.overhold, 0);
  EXPECT_EQ(use.cached, 7 * 8);
  kv->release(sequence);
  // The hit needs the whole full-attention prefix and only the last window.
  KvSequence again;
  const auto longer = count_up(40);
  ASSERT_EQ(admit(*kv, again, {longer, {}, {}, "", 0}), Admission::kNow);
  EXPECT_EQ(again.computed(), 32);
  kv->release(again);
  kv->check();
}

TEST(KvAllocator, PagedHoldsWindowLayersWhole) {
  auto kv = make({full(), window(5)}, 40, KvPolicy::kPaged);
  const auto tokens = count_up(32);
  const PrefixContent content{tokens, {}, {}, "", 0};
  KvSequence sequence;
  ASSERT_EQ(admit(*kv, sequence, content), Admission::kNow);
  compute(*kv, sequence, content, 32);
  kv->free_skipped(sequence);
  const MemoryUse use = measure(*kv);
  EXPECT_EQ(use.useful, (32 + 4) * 2);
  EXPECT_EQ(use.overhold, 28 * 2);
  kv->release(sequence);
}

TEST(KvAllocator, LlamaVisionWastesWhatThePaperSays) {
  // 32 self-attention and 8 cross-attention layers; 43 text tokens beside 6,193 image tokens.
  std::vector<LayerSpec> layers(40, {CacheKind::kFull, 0, 8, 128, 0, 2, 0});
  for (int layer = 3; layer < 40; layer += 5) {
    layers[static_cast<std::size_t>(layer)].kind = CacheKind::kCrossAttention;
  }
  const auto waste = [&](KvPolicy policy) {
    KvSettings settings;
    settings.plan.policy = policy;
    settings.plan.block_tokens = 1;  // as the paper counts: no rounding to blocks
    settings.pool_bytes = std::int64_t{4} << 30;
    settings.prefix_caching = false;
    auto kv = *KvAllocator::create(layers, settings);
    const auto tokens = count_up(43);
    const PrefixContent content{tokens, {}, {}, "", 0};
    const KvShape shape{43, 6193, {}};
    KvSequence sequence;
    EXPECT_EQ(kv->admit(sequence, content, shape, kv->match(content, shape, 42), 64),
              Admission::kNow);
    compute(*kv, sequence, content, 43);
    const MemoryUse use = measure(*kv);
    const std::int64_t held = use.total() - use.free;
    kv->release(sequence);
    return 1 - static_cast<double>(use.useful) / static_cast<double>(held);
  };
  EXPECT_NEAR(waste(KvPolicy::kPaged), 0.796, 0.0005);
  EXPECT_NEAR(waste(KvPolicy::kMaxPage), 0.745, 0.001);
  EXPECT_LT(waste(KvPolicy::kJenga), 0.001);
}

TEST(KvAllocator, AFailedExtendChangesNothing) {
  auto kv = make({full(), window(5)}, 8);
  const auto tokens = count_up(40);
  const PrefixContent content{tokens, {}, {}, "", 0};
  KvSequence sequence;
  const KvShape shape{8, 0, {}};
  ASSERT_EQ(kv->admit(sequence, content, shape, {}, 8), Admission::kNow);
  compute(*kv, sequence, content, 8);
  const std::int64_t free = kv->store().pool().free_large();
  EXPECT_FALSE(kv->extend(sequence, 40));
  EXPECT_EQ(kv->store().pool().free_large(), free);
  EXPECT_EQ(sequence.table(0).size(), 2u);
  kv->check();
  kv->release(sequence);
}

TEST(KvAllocator, ARefusedAdmissionLeavesTheOrderOfEvictionAlone) {
  auto kv = make({full()}, 8);
  const auto old_tokens = count_up(12);
  run(*kv, {old_tokens, {}, {}, "", 0});
  const auto newer = count_up(8, 100);
  run(*kv, {newer, {}, {}, "", 0});
  // A long newcomer beside a running one: refused after it had touched the old blocks.
  KvSequence running;
  const auto busy = count_up(4, 200);
  ASSERT_EQ(admit(*kv, running, {busy, {}, {}, "", 0}), Admission::kNow);
  compute(*kv, running, {busy, {}, {}, "", 0}, 4);
  KvSequence refused;
  const auto extended = count_up(31);
  EXPECT_EQ(admit(*kv, refused, {extended, {}, {}, "", 0}), Admission::kLater);
  EXPECT_FALSE(refused.admitted());
  kv->check();
  // Room for two more blocks comes from the oldest content's end, not from the newer one.
  kv->free_skipped(running);
  ASSERT_TRUE(kv->extend(running, 16));
  const KvShape shape{9, 0, {}};
  const auto probe_new = count_up(9, 100);
  const auto probe_old = count_up(13);
  EXPECT_EQ(kv->match({probe_new, {}, {}, "", 0}, shape, 8).tokens, 8);
  EXPECT_EQ(kv->match({probe_old, {}, {}, "", 0}, shape, 12).tokens, 8);
  kv->release(running);
}

TEST(KvAllocator, PromisesKeepNewcomersOut) {
  auto kv = make({full()}, 10);
  const auto tokens = count_up(32);
  KvSequence first;
  const PrefixContent content{tokens, {}, {}, "", 0};
  ASSERT_EQ(admit(*kv, first, content), Admission::kNow);
  compute(*kv, first, content, 4);  // one block of eight taken, seven promised
  KvSequence second;
  const auto other = count_up(12, 500);
  EXPECT_EQ(admit(*kv, second, {other, {}, {}, "", 0}), Admission::kLater);
  const auto small = count_up(4, 500);
  EXPECT_EQ(admit(*kv, second, {small, {}, {}, "", 0}), Admission::kNow);
  kv->release(second);
  kv->release(first);
}

TEST(KvAllocator, WhatNeverFitsIsSaidAtOnce) {
  auto kv = make({full()}, 10);
  EXPECT_EQ(kv->longest_sequence(8, 1000), 40);
  KvSequence sequence;
  const auto tokens = count_up(41);
  EXPECT_EQ(admit(*kv, sequence, {tokens, {}, {}, "", 0}), Admission::kNever);
  auto windowed = make({window(5)}, 4);
  EXPECT_EQ(windowed->longest_sequence(8, 1000), 1000);
  KvSettings settings;
  settings.pool_bytes = 7;
  EXPECT_EQ(KvAllocator::create(std::vector<LayerSpec>{full()}, settings).error().code,
            ErrorCode::kTooLarge);
}

TEST(KvAllocator, ReserveTakesFullAttentionPagesAhead) {
  auto kv = make({full(), window(5)}, 40);
  const auto tokens = count_up(32);
  const PrefixContent content{tokens, {}, {}, "", 0};
  KvSequence sequence;
  ASSERT_EQ(admit(*kv, sequence, content), Admission::kNow);
  ASSERT_TRUE(kv->extend(sequence, 4, 20));
  EXPECT_EQ(sequence.table(0).size(), 5u);
  EXPECT_EQ(sequence.table(1).size(), 1u);
  kv->release(sequence);
}

TEST(KvAllocator, ResetForgetsAllNames) {
  auto kv = make({full(), window(5)}, 40);
  const auto tokens = count_up(32);
  run(*kv, {tokens, {}, {}, "", 0});
  EXPECT_GT(measure(*kv).cached, 0);
  kv->reset_prefix_cache();
  EXPECT_EQ(measure(*kv).cached, 0);
  EXPECT_EQ(kv->prefixes().nodes(), 0);
  kv->check();
}

}  // namespace
}  // namespace saccade
