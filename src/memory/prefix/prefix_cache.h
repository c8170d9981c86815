// Names of cached blocks: a trie over block contents. A node stands for one block's worth of tokens
// after its parent; the look-up key is the chained hash h = H(h of parent, tokens, images), and a
// hit is believed only after tokens, images and parent have been compared. So a hash collision can
// cost a hit, never an answer.
//
// Images enter with their identity (digest over content, layout key and model) and the rows that
// the block holds, so equal placeholder ids of different images or sizes never meet. The cache
// salt is the root's name. Where attention is bidirectional over a prefix, the root's name also
// holds a digest of that whole prefix, since each of its keys depends on all of it.
//
// A node of fewer tokens than a block ends at an image's end: it is a leaf, and whoever hits it
// copies the block before writing on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "memory/layer_policy.h"
#include "memory/prefix/prefix_content.h"

namespace saccade {

using NodeId = std::int32_t;
constexpr NodeId kNoNode = -1;

// One thread. Memory: nodes live while they hold a block, have children or are pinned.
class PrefixCache {
 public:
  PrefixCache(int groups, std::int64_t block_tokens);

  NodeId find_root(std::string_view name) const;  // kNoNode
  NodeId root(std::string_view name);             // made when absent; pin it to keep it
  NodeId find(NodeId parent, const BlockContent& content) const;
  NodeId insert(NodeId parent, const BlockContent& content);

  void pin(NodeId node) { ++nodes_[index(node)].pins; }
  void unpin(NodeId node);

  BlockId block(NodeId node, int group) const {
    return group == 0 ? nodes_[index(node)].first_block : other_blocks_[slot(node, group)];
  }
  void attach(NodeId node, int group, BlockId block);  // the node has none for this group yet
  void detach(NodeId node, int group);                 // may free the node

  // The node's look-up key: equal in every process that has seen these tokens after such a parent.
  std::uint64_t chain(NodeId node) const { return nodes_[index(node)].chain; }
  NodeId parent(NodeId node) const { return nodes_[index(node)].parent; }  // kNoNode of a root
  // Valid until the cache changes.
  BlockContent content(NodeId node) const;

  std::int64_t nodes() const { return live_; }
  std::int64_t held() const { return held_; }  // blocks attached
  void check() const;

 private:
  // What look-ups and the end of a node touch: two to a cache line, with nothing on the heap.
  struct alignas(32) Node {
    std::uint64_t chain = 0;
    NodeId parent = kNoNode;
    std::int32_t children = 0;
    std::int32_t pins = 0;
    BlockId first_block = kNoBlock;  // of group 0
    std::int16_t held = 0;           // groups with a block
    std::uint16_t tokens : 13 = 0;
    bool used : 1 = false;
    bool marked : 1 = false;        // has images: the first in first_marks_,
    bool marked_again : 1 = false;  // all of several in marks_
  };
  static_assert(sizeof(Node) == 32);
  // Of the table of look-up keys: enough of the key to pass by nodes that are not meant, and to
  // move a slot, without looking at any.
  struct Slot {
    std::uint32_t key = 0;
    NodeId node = kNoNode;
  };
  static std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }
  std::size_t slot(NodeId node, int group) const {
    return index(node) * static_cast<std::size_t>(groups_ - 1) +
           static_cast<std::size_t>(group - 1);
  }
  BlockId& block_at(NodeId node, int group) {
    return group == 0 ? nodes_[index(node)].first_block : other_blocks_[slot(node, group)];
  }
  std::span<const std::int32_t> tokens(NodeId node) const {
    return {&tokens_[index(node) * static_cast<std::size_t>(block_tokens_)],
            static_cast<std::size_t>(nodes_[index(node)].tokens)};
  }
  std::span<const BlockContent::Mark> marks(NodeId node) const;
  bool equals(NodeId node, const BlockContent& content) const;
  NodeId find(NodeId parent, std::uint64_t chain, const BlockContent& content) const;
  std::size_t after(std::size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  // Where a key's slots begin.
  std::size_t home(std::uint32_t key) const { return key & (slots_.size() - 1); }
  NodeId make(NodeId parent, std::uint64_t chain);
  void release_if_unused(NodeId node);
  void link(const Slot& slot);
  void unlink(NodeId node);
  void grow();

  int groups_;
  std::int64_t block_tokens_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> tokens_;             // [nodes, block_tokens]
  std::vector<BlockContent::Mark> first_marks_;  // [nodes] as far as any has images
  std::unordered_map<NodeId, std::vector<BlockContent::Mark>> marks_;  // of several
  std::unordered_map<NodeId, std::string> names_;                      // of roots
  std::vector<NodeId> free_;
  std::vector<BlockId> other_blocks_;  // [nodes, groups - 1]: from group 1 on
  std::vector<Slot> slots_;            // power of two, more than twice the nodes; by linear probing
  std::int64_t live_ = 0;
  std::int64_t held_ = 0;
};

}  // namespace saccade
