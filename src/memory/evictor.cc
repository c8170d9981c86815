#include "memory/evictor.h"

#include "base/check.h"

namespace saccade {

namespace {
constexpr std::size_t kArity = 4;  // shallower than a binary heap, and siblings lie together
}

EvictionQueue::EvictionQueue(std::int64_t ids) : where_(static_cast<std::size_t>(ids), -1) {}

EvictionQueue::Entry EvictionQueue::entry_of(std::int32_t id, const EvictionKey& key) {
  constexpr std::int64_t kMostDepth = std::int64_t{0xffffffff};
  CHECK(key.stamp >= 0 && key.depth >= 0 && key.depth <= kMostDepth, "stamp {}, depth {}",
        key.stamp, key.depth);
  return {
      static_cast<std::uint64_t>(key.stamp) | (key.early ? 0 : std::uint64_t{1} << 63),
      static_cast<std::uint64_t>(kMostDepth - key.depth) << 32 | static_cast<std::uint32_t>(id)};
}

void EvictionQueue::place(std::size_t slot, const Entry& entry) {
  heap_[slot] = entry;
  where_[static_cast<std::size_t>(entry.id())] = static_cast<std::int32_t>(slot);
}

void EvictionQueue::sift_up(std::size_t slot, const Entry& entry) {
  while (slot > 0) {
    const std::size_t parent = (slot - 1) / kArity;
    if (!(entry < heap_[parent])) break;
    place(slot, heap_[parent]);
    slot = parent;
  }
  place(slot, entry);
}

void EvictionQueue::sift_down(std::size_t slot, const Entry& entry) {
  while (true) {
    const std::size_t first = slot * kArity + 1;
    if (first >= heap_.size()) break;
    std::size_t child = first;
    for (std::size_t other = first + 1; other < first + kArity && other < heap_.size(); ++other) {
      if (heap_[other] < heap_[child]) child = other;
    }
    if (!(heap_[child] < entry)) break;
    place(slot, heap_[child]);
    slot = child;
  }
  place(slot, entry);
}

void EvictionQueue::add(std::int32_t id, const EvictionKey& key) {
  CHECK(!contains(id), "{} is queued already", id);
  heap_.emplace_back();
  sift_up(heap_.size() - 1, entry_of(id, key));
}

void EvictionQueue::remove(std::int32_t id) {
  CHECK(contains(id), "{} is not queued", id);
  const auto slot = static_cast<std::size_t>(where_[static_cast<std::size_t>(id)]);
  where_[static_cast<std::size_t>(id)] = -1;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (slot == heap_.size()) return;
  if (slot > 0 && last < heap_[(slot - 1) / kArity]) {
    sift_up(slot, last);
  } else {
    sift_down(slot, last);
  }
}

Evictor::Evictor(const std::vector<std::int64_t>& ids_per_group) {
  for (const std::int64_t ids : ids_per_group) queues_.emplace_back(ids);
}

}  // namespace saccade
