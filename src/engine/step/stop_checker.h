// From tokens to text that may be shown, and the one place that decides when an answer ends:
// end-of-sequence and stop tokens, stop strings across token boundaries, lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "text/detokenizer.h"

namespace saccade {

// One sequence, one thread.
class StopChecker {
 public:
  // max_length: of prompt and answer together, tokens. The tokenizer may be null: no text then, and
  // no stop strings.
  StopChecker(const SamplingParams& params, const Tokenizer* tokenizer, std::vector<TokenId> eos,
              std::int64_t prompt_tokens, std::int64_t max_length);

  // Takes the next token. Delta: its text as far as it is certain that no stop string begins in it,
  // and how the answer ended if it did.
  Delta push(TokenId token);

 private:
  bool ends_by_token(TokenId token, Delta& delta) const;
  bool ends_by_string(Delta& delta);
  void release_text(Delta& delta, bool all);

  SamplingParams params_;
  std::vector<TokenId> eos_;
  std::int64_t prompt_tokens_;
  std::int64_t max_length_;
  std::optional<Detokenizer> detokenizer_;
  std::int64_t generated_ = 0;
  std::size_t longest_stop_ = 0;   // bytes
  std::string text_;               // shown text's end and everything after it
  std::size_t shown_ = 0;          // bytes of text_ that have been given out
  std::size_t searched_from_ = 0;  // a stop string must end after this
};

}  // namespace saccade
