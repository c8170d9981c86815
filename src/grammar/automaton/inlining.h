// Which rules of a grammar are written out where they are called, and how large expressions are.
#pragma once

#include <cstdint>
#include <vector>

#include "grammar/grammar.h"

namespace saccade::grammar {

// No recursion of its own, however deep the rules nest. Steps are charged to the grammar's budget;
// once that is spent what is left is neither measured nor inlined.
class Inlining {
 public:
  static constexpr std::uint32_t kLarge = 1 << 20;  // sizes saturate here
  static constexpr std::uint32_t kSmall = 32;
  static constexpr std::uint32_t kMaxUnrolled = 24;
  static constexpr std::uint32_t kMaxCopied = 64;

  explicit Inlining(Grammar& grammar);
  // A copy for each caller: deterministic with what follows, and little of it. Loops over many
  // characters are not copied, since the token masks inside them are the costly ones.
  bool inlined(RuleId rule) const { return inlined_[rule] != 0; }
  // Whether an expression is a frame of its own, called wherever it stands: one that stands in
  // several places would be written out in each, and what nests such ones would double with every
  // level.
  bool framed(NodeId node) const { return framed_[node] != 0; }
  // States that `node` takes when it is written out.
  std::uint32_t size(NodeId node) const { return sizes_[node]; }
  // Whether a repeat is written out as copies rather than counted.
  bool unrolled(const Node& repeat) const;

 private:
  std::vector<RuleId> callees_first();
  std::vector<RuleId> called_rules(NodeId body);
  std::vector<NodeId> nodes_of(NodeId from);
  static std::uint64_t copies_of(const Node& repeat);
  std::uint32_t copied_size(NodeId node) const { return framed_[node] ? 1 : sizes_[node]; }
  void measure(NodeId id);

  Grammar& grammar_;
  std::vector<char> recursive_;  // by rule
  std::vector<char> inlined_;    // by rule
  std::vector<std::uint32_t> sizes_;
  std::vector<char> wide_;             // by node: holds a loop over many characters
  std::vector<char> many_;             // by node: holds a class of many characters
  std::vector<char> framed_;           // by node
  std::vector<std::uint32_t> places_;  // by node: where it stands
  std::vector<std::uint32_t> seen_;    // by node: the last walk that met it
  std::uint32_t walk_ = 0;
};

}  // namespace saccade::grammar
