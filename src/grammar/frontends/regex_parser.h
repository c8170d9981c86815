// Regular expressions as grammar expressions.
//
// Taken: literals, . [...] [^...] ( ) (?: ) (?<name> ) | * + ? {m} {m,} {m,n} and their lazy forms,
// \d \w \s and their negations (ECMAScript's sets), \n \r \t \f \v \0 \xHH \uHHHH \u{H...}, and ^
// and $ at the ends of the whole or of an alternative of it. Refused by name: back-references,
// look-around, inline flags, possessive and atomic forms, \b, \p{...}, anchors elsewhere.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/grammar.h"

namespace saccade::grammar {

struct RegexOptions {
  // JSON Schema's: without ^ or $ anything may come before or after. Else the whole text must
  // match, and ^ and $ say nothing.
  bool search = false;
  // The text is matched as it stands between the quotes of a JSON string, with its escapes.
  bool json_string = false;
};

// kInvalid and kUnsupported name the construct and its byte offset; kTooLarge: over 64 KiB.
Result<NodeId> parse_regex(Grammar& grammar, std::string_view pattern,
                           const RegexOptions& options = {});

// A character of `ranges` (normalized) as it may stand in a JSON string: raw where it can be, else
// by its short escape, or by \u00XX.
NodeId json_string_character(Grammar& grammar, const std::vector<CharacterRange>& ranges);

}  // namespace saccade::grammar
