#include "memory/prefix/prefix_cache.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/rng.h"

namespace saccade {
namespace {

Digest identity(std::uint8_t value) {
  Digest digest{};
  digest[31] = value;
  return digest;
}

BlockContent tokens_of(const std::vector<std::int32_t>& tokens) { return {tokens, {}}; }

TEST(PrefixCache, AChildIsFoundByItsTokensUnderItsParent) {
  PrefixCache cache(1, 4);
  const NodeId root = cache.root("a");
  cache.pin(root);
  const std::vector<std::int32_t> first = {1, 2, 3, 4};
  const std::vector<std::int32_t> second = {1, 2, 3, 5};
  const NodeId one = cache.insert(root, tokens_of(first));
  cache.attach(one, 0, 9);
  EXPECT_EQ(cache.find(root, tokens_of(first)), one);
  EXPECT_EQ(cache.find(root, tokens_of(second)), kNoNode);
  EXPECT_EQ(cache.find(one, tokens_of(first)), kNoNode);  // the same tokens deeper are others
  EXPECT_EQ(cache.insert(root, tokens_of(first)), one);
  EXPECT_EQ(cache.block(one, 0), 9);
  cache.check();
}

TEST(PrefixCache, SaltsNeverMeet) {
  PrefixCache cache(1, 4);
  const NodeId one = cache.root(prefix_root({{}, {}, {}, "alice", 0}));
  cache.pin(one);
  EXPECT_EQ(cache.find_root(prefix_root({{}, {}, {}, "bob", 0})), kNoNode);
  EXPECT_EQ(cache.find_root(prefix_root({{}, {}, {}, "alice", 0})), one);
}

TEST(PrefixCache, EqualPlaceholdersOfDifferentImagesDiffer) {
  const std::vector<std::int32_t> tokens = {7, 7, 7, 7};
  const auto content = [&](std::uint8_t image, std::int64_t first_row) {
    const std::vector<PrefixImage> images = {{0, 4, first_row, identity(image)}};
    return block_content(tokens, images, 0, 4);
  };
  PrefixCache cache(1, 4);
  const NodeId root = cache.root("");
  cache.pin(root);
  const NodeId node = cache.insert(root, content(1, 0));
  cache.attach(node, 0, 3);
  EXPECT_EQ(cache.find(root, content(1, 0)), node);
  EXPECT_EQ(cache.find(root, content(2, 0)), kNoNode);
  EXPECT_EQ(cache.find(root, content(1, 4)), kNoNode);  // other rows of the same image
}

TEST(PrefixCache, ABidirectionalPrefixIsKnownByAllOfIt) {
  const std::vector<std::int32_t> one = {1, 2, 3, 4};
  const std::vector<std::int32_t> two = {1, 2, 3, 5};
  EXPECT_EQ(prefix_root({one, {}, {}, "", 3}), prefix_root({two, {}, {}, "", 3}));
  EXPECT_NE(prefix_root({one, {}, {}, "", 4}), prefix_root({two, {}, {}, "", 4}));
  EXPECT_NE(prefix_root({one, {}, {}, "", 3}), prefix_root({one, {}, {}, "", 0}));
  // Placeholders look alike, and the first block depends on the image behind it.
  const std::vector<PrefixImage> here = {{0, 2, 0, identity(1)}, {2, 2, 0, identity(2)}};
  const std::vector<PrefixImage> there = {{0, 2, 0, identity(1)}, {2, 2, 0, identity(3)}};
  EXPECT_NE(prefix_root({one, here, {}, "", 4}), prefix_root({one, there, {}, "", 4}));
  EXPECT_EQ(prefix_root({one, here, {}, "", 0}), prefix_root({one, there, {}, "", 0}));
}

TEST(PrefixCache, WhoBecomesLongKnowsOtherBlocks) {
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4};
  EXPECT_NE(prefix_root({tokens, {}, {}, "a", 0, true}),
            prefix_root({tokens, {}, {}, "a", 0, false}));
}

TEST(PrefixCache, BranchesFallWhenNothingHoldsThem) {
  PrefixCache cache(2, 2);
  const NodeId root = cache.root("");
  cache.pin(root);
  const std::vector<std::int32_t> tokens = {1, 2};
  const NodeId parent = cache.insert(root, tokens_of(tokens));
  const NodeId child = cache.insert(parent, tokens_of(tokens));
  cache.attach(parent, 1, 5);
  cache.attach(child, 0, 6);
  cache.unpin(root);
  cache.detach(parent, 1);
  EXPECT_EQ(cache.nodes(), 3);  // the child still hangs on it
  cache.check();
  cache.detach(child, 0);
  EXPECT_EQ(cache.nodes(), 0);
  cache.check();
}

TEST(PrefixCache, ManyChildrenSurviveGrowth) {
  PrefixCache cache(1, 2);
  const NodeId root = cache.root("");
  cache.pin(root);
  std::vector<NodeId> nodes;
  for (std::int32_t i = 0; i < 5000; ++i) {
    const std::vector<std::int32_t> tokens = {i, -i};
    nodes.push_back(cache.insert(root, tokens_of(tokens)));
    cache.attach(nodes.back(), 0, i);
  }
  for (std::int32_t i = 0; i < 5000; ++i) {
    const std::vector<std::int32_t> tokens = {i, -i};
    ASSERT_EQ(cache.find(root, tokens_of(tokens)), nodes[static_cast<std::size_t>(i)]);
  }
  cache.check();
}

// A table nearly half full, which nodes leave and come back to in any order.
TEST(PrefixCache, WhoStaysIsFoundWhenOthersLeave) {
  PrefixCache cache(1, 1);
  const NodeId root = cache.root("");
  cache.pin(root);
  constexpr std::int32_t kMany = 500;
  std::vector<NodeId> nodes(kMany, kNoNode);
  Rng rng(3);
  for (int round = 0; round < 4000; ++round) {
    const auto which = static_cast<std::int32_t>(rng.below(kMany));
    NodeId& node = nodes[static_cast<std::size_t>(which)];
    const std::vector<std::int32_t> tokens = {which};
    ASSERT_EQ(cache.find(root, tokens_of(tokens)), node);
    if (node == kNoNode) {
      node = cache.insert(root, tokens_of(tokens));
      cache.attach(node, 0, which);
    } else {
      cache.detach(std::exchange(node, kNoNode), 0);
    }
    if (round % 500 == 0) cache.check();
  }
  for (std::int32_t i = 0; i < kMany; ++i) {
    const std::vector<std::int32_t> tokens = {i};
    EXPECT_EQ(cache.find(root, tokens_of(tokens)), nodes[static_cast<std::size_t>(i)]);
  }
  cache.check();
}

TEST(PrefixContent, RootsOfAdaptersAreTheirOwn) {
  const std::vector<std::int32_t> tokens(4, 1);
  const auto root = [&](std::string_view adapter, std::string_view salt) {
    PrefixContent content{tokens, {}, {}, salt, 0};
    content.adapter.identity = adapter;
    return prefix_root(content) + "|" + encoder_root(content);
  };
  EXPECT_EQ(root("a", "salt"), root("a", "salt"));
  EXPECT_NE(root("a", ""), root("b", ""));
  EXPECT_NE(root("a", ""), root("", ""));
  // A client chooses its salt: it must not lead to an adapter's pages.
  PrefixContent adapted{tokens, {}, {}, "", 0};
  adapted.adapter.identity = "a";
  const std::string salt = prefix_root(adapted);
  const PrefixContent plain{tokens, {}, {}, salt, 0};
  EXPECT_NE(prefix_root(plain), prefix_root(adapted));
  // Names and numbers are for those who are told.
  PrefixContent named = adapted;
  named.adapter.name = "x";
  named.adapter.number = 3;
  EXPECT_EQ(prefix_root(named), prefix_root(adapted));
}

TEST(PrefixContent, ImageEndsAndMarks) {
  const std::vector<PrefixImage> images = {{2, 5, 0, identity(1)}, {9, 3, 5, identity(1)}};
  EXPECT_EQ(last_image_end(images, 0, 6), 0);
  EXPECT_EQ(last_image_end(images, 0, 7), 7);
  EXPECT_EQ(last_image_end(images, 7, 11), 0);
  EXPECT_EQ(last_image_end(images, 7, 20), 12);
  const std::vector<std::int32_t> tokens(16, 0);
  const BlockContent block = block_content(tokens, images, 4, 8);
  ASSERT_EQ(block.marks.size(), 2u);
  EXPECT_EQ(block.marks[0].first_row, 2);
  EXPECT_EQ(block.marks[0].tokens, 3);
  EXPECT_EQ(block.marks[1].offset, 5);
  EXPECT_EQ(block.marks[1].first_row, 5);
  // One token of each image.
  const BlockContent edges = block_content(tokens, images, 6, 4);
  ASSERT_EQ(edges.marks.size(), 2u);
  EXPECT_EQ(edges.marks[0], (BlockContent::Mark{identity(1), 0, 1, 4}));
  EXPECT_EQ(edges.marks[1], (BlockContent::Mark{identity(1), 3, 1, 5}));
}

}  // namespace
}  // namespace saccade
