// The printable characters that byte-level vocabularies write bytes as: a space is U+0120, and so
// on.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace saccade {

// The character that stands for each byte.
const std::array<char32_t, 256>& byte_alphabet();

// Appends each byte of `bytes` as its character.
void append_byte_characters(std::string& out, std::string_view bytes);

// The bytes that `characters` (valid UTF-8) stand for; nothing when one is not of the alphabet.
std::optional<std::string> bytes_of_characters(std::string_view characters);

}  // namespace saccade
