// The behaviour of Python's str, over UTF-8: what templates expect of strip, split, title and the
// rest. All texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saccade::jinja {

// str.isspace of one character: also what \s means in Python's re.
bool is_space(char32_t code);
bool is_printable(char32_t code);
// May continue (or start) an identifier.
bool is_identifier_part(char32_t code);
bool is_identifier_start(char32_t code);

// Byte position of the character at `index`; text.size() at or past the end.
std::size_t byte_of(std::string_view text, std::int64_t index);

// Without `chars`: white space.
std::string_view strip(std::string_view text, std::optional<std::string_view> chars, bool left,
                       bool right);

// At most `limit` cuts when it is not negative. Pieces lie in `text`.
std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    std::int64_t limit);
std::vector<std::string_view> rsplit(std::string_view text, std::string_view separator,
                                     std::int64_t limit);
std::vector<std::string_view> split_space(std::string_view text, std::int64_t limit);
std::vector<std::string_view> rsplit_space(std::string_view text, std::int64_t limit);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// Occurrences that do not overlap; one more than the characters for an empty `what`.
std::int64_t count_of(std::string_view text, std::string_view what);
// The first `limit` occurrences (all when negative). The caller bounds the size.
std::string replace(std::string_view text, std::string_view what, std::string_view with,
                    std::int64_t limit);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string swap_case(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);

// str.isalpha and its kin: false for an empty text.
enum class Trait {
  kAlnum,
  kAlpha,
  kAscii,
  kDecimal,
  kDigit,
  kIdentifier,
  kLower,
  kNumeric,
  kPrintable,
  kSpace,
  kTitle,
  kUpper,
};
bool has_trait(std::string_view text, Trait trait);

// The number that Python's float() reads: spaces around, underscores between digits, inf and nan.
std::optional<double> parse_float(std::string_view text);

}  // namespace saccade::jinja
