#include "grammar/frame_builder.h"

#include <algorithm>
#include <array>

#include "grammar/utf8_ranges.h"

namespace saccade::grammar {
namespace {

constexpr int kMaxDepth = 1000;
constexpr int kMaxInlineDepth = 32;
// A deterministic frame may be this much larger than the nondeterministic one, and no more.
constexpr std::size_t kMaxGrowth = 2;
constexpr std::size_t kMinDeterministic = 256;

}  // namespace

StateId FrameBuilder::add_state() {
  if (nfa_.size() >= room_) {
    overflow_ = true;
    return kFinal;
  }
  nfa_.emplace_back();
  return static_cast<StateId>(nfa_.size() - 1);
}

StateId FrameBuilder::fork(StateId a, StateId b) {
  const StateId state = add_state();
  nfa_[state].empty.push_back(a);
  nfa_[state].empty.push_back(b);
  return state;
}

StateId FrameBuilder::build_text(const std::string& text, StateId target) {
  for (auto at = text.rbegin(); at != text.rend() && !overflow_; ++at) {
    const StateId state = add_state();
    const auto byte = static_cast<std::uint8_t>(*at);
    nfa_[state].bytes.push_back({byte, byte, target});
    target = state;
  }
  return target;
}

StateId FrameBuilder::build_characters(const std::vector<CharacterRange>& ranges, StateId target) {
  const StateId start = add_state();
  // Tails are shared: most long ranges end in the same continuation bytes.
  std::map<std::tuple<std::uint8_t, std::uint8_t, StateId>, StateId> tails;
  for (const ByteRanges& bytes : utf8_ranges(ranges)) {
    StateId next = target;
    for (auto i = static_cast<std::size_t>(bytes.length - 1); i > 0 && !overflow_; --i) {
      const auto key = std::tuple(bytes.at[i].first, bytes.at[i].last, next);
      const auto [found, fresh] = tails.try_emplace(key, kFinal);
      if (fresh) {
        found->second = add_state();
        nfa_[found->second].bytes.push_back({bytes.at[i].first, bytes.at[i].last, next});
      }
      next = found->second;
    }
    nfa_[start].bytes.push_back({bytes.at[0].first, bytes.at[0].last, next});
  }
  return start;
}

StateId FrameBuilder::build_call(const FrameRequest& request, StateId target) {
  const StateId state = add_state();
  const FrameId frame = number_(request);
  nfa_[state].calls.push_back({frame, target});
  return state;
}

StateId FrameBuilder::build_repeat(const Node& node, StateId target, int depth) {
  const NodeId body = node.children[0];
  if (node.max == 0) return target;
  if (!inlining_.unrolled(node)) {
    return build_call({body, true, node.min, node.max, rule_}, target);
  }
  StateId at = target;
  if (node.max == kUnbounded) {
    const StateId loop = fork(target, target);
    nfa_[loop].empty.pop_back();
    const StateId entry = build_node(body, loop, depth + 1);
    nfa_[loop].empty.push_back(entry);
    at = loop;
  } else {
    for (std::uint32_t i = node.min; i < node.max && !overflow_; ++i) {
      at = fork(build_node(body, at, depth + 1), target);
    }
  }
  for (std::uint32_t i = 0; i < node.min && !overflow_; ++i) {
    at = build_node(body, at, depth + 1);
  }
  return at;
}

// Two chains, right to left: `some` where an item has been before, `none` where not.
StateId FrameBuilder::build_separated(const Node& node, StateId target, int depth) {
  StateId some = target;
  StateId none = target;
  for (std::size_t i = node.children.size() - 1; i > 0 && !overflow_; --i) {
    const StateId item = build_node(node.children[i], some, depth + 1);
    const StateId separated = build_node(node.children[0], item, depth + 1);
    none = node.optional[i] ? fork(item, none) : item;
    some = node.optional[i] ? fork(separated, some) : separated;
  }
  return none;
}

StateId FrameBuilder::build_rule(RuleId rule, StateId target, int depth) {
  const NodeId body = grammar_.rule(rule).body;
  if (!inlining_.inlined(rule) || depth > kMaxInlineDepth) {
    return build_call({body, false, 1, 1, rule}, target);
  }
  const auto [found, fresh] = written_.try_emplace({rule, target}, kFinal);
  if (fresh) found->second = build_node(body, target, depth + 1);
  return found->second;
}

StateId FrameBuilder::build_node(NodeId id, StateId target, int depth) {
  if (depth > kMaxDepth) overflow_ = true;
  if (overflow_) return kFinal;
  const Node& node = grammar_.node(id);
  switch (node.kind) {
    case Node::Kind::kText:
      return build_text(node.text, target);
    case Node::Kind::kCharacters:
      return build_characters(node.ranges, target);
    case Node::Kind::kSequence:
      for (auto at = node.children.rbegin(); at != node.children.rend(); ++at) {
        target = build_node(*at, target, depth + 1);
      }
      return target;
    case Node::Kind::kChoice: {
      const StateId start = add_state();
      for (const NodeId child : node.children) {
        const StateId entry = build_node(child, target, depth + 1);
        nfa_[start].empty.push_back(entry);
      }
      return start;
    }
    case Node::Kind::kRepeat:
      return build_repeat(node, target, depth);
    case Node::Kind::kSeparated:
      return build_separated(node, target, depth);
    case Node::Kind::kRule:
      return build_rule(node.rule, target, depth);
  }
  return target;
}

Result<std::vector<State>> FrameBuilder::build(const FrameRequest& request, std::size_t room) {
  rule_ = request.rule;
  room_ = room;
  overflow_ = false;
  nfa_.assign(1, {});
  written_.clear();
  // A start of its own, so that nothing leads back to it.
  const StateId start = add_state();
  const StateId entry = build_node(request.body, kFinal, 0);
  nfa_[start].empty.push_back(entry);
  std::vector<State> states;
  marked_.assign(nfa_.size(), 0);
  if (!overflow_ && !determinize(start, room, states) &&
      !without_empty_edges(start, room, states)) {
    overflow_ = true;
  }
  if (overflow_) {
    return fail(ErrorCode::kTooLarge, "the grammar takes over {} states or nests over {} deep",
                Automaton::kMaxStates, kMaxDepth);
  }
  return states;
}

FrameBuilder::Set FrameBuilder::closure(Set set) {
  for (const StateId state : set) marked_[state] = 1;
  for (std::size_t i = 0; i < set.size(); ++i) {
    for (const StateId next : nfa_[set[i]].empty) {
      if (marked_[next]) continue;
      marked_[next] = 1;
      set.push_back(next);
    }
  }
  for (const StateId state : set) marked_[state] = 0;
  // States that only lead on without a byte tell nothing apart.
  std::erase_if(set, [&](StateId state) {
    return state != kFinal && nfa_[state].bytes.empty() && nfa_[state].calls.empty();
  });
  std::sort(set.begin(), set.end());
  return set;
}

std::vector<std::tuple<std::uint8_t, std::uint8_t, FrameBuilder::Set>> FrameBuilder::byte_steps(
    const Set& set) {
  std::array<char, 257> cut{};
  std::vector<ByteEdge> edges;
  for (const StateId state : set) {
    for (const ByteEdge& edge : nfa_[state].bytes) {
      edges.push_back(edge);
      cut[edge.first] = 1;
      cut[edge.last + 1U] = 1;
    }
  }
  std::vector<std::tuple<std::uint8_t, std::uint8_t, Set>> steps;
  if (edges.empty()) return steps;
  for (unsigned first = 0; first < 256;) {
    unsigned last = first;
    while (!cut[last + 1] && last < 255) ++last;
    Set targets;
    for (const ByteEdge& edge : edges) {
      if (edge.first <= first && first <= edge.last) targets.push_back(edge.target);
    }
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    if (!targets.empty()) {
      steps.emplace_back(static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last),
                         closure(std::move(targets)));
    }
    first = last + 1;
  }
  return steps;
}

