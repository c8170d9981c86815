// Which tokens each state of an automaton lets pass: found by walking the vocabulary's trie once a
// state, then kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "grammar/automaton/automaton.h"
#include "grammar/automaton/stack_sets.h"
#include "grammar/automaton/vocabulary.h"

namespace saccade::grammar {

// The tokens that a state lets pass whatever lies below it on the stack, and where within a token
// the state's frame may end, so that the rest of it is for what lies below to judge.
struct StateMask {
  std::vector<std::uint32_t> words;  // bit t: token t passes; empty where `few` has them
  std::vector<TokenId> few;
  struct Exit {
    std::uint32_t node = 0;  // of the trie: its bytes have been matched, others follow
    std::uint32_t laps = 0;  // done by then, of a counted frame
  };
  std::vector<Exit> exits;
  bool by_laps = false;       // an exit is one when its laps are enough and not too many
  std::uint32_t deepest = 0;  // frames that a token needs room for above those that lie below
  bool complete = true;       // false: a walk's limits were met, and tokens may be missing

  std::size_t bytes() const {
    return sizeof(StateMask) + words.capacity() * 4 + few.capacity() * 4 + exits.capacity() * 8;
  }
};

// Any thread: masks are shared by all who match with one grammar.
class TokenMasks {
 public:
  // Both must outlive it. Over `max_bytes` what is kept is dropped, and found again when needed.
  TokenMasks(const Automaton& automaton, const Vocabulary& vocabulary, std::size_t max_bytes);

  // For a stack's top; what is below does not matter.
  std::shared_ptr<const StateMask> find(const StackTop& top);
  std::size_t bytes() const;

 private:
  // Tokens of a counted frame without calls by how many laps they need: one walk serves every
  // count.
  struct LapTokens {
    std::vector<TokenId> tokens;       // by laps
    std::vector<std::uint32_t> begin;  // by laps: of those that need so many; and the end
    std::vector<StateMask::Exit> exits;
    bool ambiguous = false;  // some token can be had in different numbers of laps
    bool complete = true;
  };

  std::shared_ptr<const StateMask> make(const StackTop& top);
  std::shared_ptr<const StateMask> make_plain(StateId state, std::uint32_t laps);
  std::shared_ptr<const StateMask> make_by_laps(const LapTokens& from, std::uint32_t laps_left);
  const LapTokens& lap_tokens(StateId state);
  void set_tokens(std::vector<TokenId>&& tokens, StateMask& mask) const;
  std::uint32_t canonical_laps(const StackTop& top) const;

  const Automaton& automaton_;
  const Vocabulary& vocabulary_;
  const std::size_t max_bytes_;

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const StateMask>> masks_;  // guarded by mutex_
  std::size_t bytes_ = 0;                                                      // guarded by mutex_

  std::mutex making_;                // one at a time; those that only look up do not wait for it
  std::unique_ptr<StackSets> sets_;  // guarded by making_
  std::unordered_map<StateId, LapTokens> lap_tokens_;  // guarded by making_
  std::size_t lap_bytes_ = 0;                          // guarded by making_
};

// Nodes [begin, end) of a vocabulary's trie, the parents of the first ones `depth` bytes below the
// root.
struct TriePart {
  std::uint32_t begin;
  std::uint32_t end;
  std::size_t depth = 0;
};

// Calls visit(node, set) for each node of the part whose bytes below those parents lead on from
// `from`; skips what does not. False when the limits of a walk, which the caller has begun, have
// been met.
template <typename Visit>
bool walk_trie(const Vocabulary& vocabulary, StackSets& sets, SetId from, const TriePart& part,
               std::vector<SetId>& path, Visit&& visit) {
  const auto nodes = vocabulary.nodes();
  if (path.size() < vocabulary.longest() + 1) path.resize(vocabulary.longest() + 1);
  path[0] = from;
  for (std::uint32_t i = part.begin; i < part.end;) {
    if (!sets.charge(1)) return false;
    const Vocabulary::TrieNode& node = nodes[i];
    const std::size_t depth = node.depth - part.depth;
    const SetId at = sets.step(path[depth - 1], node.byte);
    if (at == StackSets::kDead) {
      i = node.end;
      continue;
    }
    path[depth] = at;
    visit(i, at);
    ++i;
  }
  return true;
}

}  // namespace saccade::grammar
