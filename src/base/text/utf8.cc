#include "base/text/utf8.h"

#include <algorithm>

namespace saccade {

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

Utf8Step decode_utf8(std::string_view text, std::size_t at) {
  using enum Utf8Step::Kind;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {kCharacter, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {kInvalid, 1};

  const int tail_bytes = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  // Only the second byte has a narrower range: no overlong forms, surrogates or codes past 10FFFF.
  unsigned char low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;

  char32_t code = lead & (0x3Fu >> tail_bytes);
  for (int i = 1; i <= tail_bytes; ++i) {
    const std::size_t next = at + static_cast<std::size_t>(i);
    const auto seen = static_cast<std::uint8_t>(i);
    if (next == text.size()) return {kTruncated, seen};
    if (byte(next) < low || byte(next) > high) return {kInvalid, seen};
    code = code << 6 | (byte(next) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {kCharacter, static_cast<std::uint8_t>(tail_bytes + 1), code};
}

std::int64_t character_count(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

}  // namespace saccade
