// Patterns in tokenizer.json are written for Oniguruma's Ruby syntax; this rewrites one for PCRE2.
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
