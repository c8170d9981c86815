// The part of a tokenizer that turns one piece of text into tokens: BPE, Unigram or WordPiece.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace saccade {

// Immutable; any thread.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of `piece`, which is not empty. `begins_text`: the input begins with it.
  virtual void tokenize(std::string_view piece, bool begins_text,
                        std::vector<TokenId>& out) const = 0;
  // Most bytes of a piece that one token can stand for. 0: any number, as where unknown characters
  // are dropped or become one token together.
  virtual std::size_t max_bytes_per_token() const { return 0; }
  // Where that is not known: whether `piece` has certainly more than `most` tokens, found in slices
  // of it, so that little of a long text is tokenised and held; false also where `cancelled`.
  virtual bool has_more_than(std::size_t, std::string_view, const std::atomic<bool>*) const {
    return false;
  }
};

}  // namespace saccade
