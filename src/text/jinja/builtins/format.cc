#include "text/jinja/builtins/format.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/builtins/number_format.h"
#include "text/jinja/print.h"
#include "text/jinja/wrong.h"
#include "text/unicode/python_text.h"
#include "text/unicode/unicode.h"

namespace saccade::jinja {
namespace {

constexpr std::int64_t kMaxGroupedWidth = 256;

// Width and the rest of a format specification.
struct Layout {
  std::string fill = " ";
  char align = 0;   // < > ^ =, or 0: the type's own
  char sign = '-';  // + - space
  bool alternate = false;
  bool zeros = false;
  std::int64_t width = 0;
  char grouping = 0;  // , or _
  int precision = -1;
  char type = 0;
};

// Decimal digits at `at`; -1 when there are none.
Result<std::int64_t> read_count(std::string_view text, std::size_t& at) {
  std::int64_t count = -1;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    count = std::max<std::int64_t>(count, 0) * 10 + (text[at] - '0');
    if (count > INT32_MAX) return wrong("too many decimal digits in format string");
  }
  return count;
}

Result<int> checked_precision(std::int64_t precision, bool of_text) {
  if (!of_text && precision > kMaxPrecision) {
    return wrong("format precision {} is over the template limit of {}", precision, kMaxPrecision);
  }
  return static_cast<int>(precision);
}

// `body` with `prefix` (sign, 0x) in front, filled up to the width.
Result<std::string> pad(RenderState& state, const Layout& layout, char align,
                        const std::string& prefix, const std::string& body) {
  const std::int64_t missing = layout.width - character_count(prefix) - character_count(body);
  if (missing <= 0) return prefix + body;
  TRY_DO(state.allow_string(static_cast<std::size_t>(missing) * layout.fill.size()));
  const std::int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string before, after;
  for (std::int64_t i = 0; i < left; ++i) before += layout.fill;
  for (std::int64_t i = left; i < missing; ++i) after += layout.fill;
  return align == '=' ? prefix + before + body + after : before + prefix + body + after;
}

std::string sign_text(bool negative, char sign) {
  return negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

Result<Layout> parse_spec(std::string_view spec, const Value& value) {
  Layout layout;
  std::size_t at = 0;
  const std::size_t first = spec.empty() ? 0 : character_bytes(spec[0]);
  const auto peek = [&] { return at < spec.size() ? spec[at] : '\0'; };
  if (first > 0 && first < spec.size() && is_align(spec[first])) {
    layout.fill = spec.substr(0, first);
    layout.align = spec[first];
    at = first + 1;
  } else if (is_align(peek())) {
    layout.align = spec[at++];
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') layout.sign = spec[at++];
  if (peek() == '#') layout.alternate = spec[at++] == '#';
  if (peek() == '0') {
    layout.zeros = true;
    if (layout.align == 0) layout.fill = "0";
    if (layout.align == 0 && value.is_number()) layout.align = '=';
    ++at;
  }
  TRY(const std::int64_t width, read_count(spec, at));
  layout.width = std::max<std::int64_t>(width, 0);
  if (peek() == ',' || peek() == '_') layout.grouping = spec[at++];
  if (peek() == '.') {
    TRY(const std::int64_t precision, read_count(spec, ++at));
    if (precision < 0) return wrong("Format specifier missing precision");
    TRY(layout.precision, checked_precision(precision, value.is_string()));
  }
  if (at < spec.size()) layout.type = spec[at++];
  if (at < spec.size()) return wrong("Invalid format specifier '{}'", spec);
  return layout;
}

tl::unexpected<Error> unknown_code(char type, const Value& value) {
  return wrong("Unknown format code '{}' for object of type '{}'", type, type_name(value));
}

// Groups, and fills with zeros inside the groups, as "08,d" does.
std::string group(const Layout& layout, std::string digits, std::int64_t sign_width) {
  if (layout.grouping == 0) return digits;
  const bool wide = layout.type == 'b' || layout.type == 'o' || (layout.type | 0x20) == 'x';
  const int size = wide ? 4 : 3;
  std::string grouped = group_digits(digits, layout.grouping, size);
  if (layout.fill != "0" || layout.align != '=') return grouped;
  while (static_cast<std::int64_t>(grouped.size()) + sign_width < layout.width) {
    digits.insert(0, 1, '0');
    grouped = group_digits(digits, layout.grouping, size);
  }
  return grouped;
}

Result<std::string> format_float(RenderState& state, double number, const Layout& layout) {
  const bool percent = layout.type == '%';
  const char type = percent ? 'f' : layout.type == 'n' ? 'g' : layout.type;
  const double magnitude = std::abs(percent ? number * 100 : number);
  const std::string sign = sign_text(std::signbit(number) && !std::isnan(number), layout.sign);
  std::string digits = float_digits(magnitude, type, layout.precision, layout.alternate);
  if (layout.grouping != 0) {
    if (layout.width > kMaxGroupedWidth)
      return wrong("format width {} is over {} with grouped digits", layout.width,
                   kMaxGroupedWidth);
    digits = group(layout, digits, static_cast<std::int64_t>(sign.size()));
  }
  if (percent) digits += '%';
  return pad(state, layout, layout.align ? layout.align : '>', sign, digits);
}

Result<std::string> format_integer(RenderState& state, const Value& value, Layout layout) {
  const Integer number = value.as_integer();
  if (layout.type == 'c') {
    if (number < 0 || number > 0x10FFFF) return wrong("%c arg not in range(0x110000)");
    std::string character;
    append_utf8(character, static_cast<char32_t>(number));
    return pad(state, layout, layout.align ? layout.align : '<', "", character);
  }
  if (layout.precision >= 0) return wrong("Precision not allowed in integer format specifier");
  if (layout.width > kMaxGroupedWidth && layout.grouping != 0) {
    return wrong("format width {} is over {} with grouped digits", layout.width, kMaxGroupedWidth);
  }
  const char type = layout.type == 0 || layout.type == 'n' ? 'd' : layout.type;
  std::string prefix = sign_text(number < 0, layout.sign);
  if (layout.alternate && type != 'd') prefix += fmt::format("0{}", type);
  std::string digits = integer_digits(number < 0 ? -number : number, type, false);
  digits = group(layout, std::move(digits), static_cast<std::int64_t>(prefix.size()));
  return pad(state, layout, layout.align ? layout.align : '>', prefix, digits);
}

Result<std::string> format_text(RenderState& state, const Value& value, const Layout& layout) {
  if (layout.type != 0 && layout.type != 's') return unknown_code(layout.type, value);
  if (layout.align == '=') return wrong("'=' alignment not allowed in string format specifier");
  std::string_view text = value.view();
  if (layout.precision >= 0) text = text.substr(0, byte_of(text, layout.precision));
  return pad(state, layout, layout.align ? layout.align : '<', "", std::string(text));
}

// The walk over a % format: what is left of the arguments, and the text so far.
class PercentFormatter {
 public:
  PercentFormatter(RenderState& state, const Text& format, const Value& arguments)
      : state_(state), format_(format.bytes), markup_(format.markup), arguments_(arguments) {}
  Result<std::string> run();

 private:
  struct Field {
    Layout layout;
    bool left = false;
    std::optional<Value> value;  // picked by a (key)
  };
  Result<void> field();
  Result<void> read_flags(Field& field);
  Result<std::int64_t> read_width();
  Result<Value> take();
  Result<void> put(const Field& field, char conversion, const Value& value);
  Result<std::string> number_text(const Layout& layout, char conversion, const Value& value);

  RenderState& state_;
  const std::string_view format_;
  const bool markup_;
  const Value& arguments_;
  std::size_t at_ = 0;
  std::size_t taken_ = 0;
  std::string out_;
};

Result<Value> PercentFormatter::take() {
  if (arguments_.is(Kind::kTuple)) {
    const auto& items = arguments_.as<Sequence>().items;
    if (taken_ >= items.size()) return wrong("not enough arguments for format string");
    return items[taken_++];
  }
  if (taken_++ > 0) return wrong("not enough arguments for format string");
  return arguments_;
}

Result<std::int64_t> PercentFormatter::read_width() {
  if (at_ < format_.size() && format_[at_] == '*') {
    ++at_;
    TRY(const Value value, take());
    if (!value.is_integral()) return wrong("* wants int");
    const Integer width = value.as_integer();
    if (width > INT32_MAX || width < -INT32_MAX) return wrong("width too big");
    return static_cast<std::int64_t>(width);
  }
  TRY(const std::int64_t width, read_count(format_, at_));
  return std::max<std::int64_t>(width, 0);
}

Result<void> PercentFormatter::read_flags(Field& field) {
  for (; at_ < format_.size(); ++at_) {
    const char flag = format_[at_];
    if (flag == '-') {
      field.left = true;
    } else if (flag == '+') {
      field.layout.sign = '+';
    } else if (flag == ' ') {
      if (field.layout.sign != '+') field.layout.sign = ' ';
    } else if (flag == '#') {
      field.layout.alternate = true;
    } else if (flag == '0') {
      field.layout.zeros = true;
    } else {
      break;
    }
  }
  TRY(field.layout.width, read_width());
  if (field.layout.width < 0) {
    field.left = true;
    field.layout.width = -field.layout.width;
  }
  if (at_ < format_.size() && format_[at_] == '.') {
    ++at_;
    TRY(const std::int64_t precision, read_width());
    field.layout.precision = static_cast<int>(std::clamp<std::int64_t>(precision, 0, INT32_MAX));
  }
  while (at_ < format_.size() &&
         (format_[at_] == 'l' || format_[at_] == 'h' || format_[at_] == 'L'))
    ++at_;
  return {};
}

Result<void> PercentFormatter::field() {
  Field field;
  if (at_ < format_.size() && format_[at_] == '(') {
    int open = 1;
    const std::size_t begin = ++at_;
    for (; at_ < format_.size() && open > 0; ++at_) {
      open += format_[at_] == '(' ? 1 : format_[at_] == ')' ? -1 : 0;
    }
    if (open > 0) return wrong("incomplete format key");
    if (!arguments_.is(Kind::kDict)) return wrong("format requires a mapping");
    const std::string_view key = format_.substr(begin, at_ - 1 - begin);
    const Value* found = arguments_.as<Dict>().find(key);
    if (found == nullptr) return wrong("KeyError: '{}'", key);
    field.value = *found;
  }
  TRY_DO(read_flags(field));
  if (at_ >= format_.size()) return wrong("incomplete format");
  const char conversion = format_[at_++];
  if (conversion == '%') {
    out_ += '%';
    return {};
  }
  if (std::string_view("srdiuoxXcfFeEgG").find(conversion) == std::string_view::npos) {
    return wrong("unsupported format character '{}' (0x{:x}) at index {}", conversion,
                 static_cast<unsigned char>(conversion), at_ - 1);
  }
  if (field.value) return put(field, conversion, *field.value);
  TRY(const Value value, take());
  return put(field, conversion, value);
}

Result<std::string> PercentFormatter::number_text(const Layout& layout, char conversion,
                                                  const Value& value) {
  TRY(const int precision, checked_precision(layout.precision, false));
  if (std::string_view("eEfFgG").find(conversion) != std::string_view::npos) {
    if (!value.is_number()) return wrong("must be real number, not {}", type_name(value));
    return float_digits(std::abs(value.as_double()), conversion, precision, layout.alternate);
  }
  const bool decimal = conversion == 'd' || conversion == 'i' || conversion == 'u';
  if (!value.is_number() || (!decimal && !value.is_integral())) {
    return wrong("%{} format: {} is required, not {}", conversion,
                 decimal ? "a real number" : "an integer", type_name(value));
  }
  if (!value.is_integral() && !(std::abs(value.as_double()) < 0x1p126)) {
    return wrong("cannot convert float {} to integer", float_repr(value.as_double()));
  }
  Integer number =
      value.is_integral() ? value.as_integer() : static_cast<Integer>(value.as_double());
  std::string digits =
      integer_digits(number < 0 ? -number : number, decimal ? 'd' : conversion, false);
  if (precision > static_cast<int>(digits.size())) {
    digits.insert(0, static_cast<std::size_t>(precision) - digits.size(), '0');
  }
  return digits;
}

Result<void> PercentFormatter::put(const Field& field, char conversion, const Value& value) {
  const Layout& layout = field.layout;
  std::string body, prefix;
  Layout padding;
  padding.width = layout.width;
  char align = field.left ? '<' : '>';
  if (conversion == 's' || conversion == 'r') {
    if (conversion == 's') {
      TRY_DO(append_str(state_, body, value));
      if (markup_ && !(value.is_string() && value.as_text().markup)) body = escape_html(body);
    } else {
      TRY_DO(append_repr(state_, body, value));
    }
    if (layout.precision >= 0) body.resize(byte_of(body, layout.precision));
  } else if (conversion == 'c') {
    if (value.is_string() && value.as_text().characters == 1) {
      body = value.view();
    } else if (value.is_integral() && value.as_integer() >= 0 && value.as_integer() <= 0x10FFFF) {
      append_utf8(body, static_cast<char32_t>(value.as_integer()));
    } else {
      return wrong("%c requires int or char");
    }
  } else {
    TRY(body, number_text(layout, conversion, value));
    const bool negative =
        value.is_integral() ? value.as_integer() < 0 : std::signbit(value.as_double());
    prefix = sign_text(negative, layout.sign);
    const bool based = conversion == 'o' || conversion == 'x' || conversion == 'X';
    if (layout.alternate && based) prefix += fmt::format("0{}", conversion);
    if (layout.zeros && !field.left) {
      padding.fill = "0";
      align = '=';
    }
  }
  TRY(const std::string padded, pad(state_, padding, align, prefix, body));
  out_ += padded;
  return {};
}

Result<std::string> PercentFormatter::run() {
  while (at_ < format_.size()) {
    const std::size_t percent = std::min(format_.find('%', at_), format_.size());
    out_ += format_.substr(at_, percent - at_);
    at_ = percent;
    if (at_ == format_.size()) break;
    ++at_;
    TRY_DO(field());
    if (out_.size() > state_.limits().max_string_bytes) TRY_DO(state_.allow_string(out_.size()));
  }
  const bool mapping = arguments_.is(Kind::kDict) || arguments_.is(Kind::kList) ||
                       arguments_.is(Kind::kRange) || arguments_.is_undefined();
  const std::size_t given =
      arguments_.is(Kind::kTuple) ? arguments_.as<Sequence>().items.size() : 1;
  if (taken_ < given && !mapping) {
    return wrong("not all arguments converted during string formatting");
  }
  return std::move(out_);
}

}  // namespace

Result<std::string> format_value(RenderState& state, const Value& value, std::string_view spec) {
  if (spec.empty()) return to_str(state, value);
  if (!value.is_string() && !value.is_number()) {
    return wrong("unsupported format string passed to {}.__format__", type_name(value));
  }
  TRY(const Layout layout, parse_spec(spec, value));
  if (value.is_string()) return format_text(state, value, layout);
  static constexpr std::string_view kReal = "eEfFgG%";
  if (layout.type != 0 && kReal.find(layout.type) != std::string_view::npos) {
    return format_float(state, value.as_double(), layout);
  }
  if (!value.is_integral()) {
    if (layout.type != 0 && layout.type != 'n') return unknown_code(layout.type, value);
    return format_float(state, value.as_double(), layout);
  }
  if (layout.type != 0 && std::string_view("bcdoxXn").find(layout.type) == std::string_view::npos) {
    return unknown_code(layout.type, value);
  }
  return format_integer(state, value, layout);
}

Result<Value> percent_format(RenderState& state, const Text& format, const Value& arguments) {
  TRY_DO(state.charge_bytes(format.bytes.size()));
  TRY(std::string text, PercentFormatter(state, format, arguments).run());
  return state.string(std::move(text), format.markup);
}

}  // namespace saccade::jinja
