// Filters about numbers (jinja_filters.h).
#include <algorithm>
#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/number_format.h"
#include "text/jinja/operators.h"
#include "text/jinja/wrong.h"
#include "text/unicode/python_text.h"

namespace saccade::jinja {
namespace {

// int(number), rounding toward zero.
Result<Value> truncated(double number) {
  if (!(std::abs(number) < 0x1p126)) return wrong("cannot convert float to integer");
  return Value::integer(static_cast<Integer>(number));
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// int(text, base) as Python reads it; empty when it does not. kInvalid beyond 127 bits.
Result<std::optional<Integer>> parse_integer(std::string_view text, int base) {
  text = strip(text, std::nullopt, true, true);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const char mark = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (marked != 0 && (base == 0 || base == marked)) {
    base = marked;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  } else if (base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != text.npos) {
      return std::nullopt;  // 012 is no number without a base
    }
    base = 10;
  }
  if (text.empty() || text.front() == '_' || text.back() == '_') return std::nullopt;
  Integer number = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_') {
      if (text[i - 1] == '_') return std::nullopt;
      continue;
    }
    const int digit = digit_of(text[i]);
    if (digit >= base) return std::nullopt;
    if (number > (kIntegerMax - 36) / base) return wrong("integer beyond 127 bits");
    number = number * base + digit;
  }
  return negative ? -number : number;
}

Result<Value> to_int(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("int", arguments, {"default", "base"}, 0));
  TRY(const std::int64_t base, bound.integer(1, 10));
  const Value fallback = bound.value(0, Value::integer(0));
  if (input.is_undefined()) return undefined_error(input);
  if (input.is_integral()) return Value::integer(input.as_integer());
  if (input.is(Kind::kFloat)) {
    return std::isnan(input.as_double()) ? fallback : truncated(input.as_double());
  }
  if (!input.is_string()) return fallback;
  TRY_DO(state.charge_bytes(input.view().size()));
  if (base == 0 || (base >= 2 && base <= 36)) {
    TRY(const std::optional<Integer> number, parse_integer(input.view(), static_cast<int>(base)));
    if (number) return Value::integer(*number);
  }
  const auto real = parse_float(input.view());  // "42.23" is 42
  if (!real || !std::isfinite(*real)) return fallback;
  return truncated(*real);
}

Result<Value> to_float(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("float", arguments, {"default"}, 0));
  const Value fallback = bound.value(0, Value::real(0));
  if (input.is_undefined()) return undefined_error(input);
  if (input.is_number()) return Value::real(input.as_double());
  if (!input.is_string()) return fallback;
  TRY_DO(state.charge_bytes(input.view().size()));
  const auto real = parse_float(input.view());
  return real ? Value::real(*real) : fallback;
}

Result<Value> absolute(RenderState&, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("abs", arguments, {}, 0));
  if (input.is_integral()) {
    const Integer number = input.as_integer();
    return Value::integer(number < 0 ? -number : number);
  }
  if (input.is_number()) return Value::real(std::abs(input.as_double()));
  return wrong("bad operand type for abs(): '{}'", type_name(input));
}

// round(number, precision): to even, on the exact decimal expansion.
double round_decimal(double number, int precision) {
  if (!std::isfinite(number)) return number;
  if (precision >= 0) {
    const std::string digits = float_digits(std::abs(number), 'f', precision, false);
    return std::copysign(*parse_float(digits), number);
  }
  const double scale = std::pow(10.0, -precision);
  if (!std::isfinite(scale)) return std::copysign(0.0, number);
  return std::nearbyint(number / scale) * scale;
}

Integer round_integer(Integer number, int precision) {
  Integer scale = 1;
  for (int i = precision; i < 0 && scale < kIntegerMax / 100; ++i) scale *= 10;
  const Integer rest = ((number % scale) + scale) % scale;
  const Integer floor = number - rest;
  if (rest * 2 > scale || (rest * 2 == scale && (floor / scale) % 2 != 0)) return floor + scale;
  return floor;
}

Result<Value> round_number(RenderState&, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("round", arguments, {"precision", "method"}, 0));
  TRY(const std::int64_t asked, bound.integer(0, 0));
  TRY(const std::string_view method, bound.text(1, "common"));
  if (input.is_undefined()) return undefined_error(input);
  if (!input.is_number()) return wrong("type {} doesn't define __round__", type_name(input));
  // Beyond this no double has digits to round.
  const int precision = static_cast<int>(std::clamp<std::int64_t>(asked, -330, 340));
  if (method == "common") {
    if (!input.is_integral()) return Value::real(round_decimal(input.as_double(), precision));
    const Integer number = input.as_integer();
    if (precision >= 0) return Value::integer(number);
    if (precision < -36) return Value::integer(0);
    return Value::integer(round_integer(number, precision));
  }
  if (method != "ceil" && method != "floor") return wrong("method must be common, ceil or floor");
  const double scale = std::pow(10.0, precision);
  const double scaled = input.as_double() * scale;
  if (!std::isfinite(scaled) || scale == 0)
    return wrong("cannot convert float infinity to integer");
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> file_size(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("filesizeformat", arguments, {"binary"}, 0));
  const bool binary = bound.flag(0, false);
  double bytes = 0;
  if (input.is_number()) {
    bytes = input.as_double();
  } else {
    const auto parsed = input.is_string() ? parse_float(input.view()) : std::nullopt;
    if (!parsed) return wrong("could not convert to float: {}", type_name(input));
    bytes = *parsed;
  }
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return state.string("1 Byte");
  if (bytes < base) return state.string(fmt::format("{} Bytes", static_cast<long long>(bytes)));
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  std::size_t i = 0;
  for (; i < kPrefixes.size(); ++i) {
    unit *= base;
    if (bytes < unit || i + 1 == kPrefixes.size()) break;
  }
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  return state.string(fmt::format("{} {}{}B", float_digits(base * bytes / unit, 'f', 1, false),
                                  prefix, binary ? "i" : ""));
}

Result<Value> sum(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("sum", arguments, {"attribute", "start"}, 0));
  Value total = bound.value(1, Value::integer(0));
  if (total.is_string()) return wrong("sum() can't sum strings [use ''.join(seq) instead]");
  TRY(Cursor cursor, Cursor::over(input));
  while (true) {
    TRY(std::optional<Value> item, cursor.next(state));
    if (!item) return total;
    if (bound.says(0)) {
      TRY(item, get_path(state, *std::move(item), *bound[0]));
    }
    TRY(total, apply(state, BinaryOperator::kAdd, total, *item));
  }
}

constexpr Filter kNumberFilters[] = {
    {"abs", absolute}, {"filesizeformat", file_size}, {"float", to_float},
    {"int", to_int},   {"round", round_number},       {"sum", sum},
};

}  // namespace

std::span<const Filter> number_filters() { return kNumberFilters; }

}  // namespace saccade::jinja
