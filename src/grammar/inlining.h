// Which rules of a grammar are written out where they are called, and how large expressions are.
#pragma once

#include <cstdint>
#include <vector>

#include "grammar/grammar.h"

namespace saccade::grammar {

// Linear in the grammar; no recursion of its own, however deep the rules nest.
class Inlining {
 public:
  static constexpr std::uint32_t kLarge = 1 << 20;  // sizes saturate here
  static constexpr std::uint32_t kSmall = 32;
  static constexpr std::uint32_t kMaxUnrolled = 24;

  explicit Inlining(const Grammar& grammar);
  // A copy for each caller: deterministic with what follows, and little of it. Loops over many
  // characters are not copied, since the token masks inside them are the costly ones.
  bool inlined(RuleId rule) const { return inlined_[rule] != 0; }
  // States that `node` takes when it is written out.
  std::uint32_t size(NodeId node) const { return sizes_[node]; }
  // Whether a repeat is written out as copies rather than counted.
  bool unrolled(const Node& repeat) const;

 private:
  std::vector<RuleId> callees_first(const Grammar& grammar);
  void measure(const Grammar& grammar, NodeId id);

  std::vector<char> recursive_;  // by rule
  std::vector<char> inlined_;    // by rule
  std::vector<std::uint32_t> sizes_;
  std::vector<char> wide_;  // by node: holds a loop over many characters
  std::vector<char> many_;  // by node: holds a class of many characters
};

// The rules that the body of `rule` calls.
std::vector<RuleId> called_rules(const Grammar& grammar, NodeId body);

}  // namespace saccade::grammar
