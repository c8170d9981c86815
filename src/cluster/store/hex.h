// Bytes as hexadecimal text, and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace saccade::cluster {

inline std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// Lower case alone, as it is written.
inline std::optional<std::string> from_hex(std::string_view text) {
  const auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    if (value(text[i]) < 0 || value(text[i + 1]) < 0) return std::nullopt;
    bytes += static_cast<char>(value(text[i]) << 4 | value(text[i + 1]));
  }
  return bytes;
}

}  // namespace saccade::cluster
