// Which cached thing goes first. Oldest stamp first; of one stamp the deepest in its prefix first,
// so that what is left of a prefix can still be hit. Groups share one order: the group whose oldest
// entry is globally oldest gives way, which keeps the groups balanced.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace saccade {

struct EvictionKey {
  bool early = false;      // before everything that is not: blocks that fell out of a window
  std::int64_t stamp = 0;  // last access, in allocator turns
  std::int64_t depth = 0;  // tokens of the prefix that ends here; below 2^32

  bool before(const EvictionKey& other) const {
    if (early != other.early) return early;
    if (stamp != other.stamp) return stamp < other.stamp;
    return depth > other.depth;
  }
};

// A heap that knows where each entry is: add, remove and oldest in O(log entries), no allocation
// once grown. Entries are ids in [0, ids).
class EvictionQueue {
 public:
  explicit EvictionQueue(std::int64_t ids);
  void add(std::int32_t id, const EvictionKey& key);
  void remove(std::int32_t id);
  bool contains(std::int32_t id) const { return where_[static_cast<std::size_t>(id)] >= 0; }
  bool empty() const { return heap_.empty(); }
  std::int64_t size() const { return static_cast<std::int64_t>(heap_.size()); }
  std::int32_t oldest() const { return heap_.front().id(); }  // not empty
  // Whether its oldest goes before another's by their keys alone. Neither is empty.
  bool before(const EvictionQueue& other) const {
    const Entry& a = heap_.front();
    const Entry& b = other.heap_.front();
    return a.when != b.when ? a.when < b.when : a.depth_and_id >> 32 < b.depth_and_id >> 32;
  }

 private:
  // Key and id as two numbers in the order in which entries go: four siblings are a cache line.
  struct Entry {
    std::uint64_t when = 0;          // stamp; above all stamps, whether it is not early
    std::uint64_t depth_and_id = 0;  // the deepest first; of one depth the least id
    std::int32_t id() const { return static_cast<std::int32_t>(depth_and_id & 0xffffffffu); }
    bool operator<(const Entry& other) const {
      return when != other.when ? when < other.when : depth_and_id < other.depth_and_id;
    }
  };
  static Entry entry_of(std::int32_t id, const EvictionKey& key);
  void place(std::size_t slot, const Entry& entry);
  void sift_up(std::size_t slot, const Entry& entry);
  void sift_down(std::size_t slot, const Entry& entry);

  std::vector<Entry> heap_;
  std::vector<std::int32_t> where_;  // [ids] slot in heap_, -1 when not in it
};

// The queues of all groups.
class Evictor {
 public:
  struct Victim {
    int group = 0;
    std::int32_t id = 0;
  };
  explicit Evictor(const std::vector<std::int64_t>& ids_per_group);

  EvictionQueue& queue(int group) { return queues_[static_cast<std::size_t>(group)]; }
  const EvictionQueue& queue(int group) const { return queues_[static_cast<std::size_t>(group)]; }
  // The oldest entry of all groups that `allowed(group)` lets give way.
  template <typename Allowed>
  std::optional<Victim> oldest(Allowed&& allowed) const {
    std::optional<Victim> victim;
    for (int group = 0; group < static_cast<int>(queues_.size()); ++group) {
      const EvictionQueue& candidate = queue(group);
      if (candidate.empty() || !allowed(group)) continue;
      if (victim && !candidate.before(queue(victim->group))) continue;
      victim = Victim{group, candidate.oldest()};
    }
    return victim;
  }

 private:
  std::vector<EvictionQueue> queues_;
};

}  // namespace saccade
