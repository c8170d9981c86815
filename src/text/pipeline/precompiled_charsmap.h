// SentencePiece's normalisation rules as its models carry them: a trie over bytes and the strings
// it leads to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade {

// Immutable; any thread.
class PrecompiledCharsmap {
 public:
  // The `precompiled_charsmap` of a tokenizer.json, in base 64.
  static Result<PrecompiledCharsmap> parse(std::string_view base64);

  // `text` (valid UTF-8) with each grapheme, or else each of its characters, replaced where there
  // is a rule. As the reference does it: the shortest rule that begins a short grapheme replaces
  // all of it.
  std::string apply(std::string_view text) const;

 private:
  // The replacement for what begins with a rule's left side; null when none does.
  const char* find(std::string_view text) const;

  std::vector<std::uint32_t> trie_;  // a double array, in the layout of darts-clone
  std::string replacements_;         // each ends with a zero byte
};

}  // namespace saccade
