// Python's literals as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace saccade::tools {

// `a=1, b="x", c=[True, None]` as {"a": 1, "b": "x", "c": [true, null]}; nothing for anything but
// literals by keyword, and for nesting deeper than `max_depth`. Sets and tuples are lists.
std::optional<std::string> keyword_arguments(std::string_view text, int max_depth);

// One literal.
std::optional<std::string> literal_as_json(std::string_view text, int max_depth);

}  // namespace saccade::tools
