// One frame of an automaton: its expression as a nondeterministic automaton, then as a
// deterministic one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/inlining.h"

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
  FrameBuilder(const Grammar& grammar, const Inlining& inlining,
               std::function<FrameId(const FrameRequest&)> number)
      : grammar_(grammar), inlining_(inlining), number_(std::move(number)) {}

  // The frame's states, numbered from 0, which is the start and has no edges into it. kTooLarge:
  // over `room` states, or nested too deeply.
  Result<std::vector<State>> build(const FrameRequest& request, std::size_t room);

 private:
  struct NfaState {
    std::vector<ByteEdge> bytes;
    std::vector<CallEdge> calls;
    std::vector<StateId> empty;  // reached without a byte
  };
  using Set = std::vector<StateId>;  // sorted

  StateId add_state();
  StateId fork(StateId a, StateId b);
  // Each gives the state from which `node` leads to `target`.
  StateId build_node(NodeId id, StateId target, int depth);
  StateId build_text(const std::string& text, StateId target);
  StateId build_characters(const std::vector<CharacterRange>& ranges, StateId target);
  StateId build_repeat(const Node& node, StateId target, int depth);
  StateId build_separated(const Node& node, StateId target, int depth);
  StateId build_rule(RuleId rule, StateId target, int depth);
  StateId build_call(const FrameRequest& request, StateId target);

  Set closure(Set set);
  std::vector<std::tuple<std::uint8_t, std::uint8_t, Set>> byte_steps(const Set& set);
  std::vector<std::pair<FrameId, Set>> call_steps(const Set& set);
  bool determinize(StateId start, std::size_t room, std::vector<State>& states);
  bool without_empty_edges(StateId start, std::size_t room, std::vector<State>& states);

  static constexpr StateId kFinal = 0;  // of the nondeterministic automaton

  const Grammar& grammar_;
  const Inlining& inlining_;
  std::function<FrameId(const FrameRequest&)> number_;
  RuleId rule_ = 0;
  std::size_t room_ = 0;
  bool overflow_ = false;
  std::vector<NfaState> nfa_;
  std::map<std::pair<RuleId, StateId>, StateId> written_;  // a rule written out before a target
  std::vector<char> marked_;                               // by nondeterministic state
};

}  // namespace saccade::grammar
