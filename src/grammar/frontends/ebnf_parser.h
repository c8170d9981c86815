// Grammars as text: the EBNF of vLLM and xgrammar, and llama.cpp's GBNF, which differ little.
//
//   root ::= "yes" | [a-z]+ ("," item){0,3}   # a comment
//
// Rules are `name ::= alternatives`; the start is `root`. Literals "..." or '...', classes [...]
// and
// [^...], `.` for any character, ( ), |, * + ? {m} {m,} {m,n}. A rule ends where the next begins.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/grammar.h"

namespace saccade::grammar {

// kInvalid and kUnsupported say the line; kTooLarge: over 1 MiB. A rule that is used and not
// defined is found by Automaton::compile.
Result<Grammar> parse_ebnf(std::string_view text, std::string_view root = "root");

}  // namespace saccade::grammar
