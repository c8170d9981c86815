// Byte pair encoding: adjacent symbols merge in the order of their rank until none can.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/models/token_model.h"
#include "text/models/token_table.h"

namespace saccade {

struct BpeOptions {
  // Pieces arrive as bytes, while the vocabulary writes bytes as characters (byte_alphabet.h).
  bool byte_level = false;
  bool ignore_merges = false;  // a piece that is itself a token stays whole
  bool byte_fallback = false;  // an unknown character becomes the tokens "<0xE2>" of its bytes
  bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  std::string unknown_token;   // empty: unknown characters are dropped
  // Written around symbols that do not start, and that end, a piece. Not with byte_level.
  std::string continuing_prefix;
  std::string end_suffix;
};

class Bpe final : public TokenModel {
 public:
  using Merge = std::pair<std::string_view, std::string_view>;

  // Merges in rank order; later ones replace earlier ones of the same pair. kInvalid: a merge
  // whose parts or whole, or an unknown token, is not in the vocabulary.
  static Result<std::unique_ptr<Bpe>> build(std::shared_ptr<const TokenTable> vocabulary,
                                            const std::vector<Merge>& merges, BpeOptions options);

  void tokenize(std::string_view piece, bool begins_text, std::vector<TokenId>& out) const override;
  std::size_t max_bytes_per_token() const override;

 private:
  // A pair of symbols to what they become: open addressing, at most half full.
  class PairTable {
   public:
    struct Entry {
      std::uint64_t pair = kNone;
      std::uint32_t rank = kNoRank;
      TokenId merged = -1;
    };
    explicit PairTable(std::size_t count);
    void set(TokenId left, TokenId right, std::uint32_t rank, TokenId merged);
    // rank is kNoRank when the pair does not merge.
    Entry find(TokenId left, TokenId right) const;

   private:
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    std::size_t slot_of(std::uint64_t pair) const;
    std::vector<Entry> entries_;
  };
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  // What a piece's smallest part starts as.
  struct Symbol {
    enum class Kind : std::uint8_t { kToken, kBytes, kUnknown };
    Kind kind = Kind::kUnknown;
    std::vector<TokenId> ids;  // one, or the tokens of the bytes
  };

  Bpe(std::shared_ptr<const TokenTable> vocabulary, BpeOptions options, std::size_t merge_count);
  Result<void> add_merges(const std::vector<Merge>& merges);
  Symbol symbol_of(std::string_view character) const;
  void split_bytes(std::string_view piece, std::vector<TokenId>& symbols) const;
  void split_characters(std::string_view piece, std::vector<TokenId>& symbols) const;
  void split_and_merge(std::string_view piece, std::vector<TokenId>& out) const;
  // Merge in place; how many symbols are left.
  std::size_t merge_short(std::span<TokenId> symbols) const;
  std::size_t merge_long(std::span<TokenId> symbols) const;
  bool stays_whole(TokenId id, std::string_view piece) const;

  BpeOptions options_;
  std::shared_ptr<const TokenTable> words_;  // tokens as pieces spell them: bytes if byte_level
  std::shared_ptr<const TokenTable> vocabulary_;
  TokenId unknown_ = -1;
  std::array<Symbol, 256> byte_symbols_;  // byte_level
  std::array<TokenId, 256> byte_tokens_;  // "<0x00>".. with byte_fallback, -1 where there is none
  bool plain_bytes_ = false;              // every byte is a token of its own
  PairTable pairs_;

  // Whether merging a token's own text gives back that token: not known yet, yes or no, by id.
  // Found out when first asked; whoever asks finds the same.
  enum Whole : std::uint8_t { kNotKnown, kWhole, kInParts };
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;
};

}  // namespace saccade
