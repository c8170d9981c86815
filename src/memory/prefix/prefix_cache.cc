#include "memory/prefix/prefix_cache.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"

namespace saccade {
namespace {

constexpr std::size_t kFirstSlots = 1024;
constexpr std::int64_t kMaxTokens = (1 << 13) - 1;  // what a node has room for

std::uint32_t key_of(std::uint64_t chain) { return static_cast<std::uint32_t>(chain); }

std::uint64_t word_of(const Digest& digest) {
  std::uint64_t word = 0;
  std::memcpy(&word, digest.data(), sizeof word);
  return word;
}

std::uint64_t chain_of(std::uint64_t parent, const BlockContent& content) {
  std::uint64_t chain = hash_combine(parent, content.tokens.size());
  std::size_t i = 0;
  for (; i + 1 < content.tokens.size(); i += 2) {
    const auto low = static_cast<std::uint32_t>(content.tokens[i]);
    const auto high = static_cast<std::uint32_t>(content.tokens[i + 1]);
    chain = hash_combine(chain, low | static_cast<std::uint64_t>(high) << 32);
  }
  if (i < content.tokens.size()) {
    chain = hash_combine(chain, static_cast<std::uint32_t>(content.tokens[i]));
  }
  for (const BlockContent::Mark& mark : content.marks) {
    chain = hash_combine(chain, word_of(mark.identity));
    chain = hash_combine(chain, static_cast<std::uint64_t>(mark.first_row));
  }
  return chain;
}

}  // namespace

PrefixCache::PrefixCache(int groups, std::int64_t block_tokens)
    : groups_(groups), block_tokens_(block_tokens), slots_(kFirstSlots) {
  CHECK(block_tokens > 0 && block_tokens <= kMaxTokens, "{} tokens a block", block_tokens);
  CHECK(groups > 0 && groups <= std::numeric_limits<std::int16_t>::max(), "{} groups", groups);
}

NodeId PrefixCache::find_root(std::string_view name) const {
  const std::uint64_t chain = hash64(name);
  for (std::size_t at = home(key_of(chain)); slots_[at].node != kNoNode; at = after(at)) {
    if (slots_[at].key != key_of(chain)) continue;
    const NodeId id = slots_[at].node;
    const Node& node = nodes_[index(id)];
    if (node.parent == kNoNode && node.chain == chain && names_.at(id) == name) return id;
  }
  return kNoNode;
}

NodeId PrefixCache::root(std::string_view name) {
  if (const NodeId found = find_root(name); found != kNoNode) return found;
  const NodeId made = make(kNoNode, hash64(name));
  names_.emplace(made, name);
  return made;
}

NodeId PrefixCache::find(NodeId parent, const BlockContent& content) const {
  return find(parent, chain_of(nodes_[index(parent)].chain, content), content);
}

NodeId PrefixCache::find(NodeId parent, std::uint64_t chain, const BlockContent& content) const {
  for (std::size_t at = home(key_of(chain)); slots_[at].node != kNoNode; at = after(at)) {
    if (slots_[at].key != key_of(chain)) continue;
    const NodeId id = slots_[at].node;
    const Node& node = nodes_[index(id)];
    if (node.chain == chain && node.parent == parent && equals(id, content)) return id;
  }
  return kNoNode;
}

std::span<const BlockContent::Mark> PrefixCache::marks(NodeId node) const {
  const Node& at = nodes_[index(node)];
  if (!at.marked) return {};
  if (at.marked_again) return marks_.at(node);
  return {&first_marks_[index(node)], 1};
}

bool PrefixCache::equals(NodeId node, const BlockContent& content) const {
  return std::ranges::equal(tokens(node), content.tokens) &&
         std::ranges::equal(marks(node), content.marks);
}

BlockContent PrefixCache::content(NodeId node) const {
  BlockContent content;
  content.tokens = tokens(node);
  const std::span<const BlockContent::Mark> images = marks(node);
  content.marks.assign(images.begin(), images.end());
  return content;
}

NodeId PrefixCache::insert(NodeId parent, const BlockContent& content) {
  CHECK(static_cast<std::int64_t>(content.tokens.size()) <= block_tokens_, "{} tokens in a block",
        content.tokens.size());
  const std::uint64_t chain = chain_of(nodes_[index(parent)].chain, content);
  if (const NodeId found = find(parent, chain, content); found != kNoNode) return found;
  const NodeId made = make(parent, chain);
  Node& node = nodes_[index(made)];
  node.tokens = content.tokens.size() & 0x1fff;
  std::ranges::copy(content.tokens,
                    tokens_.begin() + static_cast<std::ptrdiff_t>(made) * block_tokens_);
  node.marked = !content.marks.empty();
  node.marked_again = content.marks.size() > 1;
  if (node.marked_again) marks_.emplace(made, content.marks);
  if (node.marked) {
    if (first_marks_.size() <= index(made)) first_marks_.resize(nodes_.size());
    first_marks_[index(made)] = content.marks.front();
  }
  ++nodes_[index(parent)].children;
  return made;
}

void PrefixCache::unpin(NodeId node) {
  CHECK(nodes_[index(node)].pins > 0, "node {} is not pinned", node);
  --nodes_[index(node)].pins;
  release_if_unused(node);
}

void PrefixCache::attach(NodeId node, int group, BlockId block) {
  BlockId& at = block_at(node, group);
  CHECK(at == kNoBlock, "node {} has block {} of group {}", node, at, group);
  at = block;
  ++nodes_[index(node)].held;
  ++held_;
}

void PrefixCache::detach(NodeId node, int group) {
  BlockId& at = block_at(node, group);
  CHECK(at != kNoBlock, "node {} has no block of group {}", node, group);
  at = kNoBlock;
  --nodes_[index(node)].held;
  --held_;
  release_if_unused(node);
}

NodeId PrefixCache::make(NodeId parent, std::uint64_t chain) {
  if (static_cast<std::size_t>(live_ + 1) * 2 >= slots_.size()) grow();
  NodeId id = kNoNode;
  if (free_.empty()) {
    id = static_cast<NodeId>(nodes_.size());
    nodes_.emplace_back();
    tokens_.resize(tokens_.size() + static_cast<std::size_t>(block_tokens_));
    other_blocks_.resize(other_blocks_.size() + static_cast<std::size_t>(groups_ - 1), kNoBlock);
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Node& node = nodes_[index(id)];
  node.parent = parent;
  node.chain = chain;
  node.used = true;
  ++live_;
  link({key_of(chain), id});
  return id;
}

// A branch that nothing hangs on any more falls leaf by leaf.
void PrefixCache::release_if_unused(NodeId node) {
  while (node != kNoNode) {
    Node& at = nodes_[index(node)];
    if (at.held > 0 || at.children > 0 || at.pins > 0) return;
    const NodeId parent = at.parent;
    unlink(node);
    if (at.marked_again) marks_.erase(node);
    if (parent == kNoNode) names_.erase(node);
    at = {};
    free_.push_back(node);
    --live_;
    if (parent != kNoNode) {
      Node& above = nodes_[index(parent)];
      --above.children;
      // Of a prefix the deepest block goes first: this one is the next, and what its end looks at
      // is not in the cache.
      __builtin_prefetch(&slots_[home(key_of(above.chain))]);
      if (above.parent != kNoNode) __builtin_prefetch(&nodes_[index(above.parent)]);
    }
    node = parent;
  }
}

void PrefixCache::link(const Slot& slot) {
  std::size_t at = home(slot.key);
  while (slots_[at].node != kNoNode) at = after(at);
  slots_[at] = slot;
}

void PrefixCache::unlink(NodeId node) {
  std::size_t hole = home(key_of(nodes_[index(node)].chain));
  while (slots_[hole].node != node) hole = after(hole);
  // Slots behind it move up, but for those whose keys' slots begin behind the hole.
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = after(hole); slots_[at].node != kNoNode; at = after(at)) {
    const std::size_t from_home = (at - home(slots_[at].key)) & mask;
    if (from_home < ((at - hole) & mask)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
}

void PrefixCache::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
  for (const Slot& slot : old) {
    if (slot.node != kNoNode) link(slot);
  }
}

void PrefixCache::check() const {
  std::vector<std::int32_t> children(nodes_.size());
  std::int64_t used = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id) {
    const Node& node = nodes_[index(id)];
    if (!node.used) continue;
    ++used;
    CHECK(
        node.marked_again == marks_.contains(id) && (node.parent == kNoNode) == names_.contains(id),
        "node {}", id);
    if (node.parent != kNoNode) ++children[index(node.parent)];
    std::int32_t held = 0;
    for (int group = 0; group < groups_; ++group) held += block(id, group) != kNoBlock ? 1 : 0;
    CHECK(held == node.held, "node {} holds {}, counted {}", id, node.held, held);
    CHECK(node.held > 0 || node.children > 0 || node.pins > 0, "node {} has no use", id);
  }
  CHECK(used == live_, "{} nodes, counted {}", live_, used);
  std::int64_t linked = 0;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const NodeId id = slots_[slot].node;
    if (id == kNoNode) continue;
    ++linked;
    CHECK(nodes_[index(id)].used && slots_[slot].key == key_of(nodes_[index(id)].chain), "slot {}",
          slot);
    for (std::size_t at = home(slots_[slot].key); at != slot; at = after(at))
      CHECK(slots_[at].node != kNoNode, "slot {} is not reached from its key's", slot);
  }
  CHECK(linked == live_, "{} nodes, {} in the table", live_, linked);
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id) {
    CHECK(children[index(id)] == nodes_[index(id)].children, "node {}: {} children, counted {}", id,
          nodes_[index(id)].children, children[index(id)]);
  }
}

}  // namespace saccade
