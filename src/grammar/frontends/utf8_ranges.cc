#include "grammar/frontends/utf8_ranges.h"

#include <algorithm>

namespace saccade::grammar {
namespace {

struct Encoded {
  std::array<std::uint8_t, 4> bytes{};
  int length = 0;
};

Encoded encode(char32_t code) {
  const auto tail = [&](int shift) {
    return static_cast<std::uint8_t>(0x80 | ((code >> shift) & 0x3F));
  };
  if (code < 0x80) return {{static_cast<std::uint8_t>(code)}, 1};
  if (code < 0x800) return {{static_cast<std::uint8_t>(0xC0 | (code >> 6)), tail(0)}, 2};
  if (code < 0x10000) {
    return {{static_cast<std::uint8_t>(0xE0 | (code >> 12)), tail(6), tail(0)}, 3};
  }
  return {{static_cast<std::uint8_t>(0xF0 | (code >> 18)), tail(12), tail(6), tail(0)}, 4};
}

// Cuts [first, last], all of one length, where a byte would not run through its whole range.
void add(char32_t first, char32_t last, std::vector<ByteRanges>& out) {
  for (int shift = 6; shift <= 18 && last >= 0x80; shift += 6) {
    const char32_t mask = (char32_t{1} << shift) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      add(first, first | mask, out);
      add((first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      add(first, (last & ~mask) - 1, out);
      add(last & ~mask, last, out);
      return;
    }
  }
  const Encoded from = encode(first);
  const Encoded to = encode(last);
  ByteRanges ranges;
  ranges.length = from.length;
  for (std::size_t i = 0; i < static_cast<std::size_t>(from.length); ++i) {
    ranges.at[i] = {from.bytes[i], to.bytes[i]};
  }
  out.push_back(ranges);
}

}  // namespace

std::vector<ByteRanges> utf8_ranges(const std::vector<CharacterRange>& ranges) {
  constexpr CharacterRange kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLastCharacter}};
  std::vector<ByteRanges> out;
  for (const CharacterRange& range : ranges) {
    for (const CharacterRange& length : kLengths) {
      const char32_t first = std::max(range.first, length.first);
      const char32_t last = std::min(range.last, length.last);
      if (first <= last) add(first, last, out);
    }
  }
  return out;
}

}  // namespace saccade::grammar