std::vector<std::pair<FrameId, FrameBuilder::Set>> FrameBuilder::call_steps(const Set& set) {
  std::map<FrameId, Set> by_frame;
  for (const StateId state : set) {
    for (const CallEdge& call : nfa_[state].calls) by_frame[call.frame].push_back(call.target);
  }
  std::vector<std::pair<FrameId, Set>> steps;
  for (auto& [frame, targets] : by_frame) {
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    steps.emplace_back(frame, closure(std::move(targets)));
  }
  return steps;
}

// False when it would take too many states.
bool FrameBuilder::determinize(StateId start, std::size_t room, std::vector<State>& states) {
  const std::size_t most = std::min(room, kMinDeterministic + kMaxGrowth * nfa_.size());
  std::map<Set, StateId> numbers;
  std::vector<Set> sets;
  std::size_t members = 0;
  const auto number = [&](Set set) {
    const auto [found, fresh] = numbers.try_emplace(set, static_cast<StateId>(sets.size()));
    if (fresh) {
      members += set.size();
      sets.push_back(std::move(set));
    }
    return found->second;
  };
  // The start's set is never looked up again: it must have no edges into it.
  sets.push_back(closure({start}));
  states.clear();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets.size() > most || members > 8 * most) return false;
    const Set set = sets[i];
    State state;
    state.final = std::binary_search(set.begin(), set.end(), kFinal);
    for (auto& [first, last, targets] : byte_steps(set)) {
      const StateId target = number(std::move(targets));
      const bool joins = !state.bytes.empty() && state.bytes.back().target == target &&
                         state.bytes.back().last + 1 == first;
      if (joins) {
        state.bytes.back().last = last;
      } else {
        state.bytes.push_back({first, last, target});
      }
    }
    for (auto& [frame, targets] : call_steps(set)) {
      const StateId target = number(std::move(targets));
      state.calls.push_back({frame, target});
    }
    states.push_back(std::move(state));
  }
  return true;
}

// The same language with the nondeterminism left in.
bool FrameBuilder::without_empty_edges(StateId start, std::size_t room,
                                       std::vector<State>& states) {
  constexpr std::size_t kMaxEdges = std::size_t{1} << 20;
  states.assign(nfa_.size(), {});
  std::size_t edges = 0;
  for (StateId i = 0; i < nfa_.size(); ++i) {
    for (const StateId member : closure({i})) {
      State& state = states[i];
      state.final |= member == kFinal;
      state.bytes.insert(state.bytes.end(), nfa_[member].bytes.begin(), nfa_[member].bytes.end());
      state.calls.insert(state.calls.end(), nfa_[member].calls.begin(), nfa_[member].calls.end());
    }
    edges += states[i].bytes.size() + states[i].calls.size();
    if (edges > kMaxEdges) return false;
  }
  // The start becomes number 0; what was 0 takes its place.
  std::swap(states[0], states[start]);
  const auto renamed = [&](StateId id) { return id == 0 ? start : id == start ? 0 : id; };
  for (State& state : states) {
    for (ByteEdge& edge : state.bytes) edge.target = renamed(edge.target);
    for (CallEdge& call : state.calls) call.target = renamed(call.target);
  }
  return states.size() <= room;
}

}  // namespace saccade::grammar
