#include "memory/page_pool.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "memory/page_math.h"

namespace saccade {
namespace {

constexpr PageId kTaken = -2;  // in next_free

}  // namespace

PagePool::PagePool(const PagePlan& plan, std::int64_t large_pages, int owners)
    : larges_(at_index(large_pages)),
      steal_links_(at_index(large_pages)),
      epochs_(at_index(owners), 1) {
  for (std::int32_t large = 0; large < large_pages; ++large) free_list_.push_back(links(), large);
  free_large_ = large_pages;
  for (const GroupPlan& from : plan.groups) {
    CHECK(large_pages * from.ratio <= std::numeric_limits<PageId>::max(), "{} pages",
          large_pages * from.ratio);
    Group& group = groups_.emplace_back();
    group.ratio = from.ratio;
    group.cap = from.share > 0
                    ? static_cast<std::int64_t>(from.share * static_cast<double>(large_pages))
                    : large_pages;
    group.reserved = std::min(large_pages, (from.reserved + from.ratio - 1) / from.ratio);
    if (from.ratio > 1) group.next_free.assign(at_index(large_pages * from.ratio), kTaken);
    group.owned.resize(at_index(owners));
    group.own_stray.resize(at_index(owners));
  }
}

std::int64_t PagePool::reserved_large() const {
  std::int64_t reserved = 0;
  for (const Group& group : groups_) {
    reserved += std::max<std::int64_t>(0, group.reserved - group.held);
  }
  return std::min(reserved, free_large_);
}

std::int64_t PagePool::reserve_left(int group) const {
  return std::max<std::int64_t>(0, at(group).reserved - at(group).held);
}

std::int64_t PagePool::available_large(int group) const {
  const Group& own = at(group);
  const std::int64_t for_others = reserved_large() - reserve_left(group);
  return std::max<std::int64_t>(0, std::min(free_large_ - for_others, own.cap - own.held));
}

std::int64_t PagePool::own_stray(int group, OwnerId owner) const {
  return at(group).own_stray[at_index(owner)];
}

bool PagePool::is_taken(int group, PageId page) const {
  const Group& of = at(group);
  return group_of(large_of(group, page)) == group &&
         (of.ratio == 1 || of.next_free[at_index(page)] == kTaken);
}

bool PagePool::has_owner(const Large& large) const {
  return large.epoch == epochs_[at_index(large.owner)];
}

void PagePool::list(Group& group, std::int32_t index) {
  const Large& large = larges_[at_index(index)];
  if (large.free == 0 || large.parked) return;
  group.stray += large.free;
  if (has_owner(large)) {
    group.owned[at_index(large.owner)].push_back(links(), index);
    group.own_stray[at_index(large.owner)] += large.free;
    group.stealable.push_back(steal_links(), index);
  } else {
    group.orphans.push_back(links(), index);
  }
}

void PagePool::unlist(Group& group, std::int32_t index) {
  const Large& large = larges_[at_index(index)];
  if (large.free == 0 || large.parked) return;
  group.stray -= large.free;
  if (has_owner(large)) {
    group.owned[at_index(large.owner)].remove(links(), index);
    group.own_stray[at_index(large.owner)] -= large.free;
    group.stealable.remove(steal_links(), index);
  } else {
    group.orphans.remove(links(), index);
  }
}

PagePool::Large& PagePool::open_large(int group, OwnerId owner, std::int32_t* index) {
  *index = free_list_.front();
  free_list_.remove(links(), *index);
  --free_large_;
  ++at(group).held;
  Large& large = larges_[at_index(*index)];
  large.owner = owner;
  large.epoch = epochs_[at_index(owner)];
  large.group = static_cast<std::int16_t>(group);
  return large;
}

std::int32_t PagePool::new_large(int group, OwnerId owner) {
  std::int32_t index = -1;
  Large& large = open_large(group, owner, &index);
  Group& to = at(group);
  large.free = static_cast<std::int32_t>(to.ratio);
  for (std::int64_t page = (index + 1) * to.ratio - 1; page >= index * to.ratio; --page) {
    to.next_free[at_index(page)] = large.first_free;
    large.first_free = static_cast<PageId>(page);
  }
  list(to, index);
  return index;
}

void PagePool::park(std::int32_t large) {
  unlist(at(group_of(large)), large);
  larges_[at_index(large)].parked = true;
}

void PagePool::unpark(std::int32_t large) {
  larges_[at_index(large)].parked = false;
  list(at(group_of(large)), large);
}

PageId PagePool::pop(Group& group, std::int32_t index) {
  Large& large = larges_[at_index(index)];
  const PageId page = large.first_free;
  if (large.free == 1) {
    unlist(group, index);
  } else {
    --group.stray;
    if (has_owner(large)) --group.own_stray[at_index(large.owner)];
  }
  --large.free;
  large.first_free = group.next_free[at_index(page)];
  group.next_free[at_index(page)] = kTaken;
  ++group.taken;
  return page;
}

PageId PagePool::take(int group, OwnerId owner, std::int64_t* quota) {
  Group& from = at(group);
  if (IndexList& own = from.owned[at_index(owner)]; !own.empty()) return pop(from, own.front());
  if (*quota > 0 && available_large(group) > 0) {
    --*quota;
    if (from.ratio > 1) return pop(from, new_large(group, owner));
    // Never in any list: it is used whole.
    std::int32_t page = kNoPage;
    open_large(group, owner, &page);
    ++from.taken;
    return page;
  }
  if (!from.orphans.empty()) {
    const std::int32_t adopted = from.orphans.front();
    unlist(from, adopted);
    Large& large = larges_[at_index(adopted)];
    large.owner = owner;
    large.epoch = epochs_[at_index(owner)];
    list(from, adopted);
    return pop(from, adopted);
  }
  if (!from.stealable.empty()) return pop(from, from.stealable.front());
  return kNoPage;
}

void PagePool::give_back(int group, PageId page) {
  Group& to = at(group);
  CHECK(is_taken(group, page), "group {} page {} is free already", group, page);
  const std::int32_t index = large_of(group, page);
  Large& large = larges_[at_index(index)];
  --to.taken;
  if (to.ratio > 1) {
    unlist(to, index);
    to.next_free[at_index(page)] = large.first_free;
    large.first_free = page;
    if (++large.free < to.ratio) {
      list(to, index);
      return;
    }
  }
  large = {};
  --to.held;
  ++free_large_;
  free_list_.push_back(links(), index);
}

void PagePool::end_owner(OwnerId owner) {
  for (Group& group : groups_) {
    IndexList& owned = group.owned[at_index(owner)];
    while (!owned.empty()) {
      const std::int32_t index = owned.front();
      owned.remove(links(), index);
      group.stealable.remove(steal_links(), index);
      group.orphans.push_back(links(), index);
    }
    group.own_stray[at_index(owner)] = 0;
  }
  ++epochs_[at_index(owner)];
}

void PagePool::check() const {
  std::int64_t free = 0;
  std::vector<std::int64_t> held(groups_.size());
  std::vector<std::int64_t> taken(groups_.size());
  std::vector<std::int64_t> stray(groups_.size());
  std::vector<std::vector<std::int64_t>> own_stray(groups_.size(),
                                                   std::vector<std::int64_t>(epochs_.size()));
  for (std::int32_t index = 0; index < large_pages(); ++index) {
    const Large& large = larges_[at_index(index)];
    if (large.group < 0) {
      ++free;
      CHECK(larges_[at_index(index)].link.linked(), "free large page {} is not listed", index);
      continue;
    }
    const Group& group = at(large.group);
    std::int64_t stack = 0;
    for (PageId page = large.first_free; page != kNoPage; page = group.next_free[at_index(page)]) {
      CHECK(large_of(large.group, page) == index && ++stack <= group.ratio, "page {}", page);
    }
    CHECK(stack == large.free && stack < group.ratio, "large page {}: {} free, {} on its stack",
          index, large.free, stack);
    const bool listed = large.free > 0 && !large.parked;
    CHECK(large.link.linked() == listed, "large page {}", index);
    CHECK(steal_links_[at_index(index)].linked() == (listed && has_owner(large)), "large page {}",
          index);
    const auto g = at_index(large.group);
    if (listed) stray[g] += large.free;
    ++held[g];
    taken[g] += group.ratio - large.free;
    if (listed && has_owner(large)) own_stray[g][at_index(large.owner)] += large.free;
  }
  CHECK(free == free_large_, "{} free large pages, counted {}", free_large_, free);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    CHECK(held[g] == groups_[g].held && taken[g] == groups_[g].taken,
          "group {}: {} large {} taken, counted {} {}", g, groups_[g].held, groups_[g].taken,
          held[g], taken[g]);
    CHECK(stray[g] == groups_[g].stray, "group {}: {} stray, counted {}", g, groups_[g].stray,
          stray[g]);
    CHECK(own_stray[g] == groups_[g].own_stray, "group {}: owners' strays", g);
    CHECK(groups_[g].held <= groups_[g].cap, "group {}: {} over {}", g, groups_[g].held,
          groups_[g].cap);
  }
}

}  // namespace saccade
