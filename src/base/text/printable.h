// Text that others have written, made safe to show on a line of a log or a terminal.
#pragma once

#include <string>
#include <string_view>

namespace saccade {

// Control characters, C1 ones and line separators included, as escapes: "\\n", "\\x1b", "\\u2028".
std::string printable(std::string_view utf8);

}  // namespace saccade
