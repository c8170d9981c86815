// Runs a program: statements write text, expressions give values.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/jinja/state.h"
#include "text/jinja/syntax/ast.h"

namespace saccade::jinja {

using Variables = std::unordered_map<std::string, Value>;

// The slots of one run of a function: the template, a macro, a recursive loop. An empty slot is a
// variable without a value.
struct Activation : Object {
  Activation(Activation* around, int slot_count)
      : Object(Kind::kCallable), outer(around), slots(static_cast<std::size_t>(slot_count)) {}
  Activation* outer;
  std::vector<std::optional<Value>> slots;
  bool captured = false;  // something that may outlive the run refers to it
};

// One rendering, one thread.
class Interpreter {
 public:
  Interpreter(RenderState& state, const Variables& variables)
      : state_(state), variables_(variables) {}

  // kInvalid: the template's own raise_exception, an operation that Python refuses, or a limit.
  Result<std::string> run(const Program& program);

 private:
  friend class LoopContext;
  friend class MacroValue;
  friend class LoopFilter;

  enum class Flow { kNext, kBreak, kContinue };
  class Level;

  Result<Flow> body(const Body& statements, Activation& at, std::string& out);
  Result<Flow> statement(const Statement& statement, Activation& at, std::string& out);
  Result<Flow> execute(const Data& node, Activation& at, std::string& out);
  Result<Flow> execute(const Print& node, Activation& at, std::string& out);
  Result<Flow> execute(const If& node, Activation& at, std::string& out);
  Result<Flow> execute(const For& node, Activation& at, std::string& out);
  Result<Flow> execute(const Set& node, Activation& at, std::string& out);
  Result<Flow> execute(const SetBlock& node, Activation& at, std::string& out);
  Result<Flow> execute(const Macro& node, Activation& at, std::string& out);
  Result<Flow> execute(const CallBlock& node, Activation& at, std::string& out);
  Result<Flow> execute(const FilterBlock& node, Activation& at, std::string& out);
  Result<Flow> execute(const With& node, Activation& at, std::string& out);
  Result<Flow> execute(const Break&, Activation&, std::string&) { return Flow::kBreak; }
  Result<Flow> execute(const Continue&, Activation&, std::string&) { return Flow::kContinue; }

  Result<Flow> loop(const For& node, Activation& at, const Value& items, Activation* around,
                    int depth, std::string& out);
  Result<std::string> recurse(const For& node, Activation& around, const Value& items, int depth);
  Result<Value> filtered(const ExpressionPtr& filter, std::string captured, Activation& at);
  Result<void> assign(const Expression& target, const Value& value, Activation& at);
  Result<void> unpack(const TupleDisplay& target, const Value& value, Activation& at);
  Result<void> check_output(const std::string& out);

  Result<Value> evaluate(const Expression& expression, Activation& at);
  Result<Value> evaluate_or_none(const ExpressionPtr& expression, Activation& at);
  Result<Value> compute(const Literal& node, const Expression& where, Activation& at);
  Result<Value> compute(const Name& node, const Expression& where, Activation& at);
  Result<Value> compute(const NamespaceTarget& node, const Expression& where, Activation& at);
  Result<Value> compute(const ListDisplay& node, const Expression& where, Activation& at);
  Result<Value> compute(const TupleDisplay& node, const Expression& where, Activation& at);
  Result<Value> compute(const DictDisplay& node, const Expression& where, Activation& at);
  Result<Value> compute(const Unary& node, const Expression& where, Activation& at);
  Result<Value> compute(const Binary& node, const Expression& where, Activation& at);
  Result<Value> compute(const Logical& node, const Expression& where, Activation& at);
  Result<Value> compute(const ComparisonChain& node, const Expression& where, Activation& at);
  Result<Value> compute(const Concatenation& node, const Expression& where, Activation& at);
  Result<Value> compute(const Conditional& node, const Expression& where, Activation& at);
  Result<Value> compute(const Attribute& node, const Expression& where, Activation& at);
  Result<Value> compute(const Subscript& node, const Expression& where, Activation& at);
  Result<Value> compute(const Slice& node, const Expression& where, Activation& at);
  Result<Value> compute(const Call& node, const Expression& where, Activation& at);
  Result<Value> compute(const FilterCall& node, const Expression& where, Activation& at);
  Result<Value> compute(const TestCall& node, const Expression& where, Activation& at);
  Result<std::vector<Value>> evaluate_all(const ExpressionList& list, Activation& at);
  Result<Arguments> arguments(const CallArguments& call, Activation& at);
  Result<Value> call(const Call& node, Activation& at, const Value* caller);
  Result<Value> call_value(const Value& callee, const Call& node, Activation& at,
                           const Value* caller);

  Activation* activate(Activation* around, int slots);
  void retire(Activation* activation);
  static void capture(Activation* activation);
  static std::optional<Value>& slot(const Place& place, Activation& at);
  void enter(const ScopeEntry& scope, Activation& at);
  static void leave(const ScopeEntry& scope, Activation& at);

  RenderState& state_;
  const Variables& variables_;
  const Value* captured_ = nullptr;  // what a filter without operand filters
  std::vector<Activation*> idle_;    // activations that nothing refers to, for the next call
  int depth_ = 0;
  bool located_ = false;  // the error on its way out already names its line
};

}  // namespace saccade::jinja
