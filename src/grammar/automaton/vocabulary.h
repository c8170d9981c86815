// The tokens of a tokenizer as bytes, in a trie that a mask is walked over.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace saccade::grammar {

// Nodes of the trie in preorder: the subtree of node i is [i, end(i)). Immutable; any thread.
class Vocabulary {
 public:
  // `size`: columns of the logits; ids from there on are left out. `end_tokens`: what may follow a
  // complete text. Special tokens and those that stand for no bytes are never allowed.
  Vocabulary(const Tokenizer& tokenizer, std::int32_t size, std::vector<TokenId> end_tokens);
  // From the bytes by id; empty: never allowed.
  Vocabulary(const std::vector<std::string>& pieces, std::vector<TokenId> end_tokens);

  struct TrieNode {
    std::uint32_t end = 0;  // past the last node below
    std::uint32_t first_token =
        0;                    // of tokens(); those at this node end where the next one's begin
    std::uint16_t depth = 0;  // bytes from the root, 1 and more
    std::uint8_t byte = 0;
  };
  std::span<const TrieNode> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  // Tokens that end at this node.
  std::span<const TokenId> tokens_at(std::uint32_t node) const {
    return std::span(tokens_).subspan(nodes_[node].first_token,
                                      nodes_[node + 1].first_token - nodes_[node].first_token);
  }
  // An edge of the trie below its first level.
  struct Link {
    std::uint32_t parent = 0;
    std::uint32_t node = 0;
  };
  // All that have this byte, by their parents.
  std::span<const Link> links(std::uint8_t byte) const {
    return std::span(links_).subspan(link_begin_[byte],
                                     link_begin_[std::size_t{byte} + 1] - link_begin_[byte]);
  }
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  bool is_end(TokenId token) const;
  // Tokens of JSON's white space alone.
  std::span<const TokenId> blank_tokens() const { return blank_tokens_; }
  // Empty: never allowed.
  std::string_view piece(TokenId token) const;
  std::int32_t size() const { return static_cast<std::int32_t>(offsets_.size()) - 1; }
  std::size_t words() const { return (static_cast<std::size_t>(size()) + 31) / 32; }
  std::size_t longest() const { return longest_; }

 private:
  void build();
  void link();
  std::string bytes_;                   // all pieces, one after another
  std::vector<std::uint32_t> offsets_;  // by id
  std::vector<TokenId> end_tokens_;
  std::vector<TokenId> blank_tokens_;
  std::vector<TrieNode> nodes_;  // and one past the last
  std::vector<TokenId> tokens_;  // by their bytes
  std::vector<Link> links_;      // by byte, then by parent
  std::array<std::uint32_t, 257> link_begin_{};
  std::size_t longest_ = 0;
};

}  // namespace saccade::grammar
