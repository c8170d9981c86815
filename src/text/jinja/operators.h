// What operators, attributes and subscripts do with values: Python's rules, inside the reference's
// immutable sandbox.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/state.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

Result<Value> apply(RenderState& state, BinaryOperator op, const Value& a, const Value& b);
Result<bool> holds(RenderState& state, Comparison comparison, const Value& a, const Value& b);
Result<Value> negate(const Value& value);
Result<Value> positive(const Value& value);

// object.name: attributes and methods first, then items. Undefined when there is neither.
Result<Value> get_attribute(RenderState& state, const Value& object, std::string_view name);
// object[key]: items first, then attributes.
Result<Value> get_item(RenderState& state, const Value& object, const Value& key);
// object[start:stop:step]; none for what is left out.
Result<Value> get_slice(RenderState& state, const Value& object, const Value& start,
                        const Value& stop, const Value& step);

// "a.b.0": what map(attribute=...) and its kin look up, as items.
Result<Value> get_path(RenderState& state, Value object, const Value& path);

}  // namespace saccade::jinja
