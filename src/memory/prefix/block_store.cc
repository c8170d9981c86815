#include "memory/prefix/block_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace saccade {
namespace {

std::vector<std::int64_t> block_ids(const PagePlan& plan, std::int64_t large_pages) {
  std::vector<std::int64_t> ids;
  for (const GroupPlan& group : plan.groups)
    ids.push_back(large_pages * group.ratio / group.tables);
  return ids;
}

// Ids of what can free whole large pages: blocks, or large pages where these hold several.
std::vector<std::int64_t> large_ids(const PagePlan& plan, std::int64_t large_pages) {
  std::vector<std::int64_t> ids;
  for (const GroupPlan& group : plan.groups) ids.push_back(large_pages / group.tables);
  return ids;
}

}  // namespace

BlockStore::BlockStore(const PagePlan& plan, std::int64_t large_pages, int owners, OnEvict on_evict)
    : plan_(plan),
      pool_(plan, large_pages, owners),
      on_evict_(std::move(on_evict)),
      large_evictor_(large_ids(plan, large_pages)),
      stray_evictor_(block_ids(plan, large_pages)) {
  const std::vector<std::int64_t> ids = block_ids(plan, large_pages);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    Group& group = groups_.emplace_back();
    group.tables = plan.groups[g].tables;
    group.blocks.resize(static_cast<std::size_t>(ids[g]));
    if (group.tables > 1) {
      group.pages.assign(static_cast<std::size_t>(ids[g] * group.tables), kNoPage);
      for (std::int64_t id = ids[g] - 1; id >= 0; --id) {
        group.free_ids.push_back(static_cast<BlockId>(id));
      }
    }
    if (plan.groups[g].ratio > 1) group.live.assign(static_cast<std::size_t>(large_pages), 0);
  }
}

std::int64_t BlockStore::evictable_large(int group) const {
  return large_evictor_.queue(group).size() * at(group).tables;
}

bool BlockStore::may_give_way(int group, int for_group) const {
  if (group == for_group) return true;
  if (pool_.held_large(for_group) >= pool_.cap_large(for_group)) return false;
  return pool_.held_large(group) > pool_.reserved(group);
}

std::int64_t BlockStore::available_large() const {
  std::int64_t available = pool_.free_large() - pool_.reserved_large();
  for (int group = 0; group < static_cast<int>(groups_.size()); ++group) {
    const std::int64_t over = pool_.held_large(group) - pool_.reserved(group);
    available += std::clamp<std::int64_t>(over, 0, evictable_large(group));
  }
  return available;
}

GroupDemand BlockStore::demand(int group, std::int64_t blocks, OwnerId owner) const {
  const std::int64_t cap = pool_.cap_large(group);
  GroupDemand demand;
  demand.pages = blocks * at(group).tables;
  demand.ratio = pool_.ratio(group);
  demand.own_stray = owner >= 0 ? pool_.own_stray(group, owner) : 0;
  demand.stray = pool_.stray(group) + stray_evictor_.queue(group).size();
  demand.reserved = pool_.reserve_left(group);
  demand.available_large = std::min(available_large() + demand.reserved,
                                    cap - pool_.held_large(group) + evictable_large(group));
  demand.largest = cap;
  return demand;
}

PageId BlockStore::page(int group, BlockId block, int table) const {
  const Group& from = at(group);
  if (from.tables == 1) return block;
  return from.pages[index(block) * static_cast<std::size_t>(from.tables) +
                    static_cast<std::size_t>(table)];
}

PageId BlockStore::take_page(int group, OwnerId owner, std::int64_t* quota) {
  if (*quota > 0 && pool_.own_stray(group, owner) == 0) {
    while (pool_.available_large(group) == 0 && evict_large(group)) {
    }
  }
  PageId page = pool_.take(group, owner, quota);
  if (page == kNoPage && evict_stray(group)) page = pool_.take(group, owner, quota);
  CHECK(page != kNoPage, "group {}: a page was granted that is not there, quota {}", group, *quota);
  return page;
}

