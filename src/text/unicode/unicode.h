// UTF-8 and the few character properties that tokenizers ask for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text/utf8.h"

namespace saccade {

// The character at `at`, which moves past it. For text known to be valid UTF-8.
inline char32_t next_character(std::string_view text, std::size_t& at) {
  const unsigned char lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const Utf8Step step = decode_utf8(text, at);
  at += step.length;
  return step.code;
}

// Length in bytes of the character whose first byte is `lead`. For valid UTF-8.
inline std::size_t character_bytes(char lead) {
  const unsigned char byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The start of the character that ends just before `at`; at > 0. For valid UTF-8.
inline std::size_t previous_character(std::string_view text, std::size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

bool is_valid_utf8(std::string_view text);

// Appends `bytes` to `out` with each maximal invalid part replaced by U+FFFD. With `at_end` false a
// sequence that may still become complete is left alone: the result says how many of the last
// bytes were not taken (0 to 3).
std::size_t append_valid_utf8(std::string& out, std::string_view bytes, bool at_end);

// White_Space of Unicode.
bool is_white_space(char32_t code);

// What \w means to the reference: Alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_character(char32_t code);

enum class NormalForm : std::uint8_t { kC, kD, kKC, kKD };

// Whether any character of `text` (valid UTF-8) is of Unicode 15 or 16. May say yes for others near
// them.
bool may_have_newer_characters(std::string_view text);

// `text` must be valid UTF-8.
std::string normalize(std::string_view text, NormalForm form);

// Full lower case mapping of each character by itself.
std::string to_lowercase(std::string_view text);

}  // namespace saccade
