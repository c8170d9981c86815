// One frame of an automaton: its expression as a nondeterministic automaton, then as a
// deterministic one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "grammar/automaton/automaton.h"
#include "grammar/automaton/inlining.h"

namespace saccade::grammar {

// A frame by what it matches.
struct FrameRequest {
  NodeId body = 0;
  bool counted = false;
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  RuleId rule = 0;  // whose name it bears
  bool operator<(const FrameRequest& other) const {
    return std::tie(body, counted, min, max) <
           std::tie(other.body, other.counted, other.min, other.max);
  }
};

// One thread; one frame after another.
class FrameBuilder {
 public:
  // `number`: the frame that a call of this is to.
  FrameBuilder(Grammar& grammar, const Inlining& inlining,
               std::function<FrameId(const FrameRequest&)> number)
      : grammar_(grammar),
        budget_(grammar.budget()),
        inlining_(inlining),
        number_(std::move(number)) {}

  // The frame's states, numbered from 0, which is the start and has no edges into it; charged to
  // the grammar's budget. kTooLarge: that is spent, or the expression nests too deeply.
  Result<std::vector<State>> build(const FrameRequest& request);

 private:
  struct NfaState {
    std::vector<ByteEdge> bytes;
    std::vector<CallEdge> calls;
    std::vector<StateId> empty;  // reached without a byte
  };
  using Set = std::vector<StateId>;  // sorted

  StateId add_state();
  void add_byte(StateId state, ByteEdge edge);
  void add_empty(StateId state, StateId to);
  bool stopped() const { return too_deep_ || budget_.spent(); }
  StateId fork(StateId a, StateId b);
  // Each gives the state from which `node` leads to `target`.
  StateId build_node(NodeId id, StateId target, int depth);
  StateId build_text(std::string_view text, StateId target);
  StateId build_characters(const std::vector<CharacterRange>& ranges, StateId target);
  StateId build_repeat(const Node& node, StateId target, int depth);
  StateId build_separated(const Node& node, StateId target, int depth);
  // `heads`, and `item` before `target` too. Does not change `heads`: what it leads to is shared.
  StateId add_item(StateId heads, NodeId item, StateId target, int depth);
  StateId build_rule(RuleId rule, StateId target, int depth);
  StateId build_call(const FrameRequest& request, StateId target);

  Set closure(Set set);
  std::vector<std::tuple<std::uint8_t, std::uint8_t, Set>> byte_steps(const Set& set);
  std::vector<std::pair<FrameId, Set>> call_steps(const Set& set);
  bool determinize(StateId start, std::vector<State>& states);
  void without_empty_edges(StateId start, std::vector<State>& states);

  static constexpr StateId kFinal = 0;  // of the nondeterministic automaton

  const Grammar& grammar_;
  Budget& budget_;
  const Inlining& inlining_;
  std::function<FrameId(const FrameRequest&)> number_;
  RuleId rule_ = 0;
  bool too_deep_ = false;
  std::uint64_t scratch_bytes_ = 0;  // charged for what build() frees
  std::vector<NfaState> nfa_;
  std::map<std::pair<RuleId, StateId>, StateId> written_;  // a rule written out before a target
  std::vector<char> marked_;                               // by nondeterministic state
};

}  // namespace saccade::grammar
