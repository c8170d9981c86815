#include "memory/prefix/cache_observer.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <string>

#include "base/rng.h"
#include "memory/kv_allocator.h"

namespace saccade {
namespace {

constexpr std::int64_t kObservedBlock = 4;

// What somebody believes who knows nothing but what he is told.
class Believer final : public CacheObserver {
 public:
  void stored(const StoredBlock& block) override {
    EXPECT_TRUE(believed[block.group].insert(block.name).second) << "stored twice";
    last = {block.tokens.begin(), block.tokens.end()};
    parents[block.name] = block.parent;
    images += block.images.size();
    adapters[block.name] = block.adapter.name;
  }
  void removed(int group, std::uint64_t name) override {
    EXPECT_EQ(believed[group].erase(name), 1u) << "removed, and was not there";
  }
  void cleared() override {
    ++clears;
    believed.clear();
  }
  std::map<int, std::set<std::uint64_t>> believed;
  std::map<std::uint64_t, std::optional<std::uint64_t>> parents;
  std::vector<std::int32_t> last;
  std::map<std::uint64_t, std::string> adapters;
  std::size_t images = 0;
  int clears = 0;
};

std::unique_ptr<KvAllocator> make_observed(Believer& believer, std::int64_t pages) {
  const std::vector<LayerSpec> layers = {{CacheKind::kFull, 0, 1, 1, 0, 1, 0},
                                         {CacheKind::kSlidingWindow, 5, 1, 1, 0, 1, 0}};
  KvSettings settings;
  settings.plan.block_tokens = kObservedBlock;
  settings.pool_bytes = pages * 8;
  settings.plan.max_sequences = 8;
  settings.observer = &believer;
  return KvAllocator::create(layers, settings).value();
}

void run_sequence(KvAllocator& kv, const PrefixContent& content) {
  KvSequence sequence;
  const auto tokens = static_cast<std::int64_t>(content.tokens.size());
  const KvShape shape{tokens, 0, {}};
  ASSERT_EQ(kv.admit(sequence, content, shape, kv.match(content, shape, tokens - 1), 64),
            Admission::kNow);
  kv.free_skipped(sequence);
  ASSERT_TRUE(kv.extend(sequence, tokens));
  std::vector<KvCopy> copies;
  kv.take_copies(sequence, copies);
  kv.commit(sequence, content, tokens);
  kv.release(sequence);
}

TEST(CacheObserver, IsToldOfFullBlocksWithTheirParents) {
  Believer believer;
  auto kv = make_observed(believer, 64);
  std::vector<std::int32_t> tokens(10);
  std::iota(tokens.begin(), tokens.end(), 1);
  run_sequence(*kv, {tokens, {}, {}, "", 0});
  ASSERT_EQ(believer.believed[0].size(), 2u);  // and half a block that has no name
  EXPECT_EQ(believer.last, (std::vector<std::int32_t>{5, 6, 7, 8}));
  std::size_t roots = 0;
  for (const auto& [name, parent] : believer.parents) {
    roots += !parent;
    EXPECT_TRUE(!parent || believer.believed[0].contains(*parent));
  }
  EXPECT_EQ(roots, 1u);
  // The same again is no news; another salt is another name.
  const auto before = believer.believed;
  run_sequence(*kv, {tokens, {}, {}, "", 0});
  EXPECT_EQ(believer.believed, before);
  run_sequence(*kv, {tokens, {}, {}, "salt", 0});
  EXPECT_EQ(believer.believed[0].size(), 4u);
  kv->reset_prefix_cache();
  EXPECT_EQ(believer.clears, 1);
  EXPECT_TRUE(believer.believed.empty());
}

TEST(CacheObserver, IsToldOfAdapters) {
  Believer believer;
  auto kv = make_observed(believer, 64);
  const std::vector<std::int32_t> tokens(8, 3);
  run_sequence(*kv, {tokens, {}, {}, "", 0});
  const auto plain = believer.believed[0];
  PrefixContent adapted{tokens, {}, {}, "", 0};
  adapted.adapter = {"digest", "style", 2};
  run_sequence(*kv, adapted);
  ASSERT_EQ(believer.believed[0].size(), 2 * plain.size());
  for (const std::uint64_t name : believer.believed[0])
    EXPECT_EQ(believer.adapters[name], plain.contains(name) ? "" : "style");
}

TEST(CacheObserver, NamesAreEqualInOtherProcesses) {
  std::vector<std::int32_t> tokens(12, 3);
  const std::vector<PrefixImage> images = {{2, 6, 0, sha256("image")}};
  Believer one;
  Believer other;
  run_sequence(*make_observed(one, 64), {tokens, images, {}, "", 0});
  auto kv = make_observed(other, 640);
  run_sequence(*kv, {std::vector<std::int32_t>(40, 9), {}, {}, "", 0});
  run_sequence(*kv, {tokens, images, {}, "", 0});
  EXPECT_GT(one.images, 0u);
  for (const std::uint64_t name : one.believed[0]) EXPECT_TRUE(other.believed[0].contains(name));
}

// Through thousands of evictions what is believed is what is there.
TEST(CacheObserver, BelievesWhatIsThere) {
  Believer believer;
  auto kv = make_observed(believer, 40);
  Rng rng(7);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::int32_t> tokens(4 + rng.below(40));
    for (std::size_t t = 0; t < tokens.size(); ++t)
      tokens[t] = t < 12 ? static_cast<std::int32_t>(rng.below(2)) : static_cast<std::int32_t>(t);
    run_sequence(*kv, {tokens, {}, {}, "", 0});
    if (i % 500 == 0) kv->check();
    std::size_t believed = 0;
    for (const auto& [group, names] : believer.believed) believed += names.size();
    // A block may have a second name for the image that ends in it; there are none here.
    ASSERT_EQ(static_cast<std::int64_t>(believed), kv->prefixes().held()) << i;
  }
  EXPECT_GT(kv->store().evictions(0), 100u);
}

}  // namespace
}  // namespace saccade
