// What follows a backslash in a pattern.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"

namespace saccade::grammar {

struct CharacterEscape {
  enum class Kind : std::uint8_t { kCharacters, kWordBoundary, kBackReference };
  Kind kind = Kind::kCharacters;
  std::vector<CharacterRange> ranges;  // normalized
};

// The escape whose backslash is at `at`, which moves past it: \d \w \s \D \W \S (ECMAScript's
// sets),
// \n \r \t \f \v \0, \a and \e, \xHH, \uHHHH and pairs of these, \u{H...}, \UHHHHHHHH, and any
// character that is not a letter or digit as itself. kUnsupported: \p and other letters.
Result<CharacterEscape> take_character_escape(std::string_view text, std::size_t& at);

}  // namespace saccade::grammar
