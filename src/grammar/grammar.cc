#include "grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace saccade::grammar {

std::vector<CharacterRange> normalized(std::vector<CharacterRange> ranges) {
  constexpr char32_t kFirstSurrogate = 0xD800;
  constexpr char32_t kLastSurrogate = 0xDFFF;
  std::vector<CharacterRange> whole;
  for (CharacterRange range : ranges) {
    range.last = std::min(range.last, kLastCharacter);
    if (range.first > range.last) continue;
    if (range.last < kFirstSurrogate || range.first > kLastSurrogate) {
      whole.push_back(range);
      continue;
    }
    if (range.first < kFirstSurrogate) whole.push_back({range.first, kFirstSurrogate - 1});
    if (range.last > kLastSurrogate) whole.push_back({kLastSurrogate + 1, range.last});
  }
  std::sort(whole.begin(), whole.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CharacterRange> joined;
  for (const CharacterRange& range : whole) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

std::vector<CharacterRange> complement(const std::vector<CharacterRange>& ranges) {
  std::vector<CharacterRange> rest;
  char32_t next = 0;
  for (const CharacterRange& range : ranges) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) rest.push_back({next, kLastCharacter});
  return normalized(std::move(rest));
}

std::vector<CharacterRange> intersection(const std::vector<CharacterRange>& a,
                                         const std::vector<CharacterRange>& b) {
  std::vector<CharacterRange> shared;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const char32_t first = std::max(a[i].first, b[j].first);
    const char32_t last = std::min(a[i].last, b[j].last);
    if (first <= last) shared.push_back({first, last});
    if (a[i].last < b[j].last) {
      ++i;
    } else {
      ++j;
    }
  }
  return shared;
}

NodeId Grammar::add(Node node) {
  const std::size_t bytes = sizeof(Node) + node.text.size() + node.optional.size() +
                            node.ranges.size() * sizeof(CharacterRange) +
                            node.children.size() * sizeof(NodeId);
  const bool room =
      budget_.charge(Budget::kExpressions, 1) && budget_.charge(Budget::kBytes, bytes);
  if (!room && !nodes_.empty()) return 0;
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Grammar::text(std::string_view bytes) {
  Node node;
  node.text = bytes;
  return add(std::move(node));
}

NodeId Grammar::characters(std::vector<CharacterRange> ranges) {
  Node node;
  node.kind = Node::Kind::kCharacters;
  node.ranges = normalized(std::move(ranges));
  return add(std::move(node));
}

NodeId Grammar::sequence(const std::vector<NodeId>& parts) {
  Node node;
  node.kind = Node::Kind::kSequence;
  for (const NodeId part : parts) {
    const Node& from = nodes_[part];
    if (from.kind == Node::Kind::kSequence) {
      node.children.insert(node.children.end(), from.children.begin(), from.children.end());
    } else {
      node.children.push_back(part);
    }
  }
  if (node.children.size() == 1) return node.children[0];
  return add(std::move(node));
}

NodeId Grammar::choice(const std::vector<NodeId>& alternatives) {
  Node node;
  node.kind = Node::Kind::kChoice;
  node.children = alternatives;
  if (node.children.size() == 1) return node.children[0];
  return add(std::move(node));
}

NodeId Grammar::repeat(NodeId what, std::uint32_t min, std::uint32_t max) {
  CHECK(min <= max, "{{{}, {}}}", min, max);
  if (min == 1 && max == 1) return what;
  Node node;
  node.kind = Node::Kind::kRepeat;
  node.min = min;
  node.max = max;
  node.children = {what};
  return add(std::move(node));
}

NodeId Grammar::separated(NodeId separator, const std::vector<NodeId>& items,
                          const std::vector<char>& optional) {
  CHECK(items.size() == optional.size(), "{} items, {} marks", items.size(), optional.size());
  Node node;
  node.kind = Node::Kind::kSeparated;
  node.children = {separator};
  node.children.insert(node.children.end(), items.begin(), items.end());
  node.optional = {0};
  node.optional.insert(node.optional.end(), optional.begin(), optional.end());
  return add(std::move(node));
}

NodeId Grammar::call(RuleId rule) {
  Node node;
  node.kind = Node::Kind::kRule;
  node.rule = rule;
  return add(std::move(node));
}

RuleId Grammar::declare(std::string name) {
  constexpr std::size_t kMaxName = 200;
  if (name.size() > kMaxName) {
    std::size_t end = kMaxName;
    while (end > 0 && (name[end] & 0xC0) == 0x80) --end;  // whole characters
    name.resize(end);
    name += "...";
  }
  rules_.push_back({std::move(name), 0, false});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Grammar::define(RuleId rule, NodeId body) {
  rules_[rule].body = body;
  rules_[rule].defined = true;
}

RuleId Grammar::add_rule(std::string name, NodeId body) {
  const RuleId rule = declare(std::move(name));
  define(rule, body);
  return rule;
}

void Grammar::remove_direct_left_recursion() {
  const auto is_call = [&](NodeId id, RuleId rule) {
    return nodes_[id].kind == Node::Kind::kRule && nodes_[id].rule == rule;
  };
  for (RuleId id = 0; id < rules_.size(); ++id) {
    if (!rules_[id].defined) continue;
    const NodeId body = rules_[id].body;
    const std::vector<NodeId> alternatives = nodes_[body].kind == Node::Kind::kChoice
                                                 ? nodes_[body].children
                                                 : std::vector<NodeId>{body};
    std::vector<NodeId> starts;
    std::vector<NodeId> tails;
    bool recursive = false;
    for (const NodeId alternative : alternatives) {
      const bool sequence = nodes_[alternative].kind == Node::Kind::kSequence;
      const std::vector<NodeId> parts =
          sequence ? nodes_[alternative].children : std::vector<NodeId>{alternative};
      if (parts.empty() || !is_call(parts[0], id)) {
        starts.push_back(alternative);
        continue;
      }
      recursive = true;  // A ::= A alone adds nothing
      if (parts.size() > 1) {
        tails.push_back(this->sequence(std::vector<NodeId>(parts.begin() + 1, parts.end())));
      }
    }
    if (!recursive) continue;
    const NodeId start = choice(starts);
    rules_[id].body =
        tails.empty() ? start : sequence({start, repeat(choice(tails), 0, kUnbounded)});
  }
}

}  // namespace saccade::grammar
