#include "grammar/automaton/inlining.h"

#include <algorithm>

namespace saccade::grammar {
namespace {

constexpr std::uint32_t kManyCharacters = 128;

}  // namespace

Inlining::Inlining(Grammar& grammar)
    : grammar_(grammar),
      recursive_(grammar.rules()),
      inlined_(grammar.rules()),
      sizes_(grammar.nodes()),
      wide_(grammar.nodes()),
      many_(grammar.nodes()),
      framed_(grammar.nodes()),
      places_(grammar.nodes()),
      seen_(grammar.nodes()) {
  for (NodeId id = 0; id < grammar.nodes(); ++id) {
    for (const NodeId child : grammar.node(id).children) ++places_[child];
  }
  for (const RuleId rule : callees_first()) {
    const NodeId body = grammar.rule(rule).body;
    for (const NodeId id : nodes_of(body)) measure(id);
    inlined_[rule] = !recursive_[rule] && !wide_[body] && sizes_[body] <= kSmall;
  }
}

// `from` and all below it, each once, children before parents.
std::vector<NodeId> Inlining::nodes_of(NodeId from) {
  ++walk_;
  std::vector<NodeId> found{from};
  seen_[from] = walk_;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<NodeId>& children = grammar_.node(found[i]).children;
    if (!grammar_.budget().charge(Budget::kSteps, 1 + children.size())) return {};
    for (const NodeId child : children) {
      if (seen_[child] == walk_) continue;
      seen_[child] = walk_;
      found.push_back(child);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<RuleId> Inlining::called_rules(NodeId body) {
  std::vector<RuleId> called;
  for (const NodeId id : nodes_of(body)) {
    if (grammar_.node(id).kind == Node::Kind::kRule) called.push_back(grammar_.node(id).rule);
  }
  std::sort(called.begin(), called.end());
  called.erase(std::unique(called.begin(), called.end()), called.end());
  return called;
}

// Tarjan's strongly connected components, which come out callees first; marks those on cycles.
std::vector<RuleId> Inlining::callees_first() {
  const Grammar& grammar = grammar_;
  struct Visit {
    RuleId rule;
    std::vector<RuleId> called;
    std::size_t next = 0;
  };
  constexpr std::uint32_t kNew = 0xFFFFFFFF;
  std::vector<std::uint32_t> index(grammar.rules(), kNew);
  std::vector<std::uint32_t> low(grammar.rules());
  std::vector<char> on_stack(grammar.rules());
  std::vector<RuleId> stack;
  std::vector<RuleId> order;
  std::vector<Visit> visits;
  std::uint32_t next_index = 0;
  const auto enter = [&](RuleId rule) {
    index[rule] = low[rule] = next_index++;
    on_stack[rule] = 1;
    stack.push_back(rule);
    visits.push_back({rule, called_rules(grammar.rule(rule).body)});
  };
  enter(grammar.root());
  while (!visits.empty()) {
    Visit& visit = visits.back();
    if (visit.next < visit.called.size()) {
      const RuleId callee = visit.called[visit.next++];
      if (callee == visit.rule) recursive_[callee] = 1;
      if (index[callee] == kNew) {
        enter(callee);
      } else if (on_stack[callee]) {
        low[visit.rule] = std::min(low[visit.rule], index[callee]);
      }
      continue;
    }
    const RuleId rule = visit.rule;
    visits.pop_back();
    if (!visits.empty()) {
      low[visits.back().rule] = std::min(low[visits.back().rule], low[rule]);
    }
    if (low[rule] != index[rule]) continue;
    const bool cycle = stack.back() != rule;
    for (RuleId member = kNew; member != rule;) {
      member = stack.back();
      stack.pop_back();
      on_stack[member] = 0;
      if (cycle) recursive_[member] = 1;
      order.push_back(member);
    }
  }
  return order;
}

bool Inlining::unrolled(const Node& repeat) const {
  const std::uint64_t copies = copies_of(repeat);
  return copies <= 1 || copies * copied_size(repeat.children[0]) <= kMaxUnrolled;
}

std::uint64_t Inlining::copies_of(const Node& repeat) {
  return repeat.max == kUnbounded ? std::max<std::uint32_t>(repeat.min, 1) : repeat.max;
}

// The children have been measured.
void Inlining::measure(NodeId id) {
  const Grammar& grammar = grammar_;
  const Node& node = grammar.node(id);
  std::uint64_t size = 1;
  for (const NodeId child : node.children) {
    size += copied_size(child);
    if (framed_[child]) continue;
    wide_[id] |= wide_[child];
    many_[id] |= many_[child];
  }
  switch (node.kind) {
    case Node::Kind::kText:
      size = std::max<std::uint64_t>(1, node.text.size());
      break;
    case Node::Kind::kCharacters: {
      std::uint64_t characters = 0;
      for (const auto& range : node.ranges) characters += range.last - range.first + 1;
      many_[id] = characters > kManyCharacters;
      size = many_[id] ? 4 : 1;
      break;
    }
    case Node::Kind::kRepeat: {
      const NodeId child = node.children[0];
      wide_[id] |= many_[child] && node.max > 1;
      size = unrolled(node) ? copies_of(node) * copied_size(child) + 1 : 2;
      break;
    }
    case Node::Kind::kRule: {
      const NodeId body = grammar.rule(node.rule).body;
      if (!inlined_[node.rule]) break;
      size = sizes_[body];
      many_[id] |= many_[body];
      break;
    }
    case Node::Kind::kSequence:
    case Node::Kind::kChoice:
      break;
    case Node::Kind::kSeparated:
      size += copied_size(node.children[0]) * static_cast<std::uint64_t>(node.children.size());
      break;
  }
  sizes_[id] = static_cast<std::uint32_t>(std::min<std::uint64_t>(size, kLarge));
  const bool leaf = node.kind == Node::Kind::kText || node.kind == Node::Kind::kCharacters ||
                    node.kind == Node::Kind::kRule;
  framed_[id] = !leaf && places_[id] > 1 && sizes_[id] > kMaxCopied;
}

}  // namespace saccade::grammar
