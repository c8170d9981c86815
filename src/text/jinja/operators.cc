#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/builtins/format.h"
#include "text/jinja/print.h"
#include "text/jinja/wrong.h"
#include "text/unicode/unicode.h"

namespace saccade::jinja {
namespace {

constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};

tl::unexpected<Error> no_operator(BinaryOperator op, const Value& a, const Value& b) {
  if (op == BinaryOperator::kAdd && a.is_string()) {
    return wrong("can only concatenate str (not \"{}\") to str", type_name(b));
  }
  return wrong("unsupported operand type(s) for {}: '{}' and '{}'", kSigns[static_cast<int>(op)],
               type_name(a), type_name(b));
}

tl::unexpected<Error> overflow() { return wrong("integer beyond 127 bits"); }

// The most negative value is left out, so that every integer can be negated.
Result<Value> checked(bool overflowed, Integer number) {
  if (overflowed || number < -kIntegerMax) return overflow();
  return Value::integer(number);
}

Result<Value> integer_power(Integer base, Integer exponent) {
  Integer result = 1;
  bool base_overflowed = false;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) {
      if (base_overflowed || __builtin_mul_overflow(result, base, &result)) return overflow();
    }
    base_overflowed |= __builtin_mul_overflow(base, base, &base);
  }
  return checked(false, result);
}

Result<Value> real_power(double base, double exponent) {
  if (base == 0 && exponent < 0) return wrong("0.0 cannot be raised to a negative power");
  const double result = std::pow(base, exponent);
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
    return wrong("complex numbers are not done");
  }
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    return wrong("(34, 'Numerical result out of range')");
  }
  return Value::real(result);
}

Result<Value> integer_arithmetic(BinaryOperator op, Integer a, Integer b) {
  Integer result = 0;
  bool overflowed = false;
  switch (op) {
    case BinaryOperator::kAdd:
      overflowed = __builtin_add_overflow(a, b, &result);
      return checked(overflowed, result);
    case BinaryOperator::kSubtract:
      overflowed = __builtin_sub_overflow(a, b, &result);
      return checked(overflowed, result);
    case BinaryOperator::kMultiply:
      overflowed = __builtin_mul_overflow(a, b, &result);
      return checked(overflowed, result);
    case BinaryOperator::kDivide:
      if (b == 0) return wrong("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
      if (b == 0) return wrong("integer division or modulo by zero");
      return Value::integer(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
    case BinaryOperator::kModulo:
      if (b == 0) return wrong("integer division or modulo by zero");
      return Value::integer(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
    case BinaryOperator::kPower:
      if (b < 0) return real_power(static_cast<double>(a), static_cast<double>(b));
      return integer_power(a, b);
  }
  return overflow();
}

// Quotient rounded down and its remainder, which has the sign of the divisor.
std::pair<double, double> floor_divide(double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), remainder};
  double floored = std::floor(quotient);
  if (quotient - floored > 0.5) floored += 1;
  return {floored, remainder};
}

Result<Value> real_arithmetic(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value::real(a + b);
    case BinaryOperator::kSubtract:
      return Value::real(a - b);
    case BinaryOperator::kMultiply:
      return Value::real(a * b);
    case BinaryOperator::kDivide:
      if (b == 0) return wrong("float division by zero");
      return Value::real(a / b);
    case BinaryOperator::kFloorDivide:
      if (b == 0) return wrong("float floor division by zero");
      return Value::real(floor_divide(a, b).first);
    case BinaryOperator::kModulo:
      if (b == 0) return wrong("float modulo");
      return Value::real(floor_divide(a, b).second);
    case BinaryOperator::kPower:
      return real_power(a, b);
  }
  return overflow();
}

Result<Value> concatenate(RenderState& state, const Text& a, const Text& b) {
  const bool markup = a.markup || b.markup;
  std::string text = markup && !a.markup ? escape_html(a.bytes) : a.bytes;
  TRY_DO(state.allow_string(text.size() + b.bytes.size()));
  text += markup && !b.markup ? escape_html(b.bytes) : b.bytes;
  return state.string(std::move(text), markup);
}

