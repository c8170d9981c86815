// The parts of JSON that grammars are put together from.
#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"
#include "grammar/grammar.h"
#include "grammar/schema/json_schema.h"

namespace saccade::grammar {

// Makes each part once. The grammar must outlive it.
class JsonValues {
 public:
  JsonValues(Grammar& grammar, Whitespace whitespace);

  NodeId blank() const { return blank_; }  // between any two tokens
  NodeId comma() const { return comma_; }  // with what may stand around it
  NodeId colon() const { return colon_; }

  NodeId string();
  NodeId integer();
  NodeId number();
  NodeId any();  // any value
  NodeId any_object();
  NodeId any_array();
  NodeId character();  // one of a string's, or its escape
  // "key" : value
  NodeId member(NodeId key, NodeId value);
  NodeId key(std::string_view name);
  NodeId object(NodeId members);  // { members }, blanks inside
  // This value, written as Python's json writes it without blanks.
  NodeId constant(const json::value& value);

 private:
  void declare_values();
  Grammar& grammar_;
  NodeId blank_ = 0;
  NodeId comma_ = 0;
  NodeId colon_ = 0;
  std::optional<RuleId> string_;
  std::optional<RuleId> any_;
  std::optional<RuleId> object_;
  std::optional<RuleId> array_;
  std::optional<RuleId> number_;
  std::optional<RuleId> integer_;
  std::optional<NodeId> character_;
};

}  // namespace saccade::grammar
