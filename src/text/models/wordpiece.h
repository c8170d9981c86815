// WordPiece: the longest token that begins a word, then the longest that continues it, and so on.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/models/token_model.h"
#include "text/models/token_table.h"

namespace saccade {

struct WordPieceOptions {
  std::string unknown_token = "[UNK]";  // for a word that cannot be made of tokens, or is too long
  std::string continuing_prefix = "##";
  std::size_t longest_word = 100;  // characters
};

class WordPiece final : public TokenModel {
 public:
  // kInvalid: the unknown token is not in the vocabulary.
  static Result<std::unique_ptr<WordPiece>> build(std::shared_ptr<const TokenTable> vocabulary,
                                                  WordPieceOptions options);
  void tokenize(std::string_view piece, bool begins_text, std::vector<TokenId>& out) const override;

 private:
  std::shared_ptr<const TokenTable> vocabulary_;
  WordPieceOptions options_;
  TokenId unknown_ = -1;
};

// Whole words only.
class WordLevel final : public TokenModel {
 public:
  WordLevel(std::shared_ptr<const TokenTable> vocabulary, TokenId unknown)
      : vocabulary_(std::move(vocabulary)), unknown_(unknown) {}
  void tokenize(std::string_view piece, bool /*begins_text*/,
                std::vector<TokenId>& out) const override {
    out.push_back(vocabulary_->find(piece).value_or(unknown_));
  }

 private:
  std::shared_ptr<const TokenTable> vocabulary_;
  TokenId unknown_;
};

}  // namespace saccade
