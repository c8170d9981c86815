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

// An upper bound for the bytes in `text`, at most 2 over.
constexpr std::size_t base64_decoded_bound(std::string_view text) {
  return (text.size() + 3) / 4 * 3;
}

}  // namespace saccade
