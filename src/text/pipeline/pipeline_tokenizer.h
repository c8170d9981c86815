// The tokenizer of a tokenizer.json: added tokens, normaliser, pre-tokeniser, model,
// post-processor, decoder, one after another.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/encode_limit.h"
#include "text/models/token_model.h"
#include "text/models/token_table.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/decoder.h"
#include "text/pipeline/normalizer.h"
#include "text/pipeline/post_processor.h"
#include "text/pipeline/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace saccade {

class PipelineTokenizer final : public StoppableTokenizer {
 public:
  struct Parts {
    std::shared_ptr<const TokenTable> vocabulary;
    AddedTokens added;
    std::unique_ptr<Normalizer> normalizer;       // may be null
    std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
    std::unique_ptr<TokenModel> model;
    PostProcessor post_processor;
    Decoder decoder;
  };
  // kTooLarge: tokens that decode to more than kMaxPieceBytes together.
  static Result<std::unique_ptr<Tokenizer>> make(Parts parts);
  static constexpr std::size_t kMaxPieceBytes = std::size_t{512} << 20;

  std::vector<TokenId> encode_within(std::string_view utf8, const EncodeOptions& options,
                                     EncodeLimit& limit) const override;
  std::string_view piece(TokenId id) const override;
  std::string decode(const std::vector<TokenId>& ids, bool skip_special_tokens) const override;
  std::optional<TokenId> token_to_id(std::string_view token) const override;
  bool is_special(TokenId id) const override;
  std::int32_t vocab_size() const override;
  std::size_t longest_piece_bytes() const override { return longest_piece_bytes_; }
  void decode_next(TokenId id, DecodeState& state, std::string& out) const override;
  void decode_end(DecodeState& state, std::string& out) const override;

 private:
  struct Piece {
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    bool exists = false;
    bool byte = false;  // from a token like "<0x0A>"
    bool special = false;
  };
  explicit PipelineTokenizer(Parts parts) : parts_(std::move(parts)) {}
  Result<void> fill_pieces();
  std::string_view token(TokenId id) const;
  // What encode() goes on with, and when it has to stop.
  class Progress;
  void find_bounds();
  void encode_segment(std::string_view text, bool begins_text, bool parse_special,
                      Progress& progress) const;
  void encode_pieces(std::string_view text, bool begins_text, Progress& progress) const;

  Parts parts_;
  std::string piece_bytes_;    // all pieces, one after another
  std::vector<Piece> pieces_;  // by id
  std::size_t longest_piece_bytes_ = 0;
  // Most bytes that a token stands for, so that a text's size says how many tokens it has at least;
  // 0: not known. Of a text as given, of one that is normalised, of a piece.
  double given_a_token_ = 0;
  double normalised_a_token_ = 0;
  double piece_a_token_ = 0;
};

}  // namespace saccade
