#include "grammar/automaton/frame_builder.h"

#include <algorithm>
#include <array>

#include "grammar/frontends/utf8_ranges.h"

namespace saccade::grammar {
namespace {

constexpr int kMaxFrameDepth = 1000;
constexpr int kMaxInlineDepth = 32;
// A deterministic frame may be this much larger than the nondeterministic one, and no more.
constexpr std::size_t kMaxGrowth = 2;
constexpr std::size_t kMinDeterministic = 256;
// Nondeterministic states in a deterministic one, at the mean.
constexpr std::size_t kMaxMembers = 8;
constexpr std::size_t kSetBytes = 80;  // of a numbered set, besides its members

}  // namespace

StateId FrameBuilder::add_state() {
  scratch_bytes_ += sizeof(NfaState);
  const bool room = budget_.charge(Budget::kSteps, 1) &&
                    budget_.charge(Budget::kBytes, sizeof(NfaState)) &&
                    nfa_.size() <= budget_.limit(Budget::kStates);
  if (!room) {
    budget_.charge(Budget::kStates, nfa_.size());
    return kFinal;
  }
  nfa_.emplace_back();
  return static_cast<StateId>(nfa_.size() - 1);
}

void FrameBuilder::add_byte(StateId state, ByteEdge edge) {
  scratch_bytes_ += sizeof(ByteEdge);
  if (budget_.charge(Budget::kBytes, sizeof(ByteEdge))) nfa_[state].bytes.push_back(edge);
}

void FrameBuilder::add_empty(StateId state, StateId to) {
  scratch_bytes_ += sizeof(StateId);
  if (budget_.charge(Budget::kBytes, sizeof(StateId))) nfa_[state].empty.push_back(to);
}

StateId FrameBuilder::fork(StateId a, StateId b) {
  const StateId state = add_state();
  add_empty(state, a);
  add_empty(state, b);
  return state;
}

StateId FrameBuilder::build_text(std::string_view text, StateId target) {
  for (auto at = text.rbegin(); at != text.rend() && !stopped(); ++at) {
    const StateId state = add_state();
    const auto byte = static_cast<std::uint8_t>(*at);
    add_byte(state, {byte, byte, target});
    target = state;
  }
  return target;
}

StateId FrameBuilder::build_characters(const std::vector<CharacterRange>& ranges, StateId target) {
  const StateId start = add_state();
  if (!budget_.charge(Budget::kSteps, 8 * ranges.size())) return start;
  // Tails are shared: most long ranges end in the same continuation bytes.
  std::map<std::tuple<std::uint8_t, std::uint8_t, StateId>, StateId> tails;
  for (const ByteRanges& bytes : utf8_ranges(ranges)) {
    StateId next = target;
    if (stopped()) break;
    for (auto i = static_cast<std::size_t>(bytes.length - 1); i > 0; --i) {
      const auto key = std::tuple(bytes.at[i].first, bytes.at[i].last, next);
      const auto [found, fresh] = tails.try_emplace(key, kFinal);
      if (fresh) {
        found->second = add_state();
        add_byte(found->second, {bytes.at[i].first, bytes.at[i].last, next});
      }
      next = found->second;
    }
    add_byte(start, {bytes.at[0].first, bytes.at[0].last, next});
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
  std::uint32_t copies = node.min;
  if (node.max == kUnbounded) {
    const StateId loop = add_state();
    add_empty(loop, target);
    const StateId entry = build_node(body, loop, depth + 1);
    add_empty(loop, entry);
    at = node.min == 0 ? loop : entry;  // x+ is x with a way back
    copies = node.min == 0 ? 0 : node.min - 1;
  } else {
    for (std::uint32_t i = node.min; i < node.max && !stopped(); ++i) {
      at = fork(build_node(body, at, depth + 1), target);
    }
  }
  for (std::uint32_t i = 0; i < copies && !stopped(); ++i) at = build_node(body, at, depth + 1);
  return at;
}

// From the end: `heads` is where an item stands that may come next, `after` what follows an item.
// Each suffix of the items has heads of its own, and they share all that they can.
StateId FrameBuilder::build_separated(const Node& node, StateId target, int depth) {
  StateId heads = add_state();
  StateId after = target;
  bool none_needed = true;
  for (std::size_t i = node.children.size() - 1; i > 0 && !stopped(); --i) {
    if (!node.optional[i]) {
      heads = add_state();
      none_needed = false;
    }
    heads = add_item(heads, node.children[i], after, depth + 1);
    after = build_node(node.children[0], heads, depth + 1);
    if (none_needed) after = fork(after, target);
  }
  return none_needed ? fork(heads, target) : heads;
}

StateId FrameBuilder::add_item(StateId heads, NodeId item, StateId target, int depth) {
  const Node& node = grammar_.node(item);
  const bool sequence = node.kind == Node::Kind::kSequence && !node.children.empty();
  const Node& first = sequence ? grammar_.node(node.children[0]) : node;
  StateId entry = target;
  std::string_view text;
  if (first.kind == Node::Kind::kText) {
    text = first.text;
    for (std::size_t i = node.children.size(); sequence && i-- > 1;) {
      entry = build_node(node.children[i], entry, depth + 1);
    }
  } else {
    entry = build_node(item, target, depth + 1);
  }
  // A copy of each state on the way of `text`, so that items which begin alike are told apart byte
  // by byte and not all at once.
  const auto copied = [&](StateId from) {
    const StateId copy = add_state();
    budget_.charge(Budget::kSteps, nfa_[from].bytes.size() + nfa_[from].calls.size());
    for (const ByteEdge& edge : std::vector<ByteEdge>(nfa_[from].bytes)) add_byte(copy, edge);
    nfa_[copy].calls = nfa_[from].calls;
    for (const StateId next : std::vector<StateId>(nfa_[from].empty)) add_empty(copy, next);
    return copy;
  };
  const StateId root = copied(heads);
  StateId at = root;
  for (std::size_t i = 0; i < text.size() && !stopped(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    std::vector<ByteEdge>& edges = nfa_[at].bytes;
    const auto known = std::find_if(edges.begin(), edges.end(),
                                    [&](const ByteEdge& edge) { return edge.first == byte; });
    if (known == edges.end()) {
      const StateId rest = build_text(text.substr(i + 1), entry);
      add_byte(at, {byte, byte, rest});
      return root;
    }
    const auto index = known - edges.begin();
    const StateId next = copied(known->target);
    nfa_[at].bytes[static_cast<std::size_t>(index)].target = next;
    at = next;
  }
  add_empty(at, entry);
  return root;
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
  if (depth > kMaxFrameDepth) too_deep_ = true;
  if (stopped()) return kFinal;
  if (depth > 0 && inlining_.framed(id)) return build_call({id, false, 1, 1, rule_}, target);
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
        if (stopped()) break;
        const StateId entry = build_node(child, target, depth + 1);
        add_empty(start, entry);
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

Result<std::vector<State>> FrameBuilder::build(const FrameRequest& request) {
  rule_ = request.rule;
  scratch_bytes_ = 0;
  nfa_.assign(1, {});
  written_.clear();
  // A start of its own, so that nothing leads back to it.
  const StateId start = add_state();
  const StateId entry = build_node(request.body, kFinal, 0);
  add_empty(start, entry);
  std::vector<State> states;
  marked_.assign(nfa_.size(), 0);
  if (!stopped() && !determinize(start, states)) without_empty_edges(start, states);
  TRY_DO(budget_.check());
  if (too_deep_) {
    return fail(ErrorCode::kTooLarge, "the grammar's rule '{}' nests over {} deep",
                grammar_.rule(rule_).name, kMaxFrameDepth);
  }
  budget_.give_back(Budget::kBytes, scratch_bytes_);
  std::size_t bytes = 0;
  for (const State& state : states) {
    bytes += sizeof(State) + state.bytes.size() * sizeof(ByteEdge) +
             state.calls.size() * sizeof(CallEdge);
  }
  budget_.charge(Budget::kBytes, bytes);
  budget_.charge(Budget::kStates, states.size());
  TRY_DO(budget_.check());
  return states;
}

FrameBuilder::Set FrameBuilder::closure(Set set) {
  for (const StateId state : set) marked_[state] = 1;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!budget_.charge(Budget::kSteps, 1 + nfa_[set[i]].empty.size())) break;
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
    if (!budget_.charge(Budget::kSteps, 1 + edges.size() / 4)) break;
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

// False when it would take too many states: the language is left nondeterministic then.
bool FrameBuilder::determinize(StateId start, std::vector<State>& states) {
  const std::size_t most = kMinDeterministic + kMaxGrowth * nfa_.size();
  std::map<Set, StateId> numbers;
  std::vector<const Set*> sets;  // keys of `numbers`, but for the first
  std::size_t members = 0;
  const auto number = [&](Set set) {
    const auto [found, fresh] =
        numbers.try_emplace(std::move(set), static_cast<StateId>(sets.size()));
    if (fresh) {
      members += found->first.size();
      const std::size_t bytes = kSetBytes + found->first.size() * sizeof(StateId);
      scratch_bytes_ += bytes;
      budget_.charge(Budget::kBytes, bytes);
      budget_.charge(Budget::kSteps, found->first.size());
      sets.push_back(&found->first);
    }
    return found->second;
  };
  // The start's set is never looked up again: it must have no edges into it.
  const Set first_set = closure({start});
  sets.push_back(&first_set);
  states.clear();
  for (std::size_t i = 0; i < sets.size() && !stopped(); ++i) {
    if (sets.size() > most || members > kMaxMembers * most) return false;
    const Set& set = *sets[i];
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
void FrameBuilder::without_empty_edges(StateId start, std::vector<State>& states) {
  states.assign(nfa_.size(), {});
  for (StateId i = 0; i < nfa_.size() && !stopped(); ++i) {
    for (const StateId member : closure({i})) {
      State& state = states[i];
      const std::size_t bytes = nfa_[member].bytes.size() * sizeof(ByteEdge) +
                                nfa_[member].calls.size() * sizeof(CallEdge);
      scratch_bytes_ += bytes;
      if (!budget_.charge(Budget::kBytes, bytes)) return;
      state.final |= member == kFinal;
      state.bytes.insert(state.bytes.end(), nfa_[member].bytes.begin(), nfa_[member].bytes.end());
      state.calls.insert(state.calls.end(), nfa_[member].calls.begin(), nfa_[member].calls.end());
    }
  }
  // The start becomes number 0; what was 0 takes its place.
  std::swap(states[0], states[start]);
  const auto renamed = [&](StateId id) { return id == 0 ? start : id == start ? 0 : id; };
  for (State& state : states) {
    for (ByteEdge& edge : state.bytes) edge.target = renamed(edge.target);
    for (CallEdge& call : state.calls) call.target = renamed(call.target);
  }
}

}  // namespace saccade::grammar
