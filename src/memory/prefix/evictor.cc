#include "memory/prefix/evictor.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace saccade {
namespace {

constexpr std::int64_t kMaxDepth = std::int64_t{0xffffffff};
constexpr std::int64_t kStaleAllowed = 1024;  // besides as many as there are others
constexpr std::size_t kSpareTurns = 16;
constexpr std::size_t kSpareEntries = 4096;  // of a turn

// In the order in which stamps go: the early ones first.
std::uint64_t when_of(const EvictionKey& key) {
  return static_cast<std::uint64_t>(key.stamp) | (key.early ? 0 : std::uint64_t{1} << 63);
}

}  // namespace

EvictionQueue::EvictionQueue(std::int64_t ids)
    : tickets_(static_cast<std::size_t>(ids), kNotQueued) {}

void EvictionQueue::Turn::add(const Entry& entry) {
  const bool in_order =
      ordered == entries.size() && (first == ordered || !(entry < entries.back()));
  entries.push_back(entry);
  if (in_order) ordered = entries.size();
}

void EvictionQueue::Turn::order() {
  if (ordered == entries.size()) return;
  const auto begin = entries.begin() + static_cast<std::ptrdiff_t>(first);
  const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(ordered);
  std::sort(middle, entries.end());
  std::inplace_merge(begin, middle, entries.end());
  ordered = entries.size();
}

EvictionQueue::Turn& EvictionQueue::turn_at(std::uint64_t when) {
  if (!turns_.empty() && turns_.rbegin()->first == when) return turns_.rbegin()->second;
  const auto [turn, made] = turns_.try_emplace(when);
  if (made && !spare_.empty()) {
    turn->second.entries = std::move(spare_.back());
    spare_.pop_back();
  }
  return turn->second;
}

void EvictionQueue::keep_memory(Turn& turn) {
  if (spare_.size() == kSpareTurns || turn.entries.capacity() > kSpareEntries) return;
  turn.entries.clear();
  spare_.push_back(std::move(turn.entries));
}

void EvictionQueue::add(std::int32_t id, const EvictionKey& key) {
  CHECK(!contains(id), "{} is queued already", id);
  CHECK(key.stamp >= 0 && key.depth >= 0 && key.depth <= kMaxDepth, "stamp {}, depth {}", key.stamp,
        key.depth);
  tickets_[index(id)] = ++last_ticket_;
  const auto shallowness = static_cast<std::uint64_t>(kMaxDepth - key.depth);
  turn_at(when_of(key)).add({shallowness << 32 | static_cast<std::uint32_t>(id), last_ticket_});
  ++queued_;
  ++stored_;
}

void EvictionQueue::remove(std::int32_t id) {
  CHECK(contains(id), "{} is not queued", id);
  tickets_[index(id)] = kNotQueued;
  --queued_;
  if (stored_ > 2 * queued_ + kStaleAllowed) drop_stale();
}

std::int32_t EvictionQueue::oldest() { return settle().id(); }

std::int32_t EvictionQueue::likely_next() const {
  const Turn& turn = turns_.begin()->second;
  if (turn.first + 1 < turn.entries.size()) return turn.entries[turn.first + 1].id();
  const auto next = std::next(turns_.begin());
  if (next == turns_.end() || next->second.first >= next->second.entries.size()) return -1;
  return next->second.entries[next->second.first].id();
}

bool EvictionQueue::before(EvictionQueue& other) {
  const std::uint64_t depth = settle().depth_and_id >> 32;
  const std::uint64_t other_depth = other.settle().depth_and_id >> 32;
  const std::uint64_t when = turns_.begin()->first;
  const std::uint64_t other_when = other.turns_.begin()->first;
  return when != other_when ? when < other_when : depth < other_depth;
}

const EvictionQueue::Entry& EvictionQueue::settle() {
  CHECK(!empty(), "nothing is queued");
  while (true) {
    Turn& turn = turns_.begin()->second;
    turn.order();
    while (turn.first < turn.entries.size() && stale(turn.entries[turn.first])) ++turn.first;
    if (turn.first < turn.entries.size()) return turn.entries[turn.first];
    stored_ -= static_cast<std::int64_t>(turn.entries.size());
    keep_memory(turn);
    turns_.erase(turns_.begin());
  }
}

void EvictionQueue::drop_stale() {
  stored_ = 0;
  for (auto at = turns_.begin(); at != turns_.end();) {
    Turn& turn = at->second;
    turn.order();
    turn.entries.erase(turn.entries.begin(),
                       turn.entries.begin() + static_cast<std::ptrdiff_t>(turn.first));
    std::erase_if(turn.entries, [this](const Entry& entry) { return stale(entry); });
    turn.first = 0;
    turn.ordered = turn.entries.size();
    stored_ += static_cast<std::int64_t>(turn.entries.size());
    at = turn.entries.empty() ? turns_.erase(at) : std::next(at);
  }
}

Evictor::Evictor(const std::vector<std::int64_t>& ids_per_group) {
  for (const std::int64_t ids : ids_per_group) queues_.emplace_back(ids);
}

}  // namespace saccade
