// Tokenising that can be ended: where a text is too long, or nobody waits for it any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace saccade {

struct EncodeLimit {
  std::size_t max_tokens = std::numeric_limits<std::size_t>::max();
  const std::atomic<bool>* cancelled = nullptr;
  // Afterwards: it has stopped early, and what it gave is of no use. The text has at least
  // `at_least` tokens, which is above max_tokens; 0 where it was cancelled.
  bool stopped = false;
  std::size_t at_least = 0;
};

// What load_tokenizer() gives. Any thread.
class StoppableTokenizer : public Tokenizer {
 public:
  // As encode(), and stops as early as it is certain that there are too many tokens: never for a
  // text that has no more than are allowed.
  virtual std::vector<TokenId> encode_within(std::string_view utf8, const EncodeOptions& options,
                                             EncodeLimit& limit) const = 0;
  std::vector<TokenId> encode(std::string_view utf8, const EncodeOptions& options) const final {
    EncodeLimit none;
    return encode_within(utf8, options, none);
  }
};

}  // namespace saccade
