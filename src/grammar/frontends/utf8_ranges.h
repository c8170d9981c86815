// Ranges of code points as sequences of byte ranges: what a byte automaton can follow.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "grammar/grammar.h"

namespace saccade::grammar {

struct ByteRange {
  std::uint8_t first = 0;
  std::uint8_t last = 0;
};

// One byte range after another, `length` (1 to 4) of them; every choice of bytes within them is the
// UTF-8 of a character.
struct ByteRanges {
  std::array<ByteRange, 4> at{};
  int length = 0;
};

// The UTF-8 of the characters of `ranges` (normalized), and nothing else.
std::vector<ByteRanges> utf8_ranges(const std::vector<CharacterRange>& ranges);

}  // namespace saccade::grammar
