// What an automaton may be in the middle of after some bytes: sets of stacks, shared and numbered.
//
// A set is a list of tops, each once: a state, the laps its frame has done, and the set of what may
// lie below it. Equal sets have one number, so a step from a set on a byte is looked up after the
// first time, and a loop in the text is a loop in the numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/automaton/automaton.h"

namespace saccade::grammar {

using SetId = std::uint32_t;

struct StackTop {
  StateId state = 0;
  std::uint32_t laps = 0;  // of a counted frame
  SetId below = 0;
  auto operator<=>(const StackTop&) const = default;
};

// One thread. Bounded: where a text has more than kMaxTops parses at once, or could have taken more
// than kMaxLaps different numbers of laps, the rest are given up; what remains is still of the
// grammar. Nothing nests deeper than kMaxDepth, and nothing is begun that could not end within it.
// A walk takes at most kMaxSteps and kMaxBytes.
class StackSets {
 public:
  static constexpr SetId kDead = 0;    // no parse
  static constexpr SetId kBottom = 1;  // all has been matched
  static constexpr StateId kBottomState = 0xFFFFFFFF;
  static constexpr std::size_t kMaxTops = 160;
  static constexpr std::size_t kMaxLaps = 12;
  static constexpr std::uint32_t kMaxDepth = 1000;
  // A step is an edge or a stack looked at; a token of an ordinary grammar takes some hundreds, the
  // first mask of a state over 152k tokens about 500,000.
  static constexpr std::uint64_t kMaxSteps = std::uint64_t{1} << 23;
  static constexpr std::size_t kMaxBytes = std::size_t{24} << 20;

  // `uncounted`: a frame whose laps are counted on and neither needed nor limited; kNoFrame: none.
  static constexpr FrameId kNoFrame = 0xFFFFFFFF;
  explicit StackSets(const Automaton& automaton, FrameId uncounted = kNoFrame);

  SetId start();                      // the root's, nothing matched yet
  SetId single(const StackTop& top);  // one stack (or stacks alike but for what is below)
  SetId step(SetId from, std::uint8_t byte) {
    const std::uint32_t row = sets_[from].row;
    if (row != kNoRow) {
      const SetId known = rows_[row][byte];
      if (known != kUnknown) return known;
    }
    return find_step(from, byte);
  }
  std::span<const StackTop> tops(SetId id) const {
    return std::span(tops_).subspan(sets_[id].begin, sets_[id].count);
  }
  // Whether what `top` is of may end without another byte, so that `below` goes on.
  bool may_end(const StackTop& top) const;
  // The same also through calls that match nothing, and laps of them.
  bool may_end_without_bytes(const StackTop& top);
  // Whether the whole may end here.
  bool can_end(SetId id);
  // Bytes on which step() leads on.
  void next_bytes(SetId id, std::array<bool, 256>& out);

  // How many frames lie on one another at most.
  std::uint32_t depth(SetId id) const { return sets_[id].depth; }
  // How many must be let lie on one another for nothing to have been left out of this set, and of
  // what has been reached from it so far.
  std::uint32_t demand(SetId id) const { return sets_[id].demand; }

  // From here on a walk may take as much as one may. False after that: its sets are not complete.
  void begin_walk() { last_step_ = steps_ + kMaxSteps; }
  bool charge(std::uint64_t steps) {
    steps_ += steps;
    return within_limits();
  }
  bool within_limits() const { return steps_ <= last_step_ && !full_; }
  // Whether parses have been given up for want of room: since then, less than the grammar's texts.
  bool gave_up() const { return gave_up_; }
  std::size_t sets() const { return sets_.size(); }
  // Forgets all but what `keep` leads to, and renumbers these in place.
  void collect(std::span<SetId> keep);
  std::size_t bytes() const {
    return sets_.capacity() * sizeof(Set) +
           (tops_.capacity() + ready_.capacity()) * sizeof(StackTop) +
           rows_.capacity() * sizeof(rows_[0]) + (by_hash_.size() + unions_.size()) * 40;
  }

 private:
  static constexpr std::uint32_t kNoRow = 0xFFFFFFFF;
  static constexpr SetId kUnknown = 0xFFFFFFFF;
  struct Set {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
    std::uint32_t depth = 0;
    std::uint32_t demand = 0;
    std::uint32_t row = kNoRow;
    std::uint32_t ready_begin = 0;  // of ready_
    std::uint32_t ready_count = 0;
    bool expanded = false;
    bool can_end = false;
  };
  struct Counter {
    bool counted = false;
    std::uint32_t min = 1;
    std::uint32_t max = 1;
  };

  Counter counter(const State& state) const;
  SetId intern(std::span<const StackTop> tops);  // sorted, each state and laps once
  SetId unite(SetId a, SetId b);
  SetId normalize(std::vector<StackTop>& tops);
  // Whether a frame may be in `state` with so many others below it; notes on `set` what it takes.
  bool fits(StateId state, std::uint32_t below, SetId set);
  void expand(SetId id);
  SetId find_step(SetId from, std::uint8_t byte);
  static std::uint64_t hash_of(std::span<const StackTop> tops);

  const Automaton& automaton_;
  FrameId uncounted_;
  std::vector<Set> sets_;
  std::vector<StackTop> tops_;
  std::vector<StackTop> ready_;  // tops that take bytes, after calls and ends, of expanded sets
  std::vector<std::array<SetId, 256>> rows_;
  std::unordered_multimap<std::uint64_t, SetId> by_hash_;
  std::unordered_map<std::uint64_t, SetId> unions_;
  std::vector<StackTop> open_;  // scratch of expand
  std::uint64_t steps_ = 0;
  std::uint64_t last_step_ = kMaxSteps;
  bool full_ = false;  // over kMaxBytes
  bool gave_up_ = false;
};

}  // namespace saccade::grammar
