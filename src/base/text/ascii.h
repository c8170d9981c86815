// Letters and digits of ASCII, whatever the locale. Other bytes are neither and stay as they are.
#pragma once

#include <string>
#include <string_view>

namespace saccade::ascii {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
inline std::string lower(std::string_view text) {
  std::string made(text);
  for (char& c : made) c = lower(c);
  return made;
}

// Of a hexadecimal digit in either case; -1: it is none.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

}  // namespace saccade::ascii