BlockId BlockStore::take(int group, OwnerId owner, std::int64_t* quota) {
  Group& to = at(group);
  BlockId block = kNoBlock;
  if (to.tables == 1) {
    block = take_page(group, owner, quota);
  } else {
    // The id comes last: when all are in use, one of the evictions above it has given one back.
    taken_pages_.clear();
    for (int table = 0; table < to.tables; ++table) {
      taken_pages_.push_back(take_page(group, owner, quota));
    }
    block = to.free_ids.back();
    to.free_ids.pop_back();
    std::copy(taken_pages_.begin(), taken_pages_.end(),
              to.pages.begin() + static_cast<std::ptrdiff_t>(block) * to.tables);
  }
  Block& record = to.blocks[index(block)];
  CHECK(!record.taken, "group {} block {} is taken", group, block);
  record = {};
  record.readers = 1;
  record.taken = true;
  if (packed(group)) ++to.live[static_cast<std::size_t>(pool_.large_of(group, block))];
  return block;
}

void BlockStore::share(int group, BlockId block) {
  Block& record = at(group).blocks[index(block)];
  CHECK(record.taken, "group {} block {} is free", group, block);
  if (record.readers++ == 0) become_live(group, block);
}

void BlockStore::drop(int group, BlockId block, const EvictionKey& key) {
  Block& record = at(group).blocks[index(block)];
  CHECK(record.readers > 0, "group {} block {} has no reader", group, block);
  if (--record.readers > 0) return;
  if (record.names.any()) {
    record.set_key(key);
    become_cached(group, block);
  } else {
    leave_live(group, block);
    free_block(group, block);
  }
}

void BlockStore::unshare(int group, BlockId block) {
  drop(group, block, at(group).blocks[index(block)].key());
}

void BlockStore::become_live(int group, BlockId block) {
  Group& to = at(group);
  --to.cached;
  if (!packed(group)) {
    large_evictor_.queue(group).remove(block);
    return;
  }
  const std::int32_t large = pool_.large_of(group, block);
  if (to.live[static_cast<std::size_t>(large)]++ > 0) {
    stray_evictor_.queue(group).remove(block);
    return;
  }
  // The large page can no longer be emptied: its other cached blocks go one by one from now on.
  large_evictor_.queue(group).remove(large);
  pool_.unpark(large);
  const std::int64_t ratio = pool_.ratio(group);
  for (auto other = static_cast<BlockId>(large * ratio); other < (large + 1) * ratio; ++other) {
    const Block& record = to.blocks[index(other)];
    if (other != block && record.taken) stray_evictor_.queue(group).add(other, record.key());
  }
}

void BlockStore::become_cached(int group, BlockId block) {
  Group& to = at(group);
  ++to.cached;
  if (!packed(group)) {
    large_evictor_.queue(group).add(block, to.blocks[index(block)].key());
    return;
  }
  stray_evictor_.queue(group).add(block, to.blocks[index(block)].key());
  leave_live(group, block);
}

// One live block less in this block's large page; the last one makes the page evictable as a whole.
void BlockStore::leave_live(int group, BlockId block) {
  if (!packed(group)) return;
  Group& from = at(group);
  const std::int32_t large = pool_.large_of(group, block);
  if (--from.live[static_cast<std::size_t>(large)] > 0) return;
  EvictionKey newest;
  bool any = false;
  const std::int64_t ratio = pool_.ratio(group);
  for (auto other = static_cast<BlockId>(large * ratio); other < (large + 1) * ratio; ++other) {
    const Block& record = from.blocks[index(other)];
    if (!record.taken || record.readers > 0 || !record.names.any()) continue;
    stray_evictor_.queue(group).remove(other);
    if (!any || newest.before(record.key())) newest = record.key();
    any = true;
  }
  if (!any) return;  // nothing but the block that is about to be freed
  pool_.park(large);
  large_evictor_.queue(group).add(large, newest);
}

void BlockStore::free_block(int group, BlockId block) {
  Group& from = at(group);
  Block& record = from.blocks[index(block)];
  record = {};
  for (int table = 0; table < from.tables; ++table) {
    pool_.give_back(group, page(group, block, table));
  }
  if (from.tables > 1) from.free_ids.push_back(block);
}

void BlockStore::evict(int group, BlockId block) {
  --at(group).cached;
  ++at(group).evictions;
  on_evict_(group, std::exchange(at(group).blocks[index(block)].names, {}));
  free_block(group, block);
}

