// The two-level page pool. A large page belongs to nobody or to one group, which cuts it into
// `ratio` small pages. Small pages of one large page go to one owner where possible, so that they
// die together and the large page returns.
//
// Where a page comes from, in order (the four steps):
//   1. a large page that this owner already holds in part,
//   2. a new large page, as long as the quota lasts,
//   3. a partly used large page whose owner is gone: the taker adopts it whole,
//   4. a partly used large page of another owner: the taker steals one small page of it.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/index_list.h"
#include "memory/page_plan.h"

namespace saccade {

using PageId = std::int32_t;   // of a group: its bytes are [id * page_bytes, (id + 1) * page_bytes)
using OwnerId = std::int32_t;  // slot of a request
constexpr PageId kNoPage = -1;

// Every operation is O(1) but a large page's first use (O(ratio)), end_owner and check. One thread.
class PagePool {
 public:
  // `owners`: ids that may be used are [0, owners).
  PagePool(const PagePlan& plan, std::int64_t large_pages, int owners);

  // kNoPage when the four steps find nothing. Step 2 is taken while *quota > 0 and counts it down.
  PageId take(int group, OwnerId owner, std::int64_t* quota);
  void give_back(int group, PageId page);
  // The owner is gone: its partly used large pages may be adopted from now on.
  void end_owner(OwnerId owner);

  std::int64_t large_pages() const { return static_cast<std::int64_t>(larges_.size()); }
  std::int64_t free_large() const { return free_large_; }
  // Free large pages less what is set aside for other groups, and within the group's cap.
  std::int64_t available_large(int group) const;
  // Large pages set aside for groups and free still.
  std::int64_t reserved_large() const;
  std::int64_t held_large(int group) const { return at(group).held; }
  std::int64_t cap_large(int group) const { return at(group).cap; }
  std::int64_t ratio(int group) const { return at(group).ratio; }
  std::int64_t taken(int group) const { return at(group).taken; }
  // Free small pages of the group that take() may give out without opening a large page, and those
  // of them in large pages of `owner`.
  std::int64_t stray(int group) const { return at(group).stray; }
  std::int64_t own_stray(int group, OwnerId owner) const;
  // Large pages set aside for this group, and those of them that are not taken yet.
  std::int64_t reserved(int group) const { return at(group).reserved; }
  std::int64_t reserve_left(int group) const;
  // Takes a partly used large page out of circulation, or puts it back: its free pages are not to
  // be had one by one while it can be emptied as a whole.
  void park(std::int32_t large);
  void unpark(std::int32_t large);
  std::int32_t large_of(int group, PageId page) const {
    const std::int64_t ratio = at(group).ratio;
    return ratio == 1 ? page : static_cast<std::int32_t>(page / ratio);
  }
  int group_of(std::int32_t large) const { return larges_[static_cast<std::size_t>(large)].group; }
  bool is_taken(int group, PageId page) const;

  void prefetch(std::int32_t large) const {
    __builtin_prefetch(&larges_[static_cast<std::size_t>(large)]);
  }
  void check() const;  // all counters and lists against each other; linear in pages

 private:
  // All that taking or giving back a whole large page looks at, in half a cache line: where caches
  // are large, it is a miss each time.
  struct alignas(32) Large {
    IndexLink link;  // of the free list, owned or orphans
    OwnerId owner = -1;
    std::uint32_t epoch = 0;  // of the owner; another value: that owner is gone
    std::int32_t free = 0;    // small pages
    PageId first_free = kNoPage;
    std::int16_t group = -1;  // -1: free
    bool parked = false;
  };
  struct Group {
    std::int64_t ratio = 1;
    std::int64_t cap = 0;       // large pages
    std::int64_t reserved = 0;  // large pages
    std::int64_t held = 0;      // large pages
    std::int64_t taken = 0;     // small pages
    std::int64_t stray = 0;     // free small pages of listed large pages
    // [pages], kNoPage at the end, kTaken when taken. Empty where ratio is 1: no large page is used
    // in part.
    std::vector<PageId> next_free;
    std::vector<IndexList> owned;         // [owners] partly used large pages
    std::vector<std::int64_t> own_stray;  // [owners] free small pages in them
    IndexList orphans;                    // partly used large pages of owners that are gone
    IndexList stealable;                  // partly used large pages of owners that live
  };

  const Group& at(int group) const { return groups_[static_cast<std::size_t>(group)]; }
  Group& at(int group) { return groups_[static_cast<std::size_t>(group)]; }
  bool has_owner(const Large& large) const;
  void list(Group& group, std::int32_t index);  // a large page with free small pages
  void unlist(Group& group, std::int32_t index);
  Large& open_large(int group, OwnerId owner, std::int32_t* index);
  std::int32_t new_large(int group, OwnerId owner);
  PageId pop(Group& group, std::int32_t index);

  auto links() {
    return [this](std::int32_t large) -> IndexLink& {
      return larges_[static_cast<std::size_t>(large)].link;
    };
  }
  auto steal_links() {
    return [this](std::int32_t large) -> IndexLink& {
      return steal_links_[static_cast<std::size_t>(large)];
    };
  }

  std::vector<Large> larges_;
  std::vector<IndexLink> steal_links_;  // [large] stealable
  IndexList free_list_;
  std::int64_t free_large_ = 0;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> epochs_;  // [owners]
};

}  // namespace saccade
