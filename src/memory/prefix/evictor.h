// Which cached thing goes first. Oldest stamp first; of one stamp the deepest in its prefix first,
// so that what is left of a prefix can still be hit. Groups share one order: the group whose oldest
// entry is globally oldest gives way, which keeps the groups balanced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

// Entries are ids in [0, ids), kept by their stamps: nearly all come with the newest one, the
// deepest first, and leave from the oldest one, so that both ends are read and written in order,
// whatever the number of entries. A heap of them missed the cache at each of its levels.
//
// remove() only forgets the entry's ticket; what lies on is passed over when its turn comes, or
// dropped with all others once it is more than what counts. So add and remove are O(1) amortised,
// but for a stamp that is not the newest: O(log stamps). oldest() and before() put in order, once,
// what was added out of it.
class EvictionQueue {
 public:
  explicit EvictionQueue(std::int64_t ids);
  void add(std::int32_t id, const EvictionKey& key);
  void remove(std::int32_t id);
  bool contains(std::int32_t id) const { return tickets_[index(id)] != kNotQueued; }
  bool empty() const { return queued_ == 0; }
  std::int64_t size() const { return queued_; }
  std::int64_t stored() const { return stored_; }  // what takes memory: at most 2 size() + 1024
  std::int32_t oldest();                           // not empty
  // Which may well be the oldest after that, for a prefetch; -1: nobody can tell. After oldest().
  std::int32_t likely_next() const;
  void prefetch(std::int32_t id) const { __builtin_prefetch(&tickets_[index(id)]); }
  // Whether its oldest goes before another's by their keys alone. Neither is empty.
  bool before(EvictionQueue& other);

 private:
  static constexpr std::uint64_t kNotQueued = 0;
  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

  struct Entry {
    std::uint64_t depth_and_id = 0;  // the deepest first; of one depth the least id
    std::uint64_t ticket = 0;        // what add() gave it: of a later add(), or none, it is stale
    std::int32_t id() const { return static_cast<std::int32_t>(depth_and_id & 0xffffffffu); }
    bool operator<(const Entry& other) const { return depth_and_id < other.depth_and_id; }
  };
  // Entries of one stamp: [first, ordered) in order, what comes after as it came.
  struct Turn {
    std::vector<Entry> entries;
    std::size_t first = 0;
    std::size_t ordered = 0;

    void add(const Entry& entry);
    void order();
  };

  bool stale(const Entry& entry) const { return tickets_[index(entry.id())] != entry.ticket; }
  Turn& turn_at(std::uint64_t when);
  void keep_memory(Turn& turn);
  // The first turn begins with an entry that counts, afterwards. Not empty.
  const Entry& settle();
  void drop_stale();

  std::map<std::uint64_t, Turn> turns_;    // by stamp; early ones before all others
  std::vector<std::uint64_t> tickets_;     // [ids]
  std::vector<std::vector<Entry>> spare_;  // memory of turns that are over, for later ones
  std::uint64_t last_ticket_ = kNotQueued;
  std::int64_t queued_ = 0;
  std::int64_t stored_ = 0;  // entries, the stale too
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
  std::optional<Victim> oldest(Allowed&& allowed) {
    std::optional<Victim> victim;
    for (int group = 0; group < static_cast<int>(queues_.size()); ++group) {
      EvictionQueue& candidate = queue(group);
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
