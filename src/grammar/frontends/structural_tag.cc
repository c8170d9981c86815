#include "grammar/frontends/structural_tag.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxTagStructures = 128;
constexpr std::size_t kMaxTriggerBytes = 4096;

// The states of a search for several strings at once (Aho and Corasick's): what has been written
// ends in the beginning of a trigger that the state stands for.
class TriggerSearch {
 public:
  explicit TriggerSearch(const std::vector<std::string>& triggers) : nodes_(1) {
    for (const std::string& trigger : triggers) {
      std::size_t at = 0;
      for (const char byte : trigger) {
        std::size_t& next = nodes_[at].next[static_cast<unsigned char>(byte)];
        if (next == 0) {
          next = nodes_.size();
          at = next;
          nodes_.emplace_back();
        } else {
          at = next;
        }
      }
      if (nodes_[at].trigger.empty()) nodes_[at].trigger = trigger;
    }
    link();
  }

  std::size_t size() const { return nodes_.size(); }
  // Where a byte leads; 0: no trigger has begun.
  std::size_t step(std::size_t from, unsigned byte) const { return nodes_[from].next[byte]; }
  // The trigger that has just been completed; empty: none.
  const std::string& completed(std::size_t at) const { return nodes_[at].trigger; }

 private:
  struct Node {
    std::array<std::size_t, 256> next{};
    std::size_t back = 0;  // the longest proper ending that begins a trigger
    std::string trigger;
  };

  void link() {
    std::vector<std::size_t> order;
    for (const std::size_t next : nodes_[0].next) {
      if (next != 0) order.push_back(next);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      Node& node = nodes_[order[i]];
      const Node& back = nodes_[node.back];
      if (node.trigger.empty()) node.trigger = back.trigger;
      for (unsigned byte = 0; byte < 256; ++byte) {
        if (node.next[byte] == 0) {
          node.next[byte] = back.next[byte];
        } else {
          nodes_[node.next[byte]].back = back.next[byte];
          order.push_back(node.next[byte]);
        }
      }
    }
  }

  std::vector<Node> nodes_;
};

struct Structure {
  std::string begin;
  NodeId content = 0;
  std::string end;
};

Result<std::vector<std::string>> triggers_of(const json::object& tags) {
  const json::value* listed = json::find(tags, "triggers");
  if (!listed || !listed->is_array() || listed->get_array().empty()) {
    return fail(ErrorCode::kInvalid, "structural_tag: 'triggers' must be an array of strings");
  }
  std::vector<std::string> triggers;
  std::size_t bytes = 0;
  for (const json::value& trigger : listed->get_array()) {
    if (!trigger.is_string() || trigger.get_string().empty()) {
      return fail(ErrorCode::kInvalid, "structural_tag: 'triggers' must be strings, none empty");
    }
    triggers.emplace_back(trigger.get_string());
    const bool ascii = std::all_of(triggers.back().begin(), triggers.back().end(),
                                   [](char byte) { return static_cast<signed char>(byte) > 0; });
    if (!ascii) {
      return fail(ErrorCode::kUnsupported, "structural_tag: the trigger '{}' is not plain ASCII",
                  triggers.back());
    }
    bytes += triggers.back().size();
  }
  if (bytes > kMaxTriggerBytes) {
    return fail(ErrorCode::kTooLarge, "structural_tag: triggers of {} bytes, limit {}", bytes,
                kMaxTriggerBytes);
  }
  return triggers;
}

// The content of each goes into the grammar.
Result<std::vector<Structure>> structures_of(const json::array& listed,
                                             const std::vector<std::string>& triggers,
                                             const JsonOptions& options, Grammar& grammar) {
  std::vector<Structure> structures;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const json::value& from = listed[i];
    const auto where = fmt::format("structural_tag: structures[{}]", i);
    if (!from.is_object()) return fail(ErrorCode::kInvalid, "{} must be an object", where);
    auto begin = json::get_string(from.get_object(), "begin");
    if (!begin) return fail_within(where, std::move(begin).error());
    auto end = json::get_string(from.get_object(), "end");
    if (!end) return fail_within(where, std::move(end).error());
    const json::value* schema = json::find(from.get_object(), "schema");
    if (!schema) return fail(ErrorCode::kInvalid, "{} has no 'schema'", where);
    auto content = add_json_schema(grammar, *schema, options);
    if (!content) return fail_within(where, std::move(content).error());
    const bool triggered = std::any_of(triggers.begin(), triggers.end(), [&](const auto& trigger) {
      return begin->starts_with(trigger);
    });
    if (!triggered) {
      return fail(ErrorCode::kInvalid, "{}: 'begin' starts with none of the triggers", where);
    }
    structures.push_back({*begin, *content, *end});
  }
  return structures;
}

}  // namespace

Result<Grammar> structural_tag_grammar(const json::value& tags, const JsonOptions& options) {
  if (!tags.is_object()) return fail(ErrorCode::kInvalid, "structural_tag: must be an object");
  const json::value* listed = json::find(tags.get_object(), "structures");
  if (!listed || !listed->is_array() || listed->get_array().empty()) {
    return fail(ErrorCode::kInvalid,
                "structural_tag: 'structures' must be an array of objects with begin, schema, end");
  }
  if (listed->get_array().size() > kMaxTagStructures) {
    return fail(ErrorCode::kTooLarge, "structural_tag: {} structures, limit {}",
                listed->get_array().size(), kMaxTagStructures);
  }
  TRY(const std::vector<std::string> triggers, triggers_of(tags.get_object()));

  Grammar grammar;
  TRY(const std::vector<Structure> structures,
      structures_of(listed->get_array(), triggers, options, grammar));

  // One rule a state of the search: any byte leads to the next state's rule, or, where a trigger
  // has been completed, to the rest of a structure and then to plain text again.
  const TriggerSearch search(triggers);
  std::vector<RuleId> rules;
  for (std::size_t i = 0; i < search.size(); ++i) {
    rules.push_back(grammar.declare(fmt::format("text {}", i)));
  }
  for (std::size_t i = 0; i < search.size(); ++i) {
    std::vector<NodeId> ways;
    if (const std::string& trigger = search.completed(i); !trigger.empty()) {
      for (const Structure& structure : structures) {
        if (!structure.begin.starts_with(trigger)) continue;
        ways.push_back(grammar.sequence({grammar.text(structure.begin.substr(trigger.size())),
                                         structure.content, grammar.text(structure.end),
                                         grammar.call(rules[0])}));
      }
      grammar.define(rules[i], grammar.choice(ways));
      continue;
    }
    std::map<std::size_t, std::vector<CharacterRange>> ascii;
    std::vector<NodeId> alternatives{grammar.text("")};
    std::vector<CharacterRange> plain{{0x80, kLastCharacter}};
    for (unsigned byte = 0; byte < 0x80; ++byte) {
      const std::size_t next = search.step(i, byte);
      if (next == 0) {
        plain.push_back({byte, byte});
      } else {
        ascii[next].push_back({byte, byte});
      }
    }
    alternatives.push_back(
        grammar.sequence({grammar.characters(std::move(plain)), grammar.call(rules[0])}));
    for (auto& [next, ranges] : ascii) {
      alternatives.push_back(
          grammar.sequence({grammar.characters(std::move(ranges)), grammar.call(rules[next])}));
    }
    grammar.define(rules[i], grammar.choice(alternatives));
  }
  grammar.set_root(rules[0]);
  TRY_DO(grammar.check_budget());
  return grammar;
}

}  // namespace saccade::grammar
