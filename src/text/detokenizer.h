// The per-request half of decoding: tokens in, text that is certainly complete out. One thread.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace saccade {

// Holds back bytes of an unfinished UTF-8 sequence. The joined outputs of push() and finish() equal
// Tokenizer::decode of all the tokens, for any way of cutting them.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}
  // Text completed by this token; often empty in the middle of a character.
  std::string push(TokenId id);
  // What is left at the end: an unfinished sequence becomes U+FFFD.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  DecodeState state_;
};

}  // namespace saccade
