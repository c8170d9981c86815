// The expression half of the interpreter (jinja_interpreter.h).
#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/methods.h"
#include "text/jinja/builtins/tests.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace saccade::jinja {

Result<Value> Interpreter::evaluate(const Expression& expression, Activation& at) {
  TRY_DO(state_.charge());
  if (depth_ >= state_.limits().max_nesting) {
    return fail(ErrorCode::kInvalid, "the template nests deeper than the limit of {}",
                state_.limits().max_nesting);
  }
  ++depth_;
  auto value =
      std::visit([&](const auto& node) { return compute(node, expression, at); }, expression.node);
  --depth_;
  return value;
}

Result<Value> Interpreter::evaluate_or_none(const ExpressionPtr& expression, Activation& at) {
  return expression ? evaluate(*expression, at) : Result<Value>(Value());
}

Result<std::vector<Value>> Interpreter::evaluate_all(const ExpressionList& list, Activation& at) {
  std::vector<Value> values;
  values.reserve(list.size());
  for (const auto& item : list) {
    TRY(Value value, evaluate(*item, at));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Interpreter::compute(const Literal& node, const Expression&, Activation&) {
  return node.value;
}

Result<Value> Interpreter::compute(const Name& node, const Expression&, Activation& at) {
  const auto& variable = slot(node.place, at);
  if (variable) return *variable;
  return Value::undefined({Absence::Reason::kName, node.name, {}});
}

Result<Value> Interpreter::compute(const NamespaceTarget& node, const Expression&, Activation& at) {
  const auto& holder = slot(node.place, at);
  return get_attribute(state_, holder ? *holder : Value(), node.attribute);
}

Result<Value> Interpreter::compute(const ListDisplay& node, const Expression&, Activation& at) {
  TRY(std::vector<Value> items, evaluate_all(node.items, at));
  return state_.list(std::move(items));
}

Result<Value> Interpreter::compute(const TupleDisplay& node, const Expression&, Activation& at) {
  TRY(std::vector<Value> items, evaluate_all(node.items, at));
  return state_.tuple(std::move(items));
}

Result<Value> Interpreter::compute(const DictDisplay& node, const Expression&, Activation& at) {
  Dict* dict = state_.make<Dict>();
  for (const auto& [key_expression, value_expression] : node.items) {
    TRY(const Value key, evaluate(*key_expression, at));
    TRY(Value value, evaluate(*value_expression, at));
    TRY_DO(dict->set(state_, key, std::move(value)));
  }
  return Value::object(dict);
}

Result<Value> Interpreter::compute(const Unary& node, const Expression&, Activation& at) {
  TRY(const Value operand, evaluate(*node.operand, at));
  switch (node.op) {
    case Unary::Operator::kNot:
      return Value::boolean(!truth(operand));
    case Unary::Operator::kNegate:
      return negate(operand);
    default:
      return positive(operand);
  }
}

Result<Value> Interpreter::compute(const Binary& node, const Expression&, Activation& at) {
  TRY(const Value left, evaluate(*node.left, at));
  TRY(const Value right, evaluate(*node.right, at));
  return apply(state_, node.op, left, right);
}

Result<Value> Interpreter::compute(const Logical& node, const Expression&, Activation& at) {
  TRY(Value left, evaluate(*node.left, at));
  if (truth(left) != node.is_and) return left;
  return evaluate(*node.right, at);
}

Result<Value> Interpreter::compute(const ComparisonChain& node, const Expression&, Activation& at) {
  TRY(Value left, evaluate(*node.first, at));
  for (const auto& [comparison, operand] : node.rest) {
    TRY(Value right, evaluate(*operand, at));
    TRY(const bool holding, holds(state_, comparison, left, right));
    if (!holding) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::compute(const Concatenation& node, const Expression&, Activation& at) {
  TRY(const std::vector<Value> parts, evaluate_all(node.parts, at));
  std::string text;
  for (const Value& part : parts) {
    if (!part.is_string()) {
      TRY(const std::string shown, to_str(state_, part));
      text += shown;
    } else {
      TRY_DO(state_.allow_string(text.size() + part.view().size()));
      text += part.view();
    }
  }
  return state_.string(std::move(text));
}

Result<Value> Interpreter::compute(const Conditional& node, const Expression& where,
                                   Activation& at) {
  TRY(const Value test, evaluate(*node.test, at));
  if (truth(test)) return evaluate(*node.yes, at);
  if (node.no) return evaluate(*node.no, at);
  return Value::undefined(
      {Absence::Reason::kHint,
       fmt::format("the inline if-expression on line {} evaluated to false and no else section was "
                   "defined.",
                   where.line),
       {}});
}

Result<Value> Interpreter::compute(const Attribute& node, const Expression&, Activation& at) {
  TRY(const Value object, evaluate(*node.object, at));
  return get_attribute(state_, object, node.name);
}

Result<Value> Interpreter::compute(const Subscript& node, const Expression&, Activation& at) {
  TRY(const Value object, evaluate(*node.object, at));
  TRY(const Value key, evaluate(*node.key, at));
  return get_item(state_, object, key);
}

Result<Value> Interpreter::compute(const Slice& node, const Expression&, Activation& at) {
  TRY(const Value object, evaluate(*node.object, at));
  TRY(const Value start, evaluate_or_none(node.start, at));
  TRY(const Value stop, evaluate_or_none(node.stop, at));
  TRY(const Value step, evaluate_or_none(node.step, at));
  return get_slice(state_, object, start, stop, step);
}

Result<Arguments> Interpreter::arguments(const CallArguments& call, Activation& at) {
  Arguments arguments;
  TRY(arguments.positional, evaluate_all(call.positional, at));
  for (const auto& [name, expression] : call.named) {
    TRY(Value value, evaluate(*expression, at));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (call.spread) {
    TRY(const Value more, evaluate(*call.spread, at));
    TRY(const std::vector<Value> items, elements(state_, more));
    arguments.positional.insert(arguments.positional.end(), items.begin(), items.end());
  }
  if (call.spread_named) {
    TRY(const Value more, evaluate(*call.spread_named, at));
    if (!more.is(Kind::kDict)) {
      return fail(ErrorCode::kInvalid, "argument after ** must be a mapping, not {}",
                  type_name(more));
    }
    const auto& entries = more.as<Dict>().entries;
    TRY_DO(state_.allow_elements(entries.size()));
    for (const auto& entry : entries) {
      if (!entry.key.is_string()) return fail(ErrorCode::kInvalid, "keywords must be strings");
      for (const auto& [name, expression] : call.named) {
        if (name != entry.key.view()) continue;
        return fail(ErrorCode::kInvalid, "got multiple values for keyword argument '{}'", name);
      }
      arguments.named.emplace_back(std::string(entry.key.view()), entry.value);
    }
  }
  return arguments;
}

// `caller`: what a call block passes besides the written arguments; null elsewhere.
Result<Value> Interpreter::call(const Call& node, Activation& at, const Value* caller) {
  const auto* attribute = std::get_if<Attribute>(&node.callee->node);
  if (attribute && !caller) {
    // A method call, without a value for the bound method.
    TRY(const Value object, evaluate(*attribute->object, at));
    if (const Method* method = find_method(object, attribute->name)) {
      TRY(Arguments given, arguments(node.arguments, at));
      return method->call(state_, object, given);
    }
    TRY(const Value callee, get_attribute(state_, object, attribute->name));
    return call_value(callee, node, at, nullptr);
  }
  TRY(const Value callee, evaluate(*node.callee, at));
  return call_value(callee, node, at, caller);
}

Result<Value> Interpreter::call_value(const Value& callee, const Call& node, Activation& at,
                                      const Value* caller) {
  TRY(Arguments given, arguments(node.arguments, at));
  if (caller) given.named.emplace_back("caller", *caller);
  if (callee.is_undefined()) return undefined_error(callee);
  if (!callee.is(Kind::kCallable) && !callee.is(Kind::kLoop)) {
    return fail(ErrorCode::kInvalid, "'{}' object is not callable", type_name(callee));
  }
  return callee.as<Callable>().call(state_, given);
}

Result<Value> Interpreter::compute(const Call& node, const Expression&, Activation& at) {
  return call(node, at, nullptr);
}

Result<Value> Interpreter::compute(const FilterCall& node, const Expression&, Activation& at) {
  Value input;
  if (node.operand) {
    TRY(input, evaluate(*node.operand, at));
  } else {
    CHECK(captured_ != nullptr, "filter '{}' has nothing to filter", node.name);
    input = *captured_;
  }
  TRY(Arguments given, arguments(node.arguments, at));
  if (!node.filter) return fail(ErrorCode::kInvalid, "No filter named '{}' found.", node.name);
  return node.filter->apply(state_, input, given);
}

Result<Value> Interpreter::compute(const TestCall& node, const Expression&, Activation& at) {
  TRY(const Value operand, evaluate(*node.operand, at));
  TRY(const Arguments given, arguments(node.arguments, at));
  if (!node.test) return fail(ErrorCode::kInvalid, "No test named '{}' found.", node.name);
  TRY(const bool outcome, run_test(state_, *node.test, operand, given));
  return Value::boolean(outcome);
}

}  // namespace saccade::jinja
