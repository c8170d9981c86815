#include "text/jinja/print.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "text/jinja/builtins/sort.h"
#include "text/unicode/python_text.h"
#include "text/unicode/unicode.h"

namespace saccade::jinja {
namespace {

constexpr int kMaxReprDepth = 250;  // namespaces can hold themselves

Result<void> room(RenderState& state, const std::string& out) {
  if (out.size() <= state.limits().max_string_bytes) return state.charge();
  return state.allow_string(out.size());
}

Result<void> repr(RenderState& state, std::string& out, const Value& value, int depth);

Result<void> repr_items(RenderState& state, std::string& out, const std::vector<Value>& items,
                        int depth) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    TRY_DO(repr(state, out, items[i], depth));
  }
  return {};
}

Result<void> repr_dict(RenderState& state, std::string& out, const Dict& dict, int depth) {
  out += '{';
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out += ", ";
    TRY_DO(repr(state, out, dict.entries[i].key, depth));
    out += ": ";
    TRY_DO(repr(state, out, dict.entries[i].value, depth));
  }
  out += '}';
  return {};
}

Result<void> repr_view(RenderState& state, std::string& out, const Value& value, int depth) {
  TRY(const std::vector<Value> items, elements(state, value));
  out += type_name(value);
  out += "([";
  TRY_DO(repr_items(state, out, items, depth));
  out += "])";
  return {};
}

Result<void> repr_object(RenderState& state, std::string& out, const Value& value, int depth) {
  if (depth > kMaxReprDepth) {
    return fail(ErrorCode::kInvalid, "values nest deeper than the template limit of {}",
                kMaxReprDepth);
  }
  switch (value.kind()) {
    case Kind::kList:
      out += '[';
      TRY_DO(repr_items(state, out, value.as<Sequence>().items, depth));
      out += ']';
      return {};
    case Kind::kTuple: {
      const auto& items = value.as<Sequence>().items;
      out += '(';
      TRY_DO(repr_items(state, out, items, depth));
      out += items.size() == 1 ? ",)" : ")";
      return {};
    }
    case Kind::kDict:
      return repr_dict(state, out, value.as<Dict>(), depth);
    case Kind::kNamespace:
      out += "<Namespace ";
      TRY_DO(repr_dict(state, out, value.as<Namespace>().attributes, depth));
      out += '>';
      return {};
    case Kind::kRange: {
      const Range& range = value.as<Range>();
      out += fmt::format("range({}, {}", to_string(range.start), to_string(range.stop));
      out += range.step == 1 ? ")" : fmt::format(", {})", to_string(range.step));
      return {};
    }
    case Kind::kDictView:
      return repr_view(state, out, value, depth);
    case Kind::kCallable:
    case Kind::kLoop:
      out += value.as<Callable>().repr();
      return {};
    default:
      out += fmt::format("<{} object>", type_name(value));
      return {};
  }
}

Result<void> repr(RenderState& state, std::string& out, const Value& value, int depth) {
  TRY_DO(room(state, out));
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      return {};
    case Kind::kNone:
      out += "None";
      return {};
    case Kind::kBool:
      out += value.as_bool() ? "True" : "False";
      return {};
    case Kind::kInt:
      out += to_string(value.as_integer());
      return {};
    case Kind::kFloat:
      out += float_repr(value.as_double());
      return {};
    case Kind::kString:
      TRY_DO(state.charge_bytes(value.view().size()));
      if (value.as_text().markup) out += "Markup(";
      append_repr(out, value.view());
      if (value.as_text().markup) out += ')';
      return {};
    default:
      return repr_object(state, out, value, depth + 1);
  }
}

// One json.dumps call: the text so far and how it should look.
class JsonPrinter {
 public:
  JsonPrinter(RenderState& state, const JsonStyle& style) : state_(state), style_(style) {}
  Result<void> print(const Value& value);
  std::string take() { return std::move(out_); }

 private:
  Result<void> print_list(const std::vector<Value>& items);
  Result<void> print_dict(const Dict& dict);
  Result<std::string> key_text(const Value& key) const;
  void quote(std::string_view text);
  void new_line();
  void separate(bool first);

  RenderState& state_;
  const JsonStyle& style_;
  std::string out_;
  int level_ = 0;
};

void JsonPrinter::quote(std::string_view text) {
  out_ += '"';
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    const auto unit = [&](char32_t u) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(u));
    };
    switch (code) {
      case '"':
        out_ += "\\\"";
        break;
      case '\\':
        out_ += "\\\\";
        break;
      case '\b':
        out_ += "\\b";
        break;
      case '\f':
        out_ += "\\f";
        break;
      case '\n':
        out_ += "\\n";
        break;
      case '\r':
        out_ += "\\r";
        break;
      case '\t':
        out_ += "\\t";
        break;
      default:
        if (code < 0x20 || (style_.ensure_ascii && code >= 0x7F && code < 0x10000)) {
          unit(code);
        } else if (style_.ensure_ascii && code >= 0x10000) {
          unit(0xD800 + ((code - 0x10000) >> 10));
          unit(0xDC00 + ((code - 0x10000) & 0x3FF));
        } else {
          append_utf8(out_, code);
        }
    }
  }
  out_ += '"';
}

