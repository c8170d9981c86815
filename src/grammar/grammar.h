// A context-free grammar over bytes, as the frontends (JSON Schema, regex, EBNF) build it and
// Automaton::compile reads it: rules of expressions, with repeats kept as numbers.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"

namespace saccade::grammar {

using NodeId = std::uint32_t;
using RuleId = std::uint32_t;

inline constexpr std::uint32_t kUnbounded = 0xFFFFFFFF;
inline constexpr char32_t kLastCharacter = 0x10FFFF;

// Code points, both ends included.
struct CharacterRange {
  char32_t first = 0;
  char32_t last = 0;
  auto operator<=>(const CharacterRange&) const = default;
};

// Sorted and joined; surrogates taken out (they have no UTF-8).
std::vector<CharacterRange> normalized(std::vector<CharacterRange> ranges);
// What is left of all characters; `ranges` normalized.
std::vector<CharacterRange> complement(const std::vector<CharacterRange>& ranges);
// What both have; both normalized.
std::vector<CharacterRange> intersection(const std::vector<CharacterRange>& a,
                                         const std::vector<CharacterRange>& b);

struct Node {
  enum class Kind : std::uint8_t {
    kText,
    kCharacters,
    kSequence,
    kChoice,
    kRepeat,
    kSeparated,
    kRule
  };
  Kind kind = Kind::kText;
  std::uint32_t min = 0;               // kRepeat
  std::uint32_t max = 0;               // kRepeat; kUnbounded
  RuleId rule = 0;                     // kRule
  std::string text;                    // kText: any bytes
  std::vector<CharacterRange> ranges;  // kCharacters, normalized
  std::vector<NodeId> children;        // kSequence, kChoice; one in kRepeat
  // kSeparated: children[0] between any two of the others, in their order; which may be absent.
  std::vector<char> optional;  // by child; [0] unused
};

struct Rule {
  std::string name;  // for messages; cut when it is long
  NodeId body = 0;
  bool defined = false;
};

// Built by one thread, then read. Nodes are a DAG: a child is made before its parent; recursion is
// by rules alone. What it takes is charged to its budget; once that is spent nothing is added, and
// whatever is asked for is the first expression.
class Grammar {
 public:
  NodeId text(std::string_view bytes);
  NodeId characters(std::vector<CharacterRange> ranges);
  NodeId sequence(const std::vector<NodeId>& parts);                 // none: the empty text
  NodeId choice(const std::vector<NodeId>& alternatives);            // none: nothing matches
  NodeId repeat(NodeId what, std::uint32_t min, std::uint32_t max);  // min <= max
  // `items` in their order with `separator` between, less any of those that `optional` marks.
  NodeId separated(NodeId separator, const std::vector<NodeId>& items,
                   const std::vector<char>& optional);
  NodeId optional(NodeId what) { return repeat(what, 0, 1); }
  NodeId call(RuleId rule);

  RuleId declare(std::string name);
  void define(RuleId rule, NodeId body);
  RuleId add_rule(std::string name, NodeId body);
  void set_root(RuleId rule) { root_ = rule; }

  const Node& node(NodeId id) const { return nodes_[id]; }
  const Rule& rule(RuleId id) const { return rules_[id]; }
  std::size_t nodes() const { return nodes_.size(); }
  std::size_t rules() const { return rules_.size(); }
  RuleId root() const { return root_; }

  // Of what is between JSON's tokens a text has little in a row.
  void bound_blanks() { bounds_blanks_ = true; }
  bool bounds_blanks() const { return bounds_blanks_; }

  Budget& budget() { return budget_; }
  // kTooLarge when the budget is spent.
  Result<void> check_budget() const { return budget_.check(); }
  // A ::= A x | y becomes A ::= y x*. Left recursion of other shapes is left to the compiler to
  // refuse.
  void remove_direct_left_recursion();

 private:
  NodeId add(Node node);
  std::vector<Node> nodes_;
  std::vector<Rule> rules_;
  RuleId root_ = 0;
  bool bounds_blanks_ = false;
  Budget budget_;
};

}  // namespace saccade::grammar
