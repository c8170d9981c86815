// Proposes how a text goes on that repeats itself: as it did the last time that the same few tokens
// came, the longest of them that have come before (prompt lookup, n-gram speculation). Rejected
// tokens cost time and nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/prompts/prompt.h"

namespace saccade {

// Of one sequence. Pure; one thread. Reading a token and proposing cost O(longest) each, whatever
// the text's length; memory is at most 32 bytes a token and length of n-gram.
class PromptLookup {
 public:
  // n-grams of `longest` tokens are looked for first, then shorter ones down to `shortest`, at
  // least 1.
  PromptLookup(std::int64_t shortest, std::int64_t longest)
      : shortest_(shortest), longest_(longest) {}

  // What `tokens` begins with has been read before, as far as it was given then.
  void read(std::span<const TokenId> tokens);
  // The `most` tokens that would follow `tokens`, which have been read, if they went on as after
  // the latest earlier place where they end alike; a place so near that the text between is shorter
  // than that is gone round again. False: there is no such place, and `draft` is empty.
  bool propose(std::span<const TokenId> tokens, std::int64_t most,
               std::vector<TokenId>& draft) const;

 private:
  // An n-gram of the text, by hash, and where its latest occurrence ends; 0: an empty place.
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t end = 0;
  };
  std::size_t slot_of(std::uint32_t hash) const;  // where it is or belongs; there are slots
  void insert(std::uint32_t hash, std::int32_t end);
  std::int32_t find(std::uint32_t hash) const;
  void grow();

  std::int64_t shortest_;
  std::int64_t longest_;
  std::int64_t read_ = 0;    // n-grams that end at or before it are in the table
  std::size_t used_ = 0;     // slots
  std::vector<Slot> slots_;  // a power of two of them, at most half used
};

}  // namespace saccade
