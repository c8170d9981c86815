// Values as text: Python's str() and repr(), and json.dumps.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/state.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

// Appends str(value), what `{{ value }}` prints. kInvalid over the state's string or step limits.
Result<void> append_str(RenderState& state, std::string& out, const Value& value);
Result<void> append_repr(RenderState& state, std::string& out, const Value& value);
Result<std::string> to_str(RenderState& state, const Value& value);

void append_repr(std::string& out, std::string_view text);  // quotes as Python chooses them
std::string to_string(Integer number);
std::string float_repr(double number);

// & < > " ' as HTML entities.
std::string escape_html(std::string_view text);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// json.dumps. kInvalid names the type that JSON does not have.
constexpr std::size_t kMaxIndent = 256;  // characters of one level, in to_json and elsewhere

Result<std::string> to_json(RenderState& state, const Value& value, const JsonStyle& style);

}  // namespace saccade::jinja