void JsonPrinter::new_line() {
  if (!style_.indent) return;
  out_ += '\n';
  for (int i = 0; i < level_; ++i) out_ += *style_.indent;
}

void JsonPrinter::separate(bool first) {
  if (!first) out_ += style_.item_separator;
  new_line();
}

Result<void> JsonPrinter::print_list(const std::vector<Value>& items) {
  out_ += '[';
  ++level_;
  for (std::size_t i = 0; i < items.size(); ++i) {
    separate(i == 0);
    TRY_DO(print(items[i]));
  }
  --level_;
  if (!items.empty()) new_line();
  out_ += ']';
  return {};
}

Result<std::string> JsonPrinter::key_text(const Value& key) const {
  if (key.is_string()) return std::string(key.view());
  if (key.is_none()) return std::string("null");
  if (key.is(Kind::kBool)) return std::string(key.as_bool() ? "true" : "false");
  if (key.is_integral()) return to_string(key.as_integer());
  if (key.is_number()) {
    std::string text;
    json::append_number(text, key.as_double());
    return text;
  }
  return fail(ErrorCode::kInvalid, "keys must be str, int, float, bool or None, not {}",
              type_name(key));
}

Result<void> JsonPrinter::print_dict(const Dict& dict) {
  std::vector<Value> keys;
  for (const auto& entry : dict.entries) keys.push_back(entry.key);
  if (style_.sort_keys) TRY_DO(stable_sort(state_, keys, keys, false));
  out_ += '{';
  ++level_;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    separate(i == 0);
    TRY(const std::string name, key_text(keys[i]));
    TRY(const Value* value, dict.find(state_, keys[i]));
    quote(name);
    out_ += style_.key_separator;
    TRY_DO(print(*value));
  }
  --level_;
  if (!keys.empty()) new_line();
  out_ += '}';
  return {};
}

Result<void> JsonPrinter::print(const Value& value) {
  TRY_DO(room(state_, out_));
  switch (value.kind()) {
    case Kind::kNone:
      out_ += "null";
      return {};
    case Kind::kBool:
      out_ += value.as_bool() ? "true" : "false";
      return {};
    case Kind::kInt:
      out_ += to_string(value.as_integer());
      return {};
    case Kind::kFloat:
      json::append_number(out_, value.as_double());
      return {};
    case Kind::kString:
      TRY_DO(state_.charge_bytes(value.view().size()));
      quote(value.view());
      return {};
    case Kind::kList:
    case Kind::kTuple:
      return print_list(value.as<Sequence>().items);
    case Kind::kDict:
      return print_dict(value.as<Dict>());
    default:
      return fail(ErrorCode::kInvalid, "Object of type {} is not JSON serializable",
                  type_name(value));
  }
}

}  // namespace

std::string to_string(Integer number) {
  if (number == 0) return "0";
  std::string digits;
  for (Integer rest = number; rest != 0; rest /= 10) {
    const int digit = static_cast<int>(rest % 10);
    digits += static_cast<char>('0' + (digit < 0 ? -digit : digit));
  }
  if (number < 0) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::string text;
  json::append_number(text, number);
  return text;
}

void append_repr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    if (code == static_cast<char32_t>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(code)) {
      append_utf8(out, code);
    } else if (code < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(code));
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<unsigned>(code));
    }
  }
  out += quote;
}

Result<void> append_repr(RenderState& state, std::string& out, const Value& value) {
  return repr(state, out, value, 0);
}

Result<void> append_str(RenderState& state, std::string& out, const Value& value) {
  if (value.is_undefined()) return {};
  if (!value.is_string()) return repr(state, out, value, 0);
  TRY_DO(state.charge_bytes(value.view().size()));
  out += value.view();
  return {};
}

Result<std::string> to_str(RenderState& state, const Value& value) {
  std::string out;
  TRY_DO(append_str(state, out, value));
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Result<std::string> to_json(RenderState& state, const Value& value, const JsonStyle& style) {
  if (style.indent && style.indent->size() > kMaxIndent) {
    return fail(ErrorCode::kInvalid, "indent of {} bytes, limit {}", style.indent->size(),
                kMaxIndent);
  }
  JsonPrinter printer(state, style);
  TRY_DO(printer.print(value));
  return printer.take();
}

}  // namespace saccade::jinja
