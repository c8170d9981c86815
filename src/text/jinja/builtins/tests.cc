#include "text/jinja/builtins/tests.h"

#include <algorithm>

#include "text/jinja/builtins/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/unicode/python_text.h"

namespace saccade::jinja {
namespace {

Result<bool> remainder_is(RenderState& state, const Value& value, const Value& divisor,
                          Integer wanted) {
  TRY(const Value remainder, apply(state, BinaryOperator::kModulo, value, divisor));
  return equals(state, remainder, Value::integer(wanted));
}

template <Comparison comparison>
Result<bool> compares(RenderState& state, const Value& value, const Value* argument) {
  return holds(state, comparison, value, *argument);
}

template <Kind kind>
Result<bool> is_kind(RenderState&, const Value& value, const Value*) {
  return value.is(kind);
}

template <bool wanted>
Result<bool> is_truth(RenderState&, const Value& value, const Value*) {
  return value.is(Kind::kBool) && value.as_bool() == wanted;
}

template <Trait trait>
Result<bool> text_is(RenderState& state, const Value& value, const Value*) {
  TRY(const std::string text, to_str(state, value));
  return has_trait(text, trait);
}

Result<bool> same_object(RenderState& state, const Value& value, const Value* other) {
  if (value.kind() != other->kind()) return false;
  if (value.is_object()) return value.as_object() == other->as_object();
  return equals(state, value, *other);
}

Result<bool> is_sequence(RenderState&, const Value& value, const Value*) {
  // Undefined has a length and a subscript as far as the reference's check can see.
  return value.is_undefined() || value.is_string() || value.is_sequence() ||
         value.is(Kind::kDict) || value.is(Kind::kRange);
}

constexpr Test kTests[] = {
    {"odd", 0,
     [](RenderState& s, const Value& v, const Value*) {
       return remainder_is(s, v, Value::integer(2), 1);
     }},
    {"even", 0,
     [](RenderState& s, const Value& v, const Value*) {
       return remainder_is(s, v, Value::integer(2), 0);
     }},
    {"divisibleby", 1,
     [](RenderState& s, const Value& v, const Value* by) { return remainder_is(s, v, *by, 0); }},
    {"defined", 0,
     [](RenderState&, const Value& v, const Value*) -> Result<bool> { return !v.is_undefined(); }},
    {"undefined", 0, is_kind<Kind::kUndefined>},
    {"filter", 0,
     [](RenderState&, const Value& v, const Value*) -> Result<bool> {
       return v.is_string() && find_filter(v.view()) != nullptr;
     }},
    {"test", 0,
     [](RenderState&, const Value& v, const Value*) -> Result<bool> {
       return v.is_string() && find_test(v.view()) != nullptr;
     }},
    {"none", 0, is_kind<Kind::kNone>},
    {"boolean", 0, is_kind<Kind::kBool>},
    {"false", 0, is_truth<false>},
    {"true", 0, is_truth<true>},
    {"integer", 0, is_kind<Kind::kInt>},
    {"float", 0, is_kind<Kind::kFloat>},
    {"lower", 0, text_is<Trait::kLower>},
    {"upper", 0, text_is<Trait::kUpper>},
    {"string", 0, is_kind<Kind::kString>},
    {"mapping", 0, is_kind<Kind::kDict>},
    {"number", 0,
     [](RenderState&, const Value& v, const Value*) -> Result<bool> { return v.is_number(); }},
    {"sequence", 0, is_sequence},
    {"iterable", 0,
     [](RenderState&, const Value& v, const Value*) -> Result<bool> {
       return v.is(Kind::kLoop) || Cursor::over(v).has_value();
     }},
    {"callable", 0,
     [](RenderState&, const Value& v, const Value*) -> Result<bool> {
       return v.is(Kind::kCallable) || v.is(Kind::kLoop) || v.is_undefined();
     }},
    {"sameas", 1, same_object},
    {"escaped", 0,
     [](RenderState&, const Value& v, const Value*) -> Result<bool> {
       return v.is_string() && v.as_text().markup;
     }},
    {"in", 1, compares<Comparison::kIn>},
    {"==", 1, compares<Comparison::kEqual>},
    {"eq", 1, compares<Comparison::kEqual>},
    {"equalto", 1, compares<Comparison::kEqual>},
    {"!=", 1, compares<Comparison::kNotEqual>},
    {"ne", 1, compares<Comparison::kNotEqual>},
    {">", 1, compares<Comparison::kGreater>},
    {"gt", 1, compares<Comparison::kGreater>},
    {"greaterthan", 1, compares<Comparison::kGreater>},
    {"ge", 1, compares<Comparison::kGreaterEqual>},
    {">=", 1, compares<Comparison::kGreaterEqual>},
    {"<", 1, compares<Comparison::kLess>},
    {"lt", 1, compares<Comparison::kLess>},
    {"lessthan", 1, compares<Comparison::kLess>},
    {"<=", 1, compares<Comparison::kLessEqual>},
    {"le", 1, compares<Comparison::kLessEqual>},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto* it = std::find_if(std::begin(kTests), std::end(kTests),
                                [&](const Test& test) { return test.name == name; });
  return it == std::end(kTests) ? nullptr : it;
}

Result<bool> run_test(RenderState& state, const Test& test, const Value& value,
                      const Arguments& arguments) {
  if (!arguments.named.empty() ||
      arguments.positional.size() != static_cast<std::size_t>(test.parameters)) {
    return fail(ErrorCode::kInvalid, "test '{}' takes {} argument(s), {} given", test.name,
                test.parameters, arguments.positional.size() + arguments.named.size());
  }
  return test.holds(state, value, test.parameters > 0 ? &arguments.positional[0] : nullptr);
}

}  // namespace saccade::jinja
