#include "text/detokenizer.h"

#include "text/unicode/unicode.h"

namespace saccade {

std::string Detokenizer::push(TokenId id) {
  std::string text;
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return text;
  tokenizer_.decode_next(id, state_, text);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  tokenizer_.decode_end(state_, text);
  return text;
}

void Tokenizer::decode_next(TokenId id, DecodeState& state, std::string& out) const {
  state.held += piece(id);
  const std::size_t kept = append_valid_utf8(out, state.held, false);
  state.held.erase(0, state.held.size() - kept);
  state.first = false;
}

void Tokenizer::decode_end(DecodeState& state, std::string& out) const {
  append_valid_utf8(out, state.held, true);
  state.held.clear();
}

}  // namespace saccade
