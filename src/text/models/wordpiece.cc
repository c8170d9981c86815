#include "text/models/wordpiece.h"

#include <utility>

#include "text/unicode/unicode.h"

namespace saccade {

Result<std::unique_ptr<WordPiece>> WordPiece::build(std::shared_ptr<const TokenTable> vocabulary,
                                                    WordPieceOptions options) {
  const auto unknown = vocabulary->find(options.unknown_token);
  if (!unknown) {
    return fail(ErrorCode::kInvalid, "unk_token \"{}\" is not in the vocabulary",
                options.unknown_token);
  }
  auto model = std::make_unique<WordPiece>();
  model->vocabulary_ = std::move(vocabulary);
  model->options_ = std::move(options);
  model->unknown_ = *unknown;
  return model;
}

void WordPiece::tokenize(std::string_view piece, bool /*begins_text*/,
                         std::vector<TokenId>& out) const {
  std::size_t characters = 0;
  for (std::size_t at = 0; at < piece.size(); at += character_bytes(piece[at])) ++characters;
  const std::size_t before = out.size();
  const auto give_up = [&] {
    out.resize(before);
    out.push_back(unknown_);
  };
  if (characters > options_.longest_word) return give_up();

  const std::size_t longest = vocabulary_->longest_bytes();
  std::string continued;
  for (std::size_t begin = 0; begin < piece.size();) {
    std::size_t end = piece.size();
    std::optional<TokenId> found;
    for (; end > begin; end = previous_character(piece, end)) {
      if (end - begin > longest) continue;
      std::string_view candidate = piece.substr(begin, end - begin);
      if (begin > 0) {
        continued = options_.continuing_prefix;
        continued += candidate;
        candidate = continued;
      }
      found = vocabulary_->find(candidate);
      if (found) break;
    }
    if (!found) return give_up();
    out.push_back(*found);
    begin = end;
  }
}

}  // namespace saccade
