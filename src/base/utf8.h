// Writing and counting characters of UTF-8. Reading bytes that may be anything: text/unicode.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

void append_utf8(std::string& out, char32_t code);

// Characters that begin in `utf8`.
std::int64_t character_count(std::string_view utf8);

}  // namespace saccade
