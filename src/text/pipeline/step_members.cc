#include "text/pipeline/step_members.h"

#include "text/unicode/unicode.h"

namespace saccade {

Result<std::string> one_character(const json::object& from, std::string_view name) {
  TRY(std::string text, json::get_string(from, name));
  if (text.empty() || character_bytes(text[0]) != text.size()) {
    return fail(ErrorCode::kInvalid, "'{}' must be one character", name);
  }
  return text;
}

Result<const json::array*> steps_of(const json::object& sequence, std::string_view name) {
  const json::value* steps = json::find(sequence, name);
  if (steps == nullptr || !steps->is_array())
    return fail(ErrorCode::kInvalid, "'{}' must be an array", name);
  return &steps->get_array();
}

Result<PatternMember> pattern_of(const json::object& from) {
  const json::value* pattern = json::find(from, "pattern");
  if (pattern == nullptr || !pattern->is_object())
    return fail(ErrorCode::kInvalid, "'pattern' must be an object");
  const json::object& object = pattern->get_object();
  const bool is_regex = json::find(object, "Regex") != nullptr;
  TRY(const std::string text, json::get_string(object, is_regex ? "Regex" : "String"));
  TRY(Regex regex, is_regex ? Regex::compile(text) : Regex::literal(text));
  return PatternMember{std::move(regex), is_regex ? 0 : text.size()};
}

}  // namespace saccade
