// How the numbers of a row are written: enough to see which are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace saccade::cluster {

// Numbers of `bytes` bytes whose exponent, all ones, means infinity or NaN: 2 and 0x7f80
// (bfloat16), 2 and 0x7c00 (float16), 4 and 0x7f800000 (float32).
struct RowFormat {
  std::size_t bytes = 4;
  std::uint32_t exponent = 0x7f800000;
};

namespace row_format_detail {
template <typename Word>
bool all_finite(std::span<const std::byte> bytes, Word exponent) {
  bool finite = true;
  for (std::size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, &bytes[at], sizeof word);
    finite &= static_cast<Word>(word & exponent) != exponent;
  }
  return finite;
}
}  // namespace row_format_detail

inline bool all_finite(std::span<const std::byte> bytes, RowFormat format) {
  return format.bytes == 4 ? row_format_detail::all_finite<std::uint32_t>(bytes, format.exponent)
                           : row_format_detail::all_finite<std::uint16_t>(
                                 bytes, static_cast<std::uint16_t>(format.exponent));
}

}  // namespace saccade::cluster
