// Base64 (RFC 4648, the standard alphabet with padding).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade {

std::string base64_encode(std::string_view bytes);

// Exactly what base64_encode can write and nothing else: no blanks, no missing padding, no stray
// bits. kInvalid with the offset of what is wrong.
Result<std::string> base64_decode(std::string_view text);

// What clients write besides (WHATWG's forgiving-base64): white space anywhere, padding or none,
// bits over that are dropped; and the URL-safe alphabet, and a URL's percent-escapes. kInvalid with
// the character and its offset in `text`.
Result<std::string> base64_decode_forgiving(std::string_view text);

// Whether a data URL's part before the comma ("data:image/png;base64") says that base64 follows: in
// any case, with blanks around it.
bool says_base64(std::string_view head);

// An upper bound for the bytes in `text`, at most 2 over.
constexpr std::size_t base64_decoded_bound(std::string_view text) {
  return (text.size() + 3) / 4 * 3;
}

}  // namespace saccade
