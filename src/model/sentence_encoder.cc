#include "model/sentence_encoder.h"

namespace saccade {

std::vector<TokenId> SentenceEncoder::tokenize(const Tokenizer& tokenizer, std::string_view text,
                                               bool add_special_tokens) const {
  return tokenizer.encode(text, {.add_special_tokens = add_special_tokens});
}

void SentenceEncoder::truncate(const Tokenizer& tokenizer, std::vector<TokenId>& ids,
                               std::int64_t most) const {
  if (static_cast<std::int64_t>(ids.size()) <= most) return;
  const TokenId last = ids.back();
  ids.resize(static_cast<std::size_t>(most));
  if (most > 0 && tokenizer.is_special(last)) ids.back() = last;
}

}  // namespace saccade
