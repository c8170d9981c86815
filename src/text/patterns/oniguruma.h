// Patterns in tokenizer.json are written for Oniguruma's Ruby syntax; this rewrites one for PCRE2.
// libonig itself takes 3.4 times PCRE2's time, since it has no JIT (6.9.8, Qwen2's pattern over
// docs/: 26 MB/s for 88), and knows the characters of its own Unicode alone (of Debian 12: 14,
// where a letter of Unicode 15 is none), while tokenizers have those of the reference everywhere.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade {

// A pattern that PCRE2 with UTF, UCP and MULTILINE matches as Oniguruma matches `pattern`: its own
// meaning of \s, \w, \h, \v, (?m), {n,m}+, {,m}, class intersections, properties and scripts.
// All groups become non-capturing. Properties cover what PCRE2 knows; with `newer_characters` also
// all of Unicode 16, at some cost in speed. kInvalid: not well-formed. kUnsupported: a construct
// that is not translated (back references, \X, absence operators, ...), by name.
Result<std::string> pcre2_from_oniguruma(std::string_view pattern, bool newer_characters = false);

}  // namespace saccade
