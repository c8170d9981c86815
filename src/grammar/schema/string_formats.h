// The `format`s of JSON Schema that are held to: each as a regular expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace saccade::grammar {

// The pattern of what the format lets stand between the quotes, for parse_regex; nothing for a
// format that is not known.
std::optional<std::string> format_pattern(std::string_view format);

// For messages: the known ones, with commas.
std::string known_formats();

// Whether JSON Schema (draft 2020-12) defines it, held to here or not.
bool is_standard_format(std::string_view format);

}  // namespace saccade::grammar
