// str.format, as string.Formatter does it inside the reference's sandbox.
#include <algorithm>

#include "text/jinja/builtins/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/wrong.h"

namespace saccade::jinja {
namespace {

constexpr int kMaxSpecNesting = 2;  // "{:{}}" is as deep as Python goes

bool is_index(std::string_view text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::int64_t to_index(std::string_view digits) {
  std::int64_t index = 0;
  for (const char c : digits) index = index * 10 + (c - '0');
  return index;
}

class BraceFormatter {
 public:
  BraceFormatter(RenderState& state, const Arguments& arguments, bool markup)
      : state_(state), arguments_(arguments), markup_(markup) {}
  Result<std::string> run(std::string_view format, int nesting);

 private:
  Result<std::string> field(std::string_view field, int nesting);
  Result<Value> look_up(std::string_view name);
  Result<Value> first(std::string_view name);

  RenderState& state_;
  const Arguments& arguments_;
  const bool markup_;
  std::int64_t next_ = 0;  // automatic numbering; -1 once a field was numbered by hand
};

Result<Value> BraceFormatter::first(std::string_view name) {
  std::int64_t index = 0;
  if (name.empty()) {
    if (next_ < 0) {
      return wrong("cannot switch from manual field specification to automatic field numbering");
    }
    index = next_++;
  } else if (is_index(name)) {
    if (next_ > 0) {
      return wrong("cannot switch from automatic field numbering to manual field specification");
    }
    next_ = -1;
    index = to_index(name);
  } else {
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    return wrong("KeyError: '{}'", name);
  }
  if (index >= static_cast<std::int64_t>(arguments_.positional.size())) {
    return wrong("Replacement index {} out of range for positional args tuple", index);
  }
  return arguments_.positional[static_cast<std::size_t>(index)];
}

Result<Value> BraceFormatter::look_up(std::string_view name) {
  const std::size_t head = std::min(name.find_first_of(".["), name.size());
  TRY(Value value, first(name.substr(0, head)));
  for (std::size_t at = head; at < name.size();) {
    TRY_DO(state_.charge());
    if (name[at] == '.') {
      const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
      if (end == at + 1) return wrong("Empty attribute in format string");
      TRY(value, get_attribute(state_, value, name.substr(at + 1, end - at - 1)));
      at = end;
      continue;
    }
    const std::size_t end = name[at] == '[' ? name.find(']', at) : std::string_view::npos;
    if (end == std::string_view::npos) return wrong("Missing ']' in format string");
    const std::string_view key = name.substr(at + 1, end - at - 1);
    if (key.empty()) return wrong("Empty attribute in format string");
    const Value index =
        is_index(key) ? Value::integer(to_index(key)) : state_.string(std::string(key));
    TRY(value, get_item(state_, value, index));
    at = end + 1;
    if (at < name.size() && name[at] != '.' && name[at] != '[') {
      return wrong("Only '.' or '[' may follow ']' in format field specifier");
    }
  }
  return value;
}

// `field` is what stands between the braces: name!conversion:spec.
Result<std::string> BraceFormatter::field(std::string_view field, int nesting) {
  std::size_t name_end = 0;
  for (bool in_brackets = false; name_end < field.size(); ++name_end) {
    const char c = field[name_end];
    if (c == '[') in_brackets = true;
    if (c == ']') in_brackets = false;
    if (!in_brackets && (c == '!' || c == ':')) break;
  }
  char conversion = 0;
  std::size_t at = name_end;
  if (at < field.size() && field[at] == '!') {
    if (at + 1 >= field.size())
      return wrong("end of string while looking for conversion specifier");
    conversion = field[at + 1];
    at += 2;
    if (at < field.size() && field[at] != ':')
      return wrong("expected ':' after conversion specifier");
  }
  TRY(Value value, look_up(field.substr(0, name_end)));
  std::string spec;
  if (at < field.size()) {
    TRY(spec, run(field.substr(at + 1), nesting + 1));
  }
  if (conversion == 'r') {
    std::string text;
    TRY_DO(append_repr(state_, text, value));
    value = state_.string(std::move(text));
  } else if (conversion == 's') {
    TRY(std::string text, to_str(state_, value));
    value = state_.string(std::move(text), value.is_string() && value.as_text().markup);
  } else if (conversion != 0) {
    return wrong("Unknown conversion specifier {}", conversion);
  }
  const bool safe = value.is_string() && value.as_text().markup;
  TRY(std::string text, format_value(state_, value, spec));
  return markup_ && !safe ? escape_html(text) : text;
}

Result<std::string> BraceFormatter::run(std::string_view format, int nesting) {
  if (nesting > kMaxSpecNesting) return wrong("Max string recursion exceeded");
  std::string out;
  for (std::size_t at = 0; at < format.size();) {
    const char c = format[at];
    if (c != '{' && c != '}') {
      const std::size_t end = std::min(format.find_first_of("{}", at), format.size());
      out += format.substr(at, end - at);
      at = end;
      continue;
    }
    if (at + 1 < format.size() && format[at + 1] == c) {
      out += c;
      at += 2;
      continue;
    }
    if (c == '}') return wrong("Single '}}' encountered in format string");
    int open = 1;
    std::size_t end = at + 1;
    for (; end < format.size() && open > 0; ++end) {
      open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
    }
    if (open > 0) return wrong("expected '}}' before end of string");
    TRY(const std::string text, field(format.substr(at + 1, end - at - 2), nesting));
    out += text;
    TRY_DO(state_.charge());
    if (out.size() > state_.limits().max_string_bytes) TRY_DO(state_.allow_string(out.size()));
    at = end;
  }
  return out;
}

}  // namespace

Result<Value> brace_format(RenderState& state, const Text& format, const Arguments& arguments) {
  TRY_DO(state.charge_bytes(format.bytes.size()));
  BraceFormatter formatter(state, arguments, format.markup);
  TRY(std::string text, formatter.run(format.bytes, 0));
  return state.string(std::move(text), format.markup);
}

}  // namespace saccade::jinja
