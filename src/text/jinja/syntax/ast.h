// The syntax tree of a template. The parser builds it; the resolver (jinja_scope.h) then gives
// every name its place and every filter and test its function. Immutable afterwards.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

struct Filter;  // jinja_filters.h
struct Test;    // jinja_tests.h

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using ExpressionList = std::vector<ExpressionPtr>;
using Body = std::vector<Statement>;

// Where a variable lives: `hops` activations out (a macro's body is one activation inside the place
// that defines it), then a slot.
struct Place {
  int hops = 0;
  int slot = -1;
};

struct CallArguments {
  ExpressionList positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread;        // *sequence
  ExpressionPtr spread_named;  // **mapping
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
  Place place;
};
struct NamespaceTarget {  // ns.x, only as what `set` assigns to
  std::string name;
  std::string attribute;
  Place place;
};
struct ListDisplay {
  ExpressionList items;
};
struct TupleDisplay {
  ExpressionList items;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};
struct Unary {
  enum class Operator { kNot, kNegate, kPositive } op;
  ExpressionPtr operand;
};
struct Binary {
  BinaryOperator op;
  ExpressionPtr left, right;
};
struct Logical {
  bool is_and;
  ExpressionPtr left, right;
};
struct ComparisonChain {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Concatenation {  // a ~ b ~ c
  ExpressionList parts;
};
struct Conditional {
  ExpressionPtr test, yes, no;  // `no` may be null: undefined
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object, key;
};
struct Slice {
  ExpressionPtr object, start, stop, step;  // all but object may be null
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterCall {
  ExpressionPtr operand;  // null: the text that a filter or set block captured
  std::string name;
  CallArguments arguments;
  const Filter* filter = nullptr;  // null: unknown, and an error only if it runs
};
struct TestCall {
  ExpressionPtr operand;
  std::string name;
  CallArguments arguments;
  const Test* test = nullptr;
};

struct Expression {
  using Node = std::variant<Literal, Name, NamespaceTarget, ListDisplay, TupleDisplay, DictDisplay,
                            Unary, Binary, Logical, ComparisonChain, Concatenation, Conditional,
                            Attribute, Subscript, Slice, Call, FilterCall, TestCall>;
  int line = 0;
  int depth = 1;  // of the tree below, itself included
  Node node;
};

// visit(child) for each direct sub-expression, in the order of evaluation.
template <typename Visit>
void visit_children(Expression& expression, const Visit& visit);

// What a scope does to its variables when it is entered, before anything in it runs.
struct ScopeEntry {
  struct Load {
    enum class Action { kParameter, kResolve, kAlias, kUndefined } action;
    int slot;
    std::string name;  // kResolve: looked up among the render's variables
    Place outer;       // kAlias: starts as a copy of this
  };
  std::vector<Load> loads;
};

struct Data {
  std::string text;
};
struct Print {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  ExpressionPtr target, iterable;
  ExpressionPtr filter;         // `for x in y if filter`; may be null
  ExpressionPtr filter_target;  // the target once more, in the filter's own scope
  Body body, otherwise;
  bool recursive = false;
  ScopeEntry scope, filter_scope, otherwise_scope;
  int loop_slot = -1;
  int slots = 0;  // recursive: of its own activation
};
struct Set {
  ExpressionPtr target, value;
};
struct SetBlock {
  ExpressionPtr target;
  ExpressionPtr filter;  // a FilterCall chain over the captured text; may be null
  Body body;
  ScopeEntry scope;
};
struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // may be null
  int slot = -1;
};
// A macro, and the body of a call block, which is a macro named `caller`.
struct MacroDefinition {
  std::string name;  // empty: anonymous
  std::vector<Parameter> parameters;
  Body body;
  ScopeEntry scope;
  int slots = 0;
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;  // -1: the body does not ask for it
};
struct Macro {
  MacroDefinition definition;
  Place place;  // of the macro's name
};
struct CallBlock {
  ExpressionPtr call;  // a Call; null: {% generation %}, whose body is just shown
  MacroDefinition definition;
};
struct FilterBlock {
  ExpressionPtr filter;
  Body body;
  ScopeEntry scope;
};
struct With {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> variables;
  Body body;
  ScopeEntry scope;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<Data, Print, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock,
                            With, Break, Continue>;
  int line = 0;
  Node node;
};

struct Program {
  Body body;
  ScopeEntry scope;
  int slots = 0;
};

// --- visit_children

template <typename Visit>
struct ChildVisitor {
  const Visit& visit;

  void one(ExpressionPtr& child) const {
    if (child) visit(*child);
  }
  void all(ExpressionList& children) const {
    for (auto& child : children) one(child);
  }
  void arguments(CallArguments& arguments) const {
    all(arguments.positional);
    for (auto& [name, value] : arguments.named) one(value);
    one(arguments.spread);
    one(arguments.spread_named);
  }
  void operator()(Literal&) const {}
  void operator()(Name&) const {}
  void operator()(NamespaceTarget&) const {}
  void operator()(ListDisplay& node) const { all(node.items); }
  void operator()(TupleDisplay& node) const { all(node.items); }
  void operator()(DictDisplay& node) const {
    for (auto& [key, value] : node.items) {
      one(key);
      one(value);
    }
  }
  void operator()(Unary& node) const { one(node.operand); }
  void operator()(Binary& node) const {
    one(node.left);
    one(node.right);
  }
  void operator()(Logical& node) const {
    one(node.left);
    one(node.right);
  }
  void operator()(ComparisonChain& node) const {
    one(node.first);
    for (auto& [comparison, operand] : node.rest) one(operand);
  }
  void operator()(Concatenation& node) const { all(node.parts); }
  void operator()(Conditional& node) const {
    one(node.test);
    one(node.yes);
    one(node.no);
  }
  void operator()(Attribute& node) const { one(node.object); }
  void operator()(Subscript& node) const {
    one(node.object);
    one(node.key);
  }
  void operator()(Slice& node) const {
    one(node.object);
    one(node.start);
    one(node.stop);
    one(node.step);
  }
  void operator()(Call& node) const {
    one(node.callee);
    arguments(node.arguments);
  }
  void operator()(FilterCall& node) const {
    one(node.operand);
    arguments(node.arguments);
  }
  void operator()(TestCall& node) const {
    one(node.operand);
    arguments(node.arguments);
  }
};

template <typename Visit>
void visit_children(Expression& expression, const Visit& visit) {
  std::visit(ChildVisitor<Visit>{visit}, expression.node);
}

}  // namespace saccade::jinja
