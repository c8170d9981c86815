#include "grammar/automaton/stack_sets.h"

#include <algorithm>

#include "base/hash.h"

namespace saccade::grammar {

StackSets::StackSets(const Automaton& automaton, FrameId uncounted)
    : automaton_(automaton), uncounted_(uncounted) {
  sets_.resize(2);
  const StackTop bottom{kBottomState, 0, kDead};
  tops_.push_back(bottom);
  sets_[kBottom].count = 1;
  by_hash_.emplace(hash_of(std::span(&bottom, 1)), kBottom);
}

StackSets::Counter StackSets::counter(const State& state) const {
  const Frame& frame = automaton_.frame(state.frame);
  if (!frame.counted) return {};
  if (state.frame == uncounted_) return {true, 0, kUnbounded};
  return {true, frame.min, frame.max};
}

std::uint64_t StackSets::hash_of(std::span<const StackTop> tops) {
  std::uint64_t hash = tops.size();
  for (const StackTop& top : tops) {
    hash = hash_combine(hash, (std::uint64_t{top.state} << 32) | top.below);
    hash = hash_combine(hash, top.laps);
  }
  return hash;
}

SetId StackSets::intern(std::span<const StackTop> tops) {
  if (tops.empty()) return kDead;
  const std::uint64_t hash = hash_of(tops);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    const auto known = this->tops(at->second);
    if (std::equal(known.begin(), known.end(), tops.begin(), tops.end())) return at->second;
  }
  Set set;
  set.begin = static_cast<std::uint32_t>(tops_.size());
  set.count = static_cast<std::uint32_t>(tops.size());
  for (const StackTop& top : tops) {
    const std::uint32_t depth = sets_[top.below].depth + 1;
    const std::uint32_t need = top.state == kBottomState ? 0 : automaton_.state(top.state).need;
    set.depth = std::max(set.depth, depth);
    set.demand = std::max(set.demand, depth + need);
  }
  tops_.insert(tops_.end(), tops.begin(), tops.end());
  sets_.push_back(set);
  const auto id = static_cast<SetId>(sets_.size() - 1);
  by_hash_.emplace(hash, id);
  return id;
}

SetId StackSets::start() { return single({automaton_.frame(automaton_.root()).start, 0, kBottom}); }

SetId StackSets::single(const StackTop& top) { return intern(std::span(&top, 1)); }

SetId StackSets::unite(SetId a, SetId b) {
  if (a == b || b == kDead) return a;
  if (a == kDead) return b;
  const std::uint64_t key = (std::uint64_t{std::min(a, b)} << 32) | std::max(a, b);
  if (const auto known = unions_.find(key); known != unions_.end()) return known->second;
  if (!within_limits()) {
    gave_up_ = true;
    return a;
  }
  std::vector<StackTop> both(tops(a).begin(), tops(a).end());
  both.insert(both.end(), tops(b).begin(), tops(b).end());
  const SetId united = normalize(both);
  unions_.emplace(key, united);
  return united;
}

// Sorts, and joins what lies below equal states; at most kMaxTops.
SetId StackSets::normalize(std::vector<StackTop>& tops) {
  steps_ += tops.size();
  std::sort(tops.begin(), tops.end());
  std::size_t kept = 0;
  std::size_t alike = 0;  // of the same state as the last kept, with other laps
  for (std::size_t i = 0; i < tops.size(); ++i) {
    alike = kept > 0 && tops[kept - 1].state == tops[i].state ? alike : 0;
    if (kept > 0 && tops[kept - 1].state == tops[i].state && tops[kept - 1].laps == tops[i].laps) {
      tops[kept - 1].below = unite(tops[kept - 1].below, tops[i].below);
    } else if (kept < kMaxTops && alike < kMaxLaps) {
      tops[kept++] = tops[i];
      ++alike;
    } else {
      gave_up_ = true;
    }
  }
  return intern(std::span(tops).first(kept));
}

bool StackSets::fits(StateId state, std::uint32_t below, SetId set) {
  const std::uint32_t demand = below + 1 + automaton_.state(state).need;
  sets_[set].demand = std::max(sets_[set].demand, demand);
  return demand <= kMaxDepth;
}

bool StackSets::may_end(const StackTop& top) const {
  if (top.state == kBottomState) return false;
  const State& state = automaton_.state(top.state);
  const Counter counted = counter(state);
  if (!counted.counted) return state.final;
  if (state.final) return top.laps + 1 >= counted.min;
  return top.laps == 0 && counted.min == 0 && automaton_.frame(state.frame).start == top.state;
}

bool StackSets::may_end_without_bytes(const StackTop& top) {
  if (top.state == kBottomState) return false;
  if (may_end(top)) return true;
  const State& state = automaton_.state(top.state);
  if (state.calls.empty() && !automaton_.frame(state.frame).counted) return false;
  return can_end(single({top.state, top.laps, kBottom}));
}

