// Characters of UTF-8, and reading bytes that may be anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

constexpr char32_t kReplacementCharacter = 0xFFFD;

// One step of a decoder over bytes that may be anything.
struct Utf8Step {
  enum class Kind : std::uint8_t {
    kCharacter,  // `code`, `length` bytes
    kInvalid,    // `length` bytes (1 to 3) that together become one U+FFFD
    kTruncated,  // the text ends inside a sequence that was valid so far
  };
  Kind kind = Kind::kInvalid;
  std::uint8_t length = 1;
  char32_t code = kReplacementCharacter;
};

// The step at byte `at`; requires at < text.size().
Utf8Step decode_utf8(std::string_view text, std::size_t at);

void append_utf8(std::string& out, char32_t code);

// Characters that begin in `utf8`.
std::int64_t character_count(std::string_view utf8);

}  // namespace saccade