Result<Value> repeat(RenderState& state, const Value& value, Integer count) {
  count = std::max<Integer>(count, 0);
  if (value.is_string()) {
    const std::string& bytes = value.as_text().bytes;
    const auto limit = static_cast<Integer>(state.limits().max_string_bytes);
    const bool over = !bytes.empty() && count > limit / static_cast<Integer>(bytes.size());
    TRY_DO(state.allow_string(over ? static_cast<std::size_t>(limit) + 1
                                   : bytes.size() * static_cast<std::size_t>(count)));
    std::string text;
    if (!bytes.empty()) {
      text.reserve(bytes.size() * static_cast<std::size_t>(count));
      for (Integer i = 0; i < count; ++i) text += bytes;
    }
    return state.string(std::move(text), value.as_text().markup);
  }
  const auto& items = value.as<Sequence>().items;
  if (items.empty()) count = 0;
  const Integer total =
      count > (Integer{1} << 40) ? count : count * static_cast<Integer>(items.size());
  TRY_DO(state.allow_elements(static_cast<std::size_t>(std::min<Integer>(total, INT64_MAX))));
  std::vector<Value> repeated;
  repeated.reserve(static_cast<std::size_t>(total));
  for (Integer i = 0; i < count; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  return value.is(Kind::kList) ? state.list(std::move(repeated)) : state.tuple(std::move(repeated));
}

Result<Value> join_sequences(RenderState& state, const Value& a, const Value& b) {
  const auto& left = a.as<Sequence>().items;
  const auto& right = b.as<Sequence>().items;
  TRY_DO(state.allow_elements(left.size() + right.size()));
  std::vector<Value> both;
  both.reserve(left.size() + right.size());
  both.insert(both.end(), left.begin(), left.end());
  both.insert(both.end(), right.begin(), right.end());
  return a.is(Kind::kList) ? state.list(std::move(both)) : state.tuple(std::move(both));
}

Result<bool> in_string(const Value& item, std::string_view text) {
  if (!item.is_string()) {
    return wrong("'in <string>' requires string as left operand, not {}", type_name(item));
  }
  return text.find(item.view()) != std::string_view::npos;
}

Result<bool> in_container(RenderState& state, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (item.is_string()) TRY_DO(state.charge_search(container.view(), item.view()));
    return in_string(item, container.view());
  }
  const Dict* keys = container.is(Kind::kDict) ? &container.as<Dict>() : nullptr;
  if (container.is(Kind::kDictView) && container.as<DictView>().part == DictView::Part::kKeys) {
    keys = container.as<DictView>().dict;
  }
  if (keys != nullptr) {
    TRY(const Value* found, keys->find(state, item));
    return found != nullptr;
  }
  auto cursor = Cursor::over(container);
  if (!cursor) return wrong("argument of type '{}' is not iterable", type_name(container));
  while (true) {
    TRY(const std::optional<Value> element, cursor->next(state));
    if (!element) return false;
    TRY(const bool same, equals(state, item, *element));
    if (same) return true;
  }
}

}  // namespace

Result<Value> apply(RenderState& state, BinaryOperator op, const Value& a, const Value& b) {
  if (op == BinaryOperator::kModulo && a.is_string()) return percent_format(state, a.as_text(), b);
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (a.is_integral() && b.is_integral()) {
    return integer_arithmetic(op, a.as_integer(), b.as_integer());
  }
  if (a.is_number() && b.is_number()) return real_arithmetic(op, a.as_double(), b.as_double());
  if (op == BinaryOperator::kAdd) {
    if (a.is_string() && b.is_string()) return concatenate(state, a.as_text(), b.as_text());
    if (a.is_sequence() && a.kind() == b.kind()) return join_sequences(state, a, b);
  }
  if (op == BinaryOperator::kMultiply) {
    const auto repeatable = [](const Value& v) { return v.is_string() || v.is_sequence(); };
    if (repeatable(a) && b.is_integral()) return repeat(state, a, b.as_integer());
    if (repeatable(b) && a.is_integral()) return repeat(state, b, a.as_integer());
  }
  return no_operator(op, a, b);
}

Result<bool> holds(RenderState& state, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::kEqual:
      return equals(state, a, b);
    case Comparison::kNotEqual: {
      TRY(const bool same, equals(state, a, b));
      return !same;
    }
    case Comparison::kIn:
      return in_container(state, b, a);
    case Comparison::kNotIn: {
      TRY(const bool inside, in_container(state, b, a));
      return !inside;
    }
    default:
      break;
  }
  static constexpr std::string_view kNames[] = {"==", "!=", "<", "<=", ">", ">="};
  TRY(const int order, compare(state, a, b, kNames[static_cast<int>(comparison)]));
  // Nothing is ordered against NaN.
  const auto is_nan = [](const Value& v) {
    return v.is(Kind::kFloat) && std::isnan(v.as_double());
  };
  if (is_nan(a) || is_nan(b)) return false;
  switch (comparison) {
    case Comparison::kLess:
      return order < 0;
    case Comparison::kLessEqual:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

Result<Value> negate(const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_integral()) return Value::integer(-value.as_integer());
  if (value.is_number()) return Value::real(-value.as_double());
  return wrong("bad operand type for unary -: '{}'", type_name(value));
}

Result<Value> positive(const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_integral()) return Value::integer(value.as_integer());
  if (value.is_number()) return value;
  return wrong("bad operand type for unary +: '{}'", type_name(value));
}

}  // namespace saccade::jinja
