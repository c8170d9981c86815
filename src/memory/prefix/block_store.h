// Blocks: what block tables point at. A block is `tables` pages of one group with a count of the
// sequences that read it. At count 0 a block with a name (prefix_cache.h) stays as cached until
// room is needed; one without is free at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "memory/admission.h"
#include "memory/layer_policy.h"
#include "memory/page_pool.h"
#include "memory/prefix/evictor.h"
#include "memory/prefix/prefix_cache.h"

namespace saccade {

// What a block is found by.
struct BlockNames {
  NodeId full = kNoNode;
  NodeId partial = kNoNode;  // ends at an image's end inside the block
  bool any() const { return full != kNoNode || partial != kNoNode; }
};

class BlockStore {
 public:
  // Called when a named block is taken away, with the names that it had: whoever knows them forgets
  // them.
  using OnEvict = std::function<void(int group, BlockNames names)>;

  BlockStore(const PagePlan& plan, std::int64_t large_pages, int owners, OnEvict on_evict);

  // What `blocks` more blocks of a group ask of the pool, on behalf of `owner` (-1: a newcomer).
  GroupDemand demand(int group, std::int64_t blocks, OwnerId owner) const;
  // Large pages that any group may get, free or made free by eviction.
  std::int64_t available_large() const;

  // A block with one reader, evicting as needed. The demand must have been granted; *quota is what
  // decide() gave the group and is counted down.
  BlockId take(int group, OwnerId owner, std::int64_t* quota);
  void share(int group, BlockId block);  // one reader more; a cached block comes back to life
  // One reader less. `key`: its place among cached blocks if this was the last and it has a name.
  void drop(int group, BlockId block, const EvictionKey& key);
  // As drop, at the place that it had before share(): the undoing of a share.
  void unshare(int group, BlockId block);

  // With a name the block stays when its last reader has gone.
  BlockNames& names(int group, BlockId block) { return at(group).blocks[index(block)].names; }
  const BlockNames& names(int group, BlockId block) const {
    return at(group).blocks[index(block)].names;
  }
  int readers(int group, BlockId block) const { return at(group).blocks[index(block)].readers; }
  PageId page(int group, BlockId block, int table) const;
  // Takes every name away: cached blocks come free.
  void forget_all();

  const PagePool& pool() const { return pool_; }
  PagePool& pool() { return pool_; }
  const PagePlan& plan() const { return plan_; }
  std::int64_t blocks(int group) const {
    return static_cast<std::int64_t>(at(group).blocks.size());
  }
  std::int64_t cached_blocks(int group) const { return at(group).cached; }
  std::int64_t pages_cached(int group) const { return at(group).cached * at(group).tables; }
  std::uint64_t evictions(int group) const { return at(group).evictions; }
  void check() const;  // linear

 private:
  // All that a block's cached life and its end look at, names too, in half a cache line.
  struct alignas(32) Block {
    std::int64_t stamp = 0;  // stamp, depth, early: its place when last cached
    std::uint32_t depth = 0;
    std::int32_t readers = 0;
    BlockNames names;
    bool early = false;
    bool taken = false;

    EvictionKey key() const { return {early, stamp, depth}; }
    void set_key(const EvictionKey& key) {
      early = key.early;
      stamp = key.stamp;
      depth = static_cast<std::uint32_t>(key.depth);
    }
  };
  static_assert(sizeof(Block) == 32);
  struct Group {
    int tables = 1;
    std::vector<Block> blocks;
    std::vector<PageId> pages;       // [blocks * tables] when tables > 1
    std::vector<BlockId> free_ids;   // when tables > 1
    std::vector<std::int32_t> live;  // [large] blocks with readers, when ratio > 1
    std::int64_t cached = 0;         // with a name, no reader
    std::uint64_t evictions = 0;     // blocks
  };
  static std::size_t index(BlockId block) { return static_cast<std::size_t>(block); }
  const Group& at(int group) const { return groups_[static_cast<std::size_t>(group)]; }
  Group& at(int group) { return groups_[static_cast<std::size_t>(group)]; }
  bool packed(int group) const { return pool_.ratio(group) > 1; }

  void become_live(int group, BlockId block);
  void become_cached(int group, BlockId block);
  void leave_live(int group, BlockId block);
  void free_block(int group, BlockId block);
  void evict(int group, BlockId block);
  void prefetch_next(int group) const;
  bool evict_large(int for_group);
  bool evict_stray(int group);
  PageId take_page(int group, OwnerId owner, std::int64_t* quota);
  std::int64_t evictable_large(int group) const;
  bool may_give_way(int group, int for_group) const;

  PagePlan plan_;
  PagePool pool_;
  OnEvict on_evict_;
  std::vector<Group> groups_;
  std::vector<PageId> taken_pages_;  // take()'s scratch
  // What frees whole large pages: blocks where ratio is 1, else large pages without a live block.
  Evictor large_evictor_;
  // Cached blocks in large pages that have live ones; only for ratio > 1.
  Evictor stray_evictor_;
};

}  // namespace saccade