// One eviction is seldom alone, and each begins with what has long not been looked at.
void BlockStore::prefetch_next(int group) const {
  const EvictionQueue& queue = large_evictor_.queue(group);
  const std::int32_t next = queue.likely_next();
  if (next < 0) return;
  queue.prefetch(next);
  if (packed(group)) return;
  __builtin_prefetch(&at(group).blocks[index(next)]);
  if (at(group).tables == 1) pool_.prefetch(next);
}

bool BlockStore::evict_large(int for_group) {
  const auto victim =
      large_evictor_.oldest([&](int group) { return may_give_way(group, for_group); });
  if (!victim) return false;
  prefetch_next(victim->group);
  large_evictor_.queue(victim->group).remove(victim->id);
  if (!packed(victim->group)) {
    evict(victim->group, victim->id);
    return true;
  }
  const std::int64_t ratio = pool_.ratio(victim->group);
  for (auto block = static_cast<BlockId>(victim->id * ratio); block < (victim->id + 1) * ratio;
       ++block) {
    if (at(victim->group).blocks[index(block)].taken) evict(victim->group, block);
  }
  return true;
}

bool BlockStore::evict_stray(int group) {
  EvictionQueue& queue = stray_evictor_.queue(group);
  if (queue.empty()) return false;
  const BlockId block = queue.oldest();
  queue.remove(block);
  evict(group, block);
  return true;
}

void BlockStore::forget_all() {
  for (int group = 0; group < static_cast<int>(groups_.size()); ++group) {
    while (!large_evictor_.queue(group).empty()) {
      CHECK(evict_large(group), "group {} keeps a cached block", group);
    }
    while (evict_stray(group)) {
    }
    for (BlockId block = 0; block < blocks(group); ++block) {
      Block& record = at(group).blocks[index(block)];
      if (record.names.any()) on_evict_(group, std::exchange(record.names, {}));
    }
  }
}

void BlockStore::check() const {
  pool_.check();
  for (int group = 0; group < static_cast<int>(groups_.size()); ++group) {
    const Group& of = at(group);
    std::int64_t taken = 0;
    std::int64_t cached = 0;
    std::vector<std::int32_t> live(of.live.size());
    std::vector<bool> owned(static_cast<std::size_t>(pool_.large_pages() * pool_.ratio(group)));
    for (BlockId block = 0; block < blocks(group); ++block) {
      const Block& record = of.blocks[index(block)];
      if (!record.taken) {
        CHECK(record.readers == 0 && !record.names.any(), "group {} block {}", group, block);
        continue;
      }
      CHECK(record.readers > 0 || record.names.any(), "group {} block {} has no use", group, block);
      ++taken;
      for (int table = 0; table < of.tables; ++table) {
        const PageId page_id = page(group, block, table);
        CHECK(pool_.is_taken(group, page_id), "group {} page {} is free", group, page_id);
        CHECK(!owned[index(page_id)], "group {} page {} has two owners", group, page_id);
        owned[index(page_id)] = true;
      }
      if (record.readers == 0) ++cached;
      if (packed(group) && record.readers > 0) {
        ++live[static_cast<std::size_t>(pool_.large_of(group, block))];
      }
    }
    CHECK(taken * of.tables == pool_.taken(group), "group {}: {} blocks, {} pages taken", group,
          taken, pool_.taken(group));
    CHECK(cached == of.cached && live == of.live, "group {}: {} cached, counted {}", group,
          of.cached, cached);
    for (BlockId block = 0; block < blocks(group); ++block) {
      const Block& record = of.blocks[index(block)];
      const bool is_cached = record.taken && record.readers == 0;
      const bool alone = packed(group) && is_cached &&
                         live[static_cast<std::size_t>(pool_.large_of(group, block))] == 0;
      CHECK(stray_evictor_.queue(group).contains(block) == (packed(group) && is_cached && !alone),
            "group {} block {}", group, block);
      const std::int32_t unit = packed(group) ? pool_.large_of(group, block) : block;
      if (is_cached && (alone || !packed(group))) {
        CHECK(large_evictor_.queue(group).contains(unit), "group {} block {}", group, block);
      }
    }
  }
}

}  // namespace saccade
