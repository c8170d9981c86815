// Unigram language model: the cut of a piece whose tokens have the best total score.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/models/token_model.h"
#include "text/models/token_table.h"

namespace saccade {

class Unigram final : public TokenModel {
 public:
  // scores[id] for each token of the vocabulary. Unknown characters become `unknown`, or with
  // byte_fallback the tokens "<0xE2>" of their bytes; without `unknown` they are dropped.
  static Result<std::unique_ptr<Unigram>> build(std::shared_ptr<const TokenTable> vocabulary,
                                                std::vector<double> scores,
                                                std::optional<TokenId> unknown, bool byte_fallback);

  void tokenize(std::string_view piece, bool begins_text, std::vector<TokenId>& out) const override;
  std::size_t max_bytes_per_token() const override;

 private:
  // A trie over the bytes of all tokens. The children of a node lie next to each other.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint16_t children = 0;
    unsigned char label = 0;
    TokenId id = -1;
  };
  void build_trie();
  const Node* child(const Node& node, unsigned char label) const;
  void append_tokens(std::string_view text, std::vector<TokenId>& out) const;

  std::shared_ptr<const TokenTable> vocabulary_;
  std::vector<double> scores_;
  std::optional<TokenId> unknown_;
  double unknown_score_ = 0;
  std::array<TokenId, 256> byte_tokens_{};
  bool byte_fallback_ = false;
  std::vector<Node> nodes_;  // the root first
};

}  // namespace saccade
