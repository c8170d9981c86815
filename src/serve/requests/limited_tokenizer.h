// A tokenizer for one prompt: stops where a text has more tokens than the model takes, or where the
// client has gone, so that no text holds a worker for long.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/encode_limit.h"

namespace saccade::serve {

// One thread. After the first text that is too long every encode() gives nothing, at once.
class LimitedTokenizer final : public Tokenizer {
 public:
  // `max_tokens`: of one encode(). All references outlive it.
  LimitedTokenizer(const Tokenizer& inner, std::int64_t max_tokens,
                   const std::atomic<bool>* cancelled)
      : inner_(inner), max_tokens_(max_tokens), cancelled_(cancelled) {}

  // kInvalid with both numbers where a text was too long, kCancelled where the client had gone.
  // What was made of this tokenizer's answers is then of no use.
  Result<void> check() const;

  std::vector<TokenId> encode(std::string_view utf8, const EncodeOptions& options) const override;
  std::string_view piece(TokenId id) const override { return inner_.piece(id); }
  std::string decode(const std::vector<TokenId>& ids, bool skip_special) const override {
    return inner_.decode(ids, skip_special);
  }
  std::optional<TokenId> token_to_id(std::string_view token) const override {
    return inner_.token_to_id(token);
  }
  bool is_special(TokenId id) const override { return inner_.is_special(id); }
  std::int32_t vocab_size() const override { return inner_.vocab_size(); }
  std::size_t longest_piece_bytes() const override { return inner_.longest_piece_bytes(); }
  void decode_next(TokenId id, DecodeState& state, std::string& out) const override {
    inner_.decode_next(id, state, out);
  }
  void decode_end(DecodeState& state, std::string& out) const override {
    inner_.decode_end(state, out);
  }

 private:
  const Tokenizer& inner_;
  std::int64_t max_tokens_;
  const std::atomic<bool>* cancelled_;
  mutable EncodeLimit ended_;  // of the encode() that stopped
};

}  // namespace saccade::serve
