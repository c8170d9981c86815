// A tokenizer for tests: token 32 to 126 is that character, 0 is the special token "<end>", 1 and 2
// are the two bytes of "é"; anything else has no text.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace saccade {

class LetterTokenizer final : public Tokenizer {
 public:
  LetterTokenizer() : pieces_(128) {
    pieces_[0] = "<end>";
    pieces_[1] = "\xC3";
    pieces_[2] = "\xA9";
    for (char letter = 32; letter < 127; ++letter) {
      pieces_[static_cast<std::size_t>(letter)] = std::string(1, letter);
    }
  }
  std::vector<TokenId> encode(std::string_view utf8, const EncodeOptions&) const override {
    return {utf8.begin(), utf8.end()};
  }
  std::string_view piece(TokenId id) const override {
    return id >= 0 && id < vocab_size() ? std::string_view(pieces_[static_cast<std::size_t>(id)])
                                        : std::string_view();
  }
  std::string decode(const std::vector<TokenId>& ids, bool skip_special_tokens) const override {
    std::string text;
    for (const TokenId id : ids) {
      if (!skip_special_tokens || !is_special(id)) text += piece(id);
    }
    return text;
  }
  std::optional<TokenId> token_to_id(std::string_view token) const override {
    for (std::size_t id = 0; id < pieces_.size(); ++id) {
      if (pieces_[id] == token) return static_cast<TokenId>(id);
    }
    return std::nullopt;
  }
  bool is_special(TokenId id) const override { return id == 0; }
  std::int32_t vocab_size() const override { return 128; }
  std::size_t longest_piece_bytes() const override { return 5; }

 private:
  std::vector<std::string> pieces_;
};

}  // namespace saccade