// Follows calls, laps and ends until only tops that wait for a byte are left.
void StackSets::expand(SetId id) {
  open_.assign(tops(id).begin(), tops(id).end());
  bool ends = false;
  const auto add = [&](const StackTop& top) {
    steps_ += 1 + open_.size() / 8;
    if (std::find(open_.begin(), open_.end(), top) != open_.end()) return;
    if (open_.size() < 2 * kMaxTops) {
      open_.push_back(top);
    } else {
      gave_up_ = true;
    }
  };
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const StackTop top = open_[i];
    if (top.state == kBottomState) {
      ends = true;
      continue;
    }
    const State& state = automaton_.state(top.state);
    const Counter counted = counter(state);
    if (counted.counted && state.final) {
      std::uint32_t laps = top.laps + 1;
      const bool more = counted.max == kUnbounded || laps < counted.max;
      if (counted.max == kUnbounded && state.frame != uncounted_)
        laps = std::min(laps, counted.min);
      if (more) add({automaton_.frame(state.frame).start, laps, top.below});
    }
    if (may_end(top)) {
      for (const StackTop& next : tops(top.below)) add(next);
    }
    for (const CallEdge& call : state.calls) {
      const StateId start = automaton_.frame(call.frame).start;
      // A call that is the last thing to do leaves nothing to come back to.
      const std::uint32_t below = sets_[top.below].depth;
      if (!counted.counted && automaton_.state(call.target).only_final()) {
        if (fits(start, below, id)) add({start, 0, top.below});
        continue;
      }
      if (!fits(call.target, below, id) || !fits(start, below + 1, id)) continue;
      add({start, 0, single({call.target, top.laps, top.below})});
    }
  }
  Set& set = sets_[id];
  set.expanded = true;
  set.can_end = ends;
  set.ready_begin = static_cast<std::uint32_t>(ready_.size());
  for (const StackTop& top : open_) {
    if (top.state != kBottomState && !automaton_.state(top.state).bytes.empty()) {
      ready_.push_back(top);
    }
  }
  set.ready_count = static_cast<std::uint32_t>(ready_.size()) - set.ready_begin;
}

SetId StackSets::find_step(SetId from, std::uint8_t byte) {
  if (from == kDead) return kDead;
  if (!sets_[from].expanded) expand(from);
  if (sets_[from].row == kNoRow) {
    sets_[from].row = static_cast<std::uint32_t>(rows_.size());
    rows_.emplace_back().fill(kUnknown);
  }
  std::vector<StackTop> next;
  for (std::uint32_t i = 0; i < sets_[from].ready_count; ++i) {
    const StackTop& top = ready_[sets_[from].ready_begin + i];
    const std::vector<ByteEdge>& edges = automaton_.state(top.state).bytes;
    steps_ += 1 + edges.size() / 4;
    for (const ByteEdge& edge : edges) {
      if (edge.first <= byte && byte <= edge.last &&
          fits(edge.target, sets_[top.below].depth, from)) {
        next.push_back({edge.target, top.laps, top.below});
      }
    }
  }
  const SetId found = normalize(next);
  rows_[sets_[from].row][byte] = found;
  full_ = bytes() > kMaxBytes;
  return found;
}

bool StackSets::can_end(SetId id) {
  if (id == kDead) return false;
  if (!sets_[id].expanded) expand(id);
  return sets_[id].can_end;
}

void StackSets::next_bytes(SetId id, std::array<bool, 256>& out) {
  out.fill(false);
  if (id == kDead) return;
  if (!sets_[id].expanded) expand(id);
  for (std::uint32_t i = 0; i < sets_[id].ready_count; ++i) {
    for (const ByteEdge& edge : automaton_.state(ready_[sets_[id].ready_begin + i].state).bytes) {
      for (unsigned byte = edge.first; byte <= edge.last; ++byte) out[byte] = true;
    }
  }
}

void StackSets::collect(std::span<SetId> keep) {
  std::vector<char> reached(sets_.size());
  for (const SetId id : keep) reached[id] = 1;
  // What lies below a set has a smaller number.
  for (auto id = static_cast<SetId>(sets_.size()); id-- > 0;) {
    if (!reached[id]) continue;
    for (const StackTop& top : tops(id)) reached[top.below] = 1;
  }
  StackSets fresh(automaton_, uncounted_);
  std::vector<SetId> renamed(sets_.size(), kDead);
  renamed[kBottom] = kBottom;
  std::vector<StackTop> moved;
  for (SetId id = 2; id < sets_.size(); ++id) {
    if (!reached[id]) continue;
    moved.assign(tops(id).begin(), tops(id).end());
    for (StackTop& top : moved) top.below = renamed[top.below];
    std::sort(moved.begin(), moved.end());
    renamed[id] = fresh.intern(moved);
  }
  for (SetId& id : keep) id = renamed[id];
  sets_.swap(fresh.sets_);
  tops_.swap(fresh.tops_);
  ready_.swap(fresh.ready_);
  rows_.swap(fresh.rows_);
  by_hash_.swap(fresh.by_hash_);
  unions_.swap(fresh.unions_);
  full_ = bytes() > kMaxBytes;
}

}  // namespace saccade::grammar
