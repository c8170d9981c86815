#include "text/pipeline_tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace saccade {

Result<std::unique_ptr<Tokenizer>> PipelineTokenizer::make(Parts parts) {
  std::unique_ptr<PipelineTokenizer> tokenizer(new PipelineTokenizer(std::move(parts)));
  TRY_DO(tokenizer->fill_pieces());
  return tokenizer;
}

Result<void> PipelineTokenizer::fill_pieces() {
  const TokenId end = std::max(parts_.vocabulary->end_id(), parts_.added.end_id());
  pieces_.resize(static_cast<std::size_t>(end));
  for (TokenId id = 0; id < end; ++id) {
    const bool added = parts_.added.token(id) != nullptr;
    if (!added && !parts_.vocabulary->contains(id)) continue;
    const std::string_view written = token(id);
    const std::string bytes = parts_.decoder.piece(written, false);
    pieces_[static_cast<std::size_t>(id)] = {
        static_cast<std::uint32_t>(piece_bytes_.size()), static_cast<std::uint32_t>(bytes.size()),
        true, parts_.decoder.byte_of(written) >= 0, parts_.added.is_special(written)};
    piece_bytes_ += bytes;
    longest_piece_bytes_ = std::max(longest_piece_bytes_, bytes.size());
    if (piece_bytes_.size() > kMaxPieceBytes) {
      return fail(ErrorCode::kTooLarge, "the tokens decode to over {} bytes", kMaxPieceBytes);
    }
  }
  return {};
}

std::string_view PipelineTokenizer::token(TokenId id) const {
  const AddedToken* added = parts_.added.token(id);
  return added != nullptr ? std::string_view(added->content) : parts_.vocabulary->token(id);
}

std::vector<TokenId> PipelineTokenizer::encode(std::string_view utf8,
                                               const EncodeOptions& options) const {
  std::string repaired;
  if (!is_valid_utf8(utf8)) {
    append_valid_utf8(repaired, utf8, true);
    utf8 = repaired;
  }
  std::vector<TokenId> ids;
  ids.reserve(utf8.size() / 3);
  std::vector<AddedTokens::Segment> segments;
  parts_.added.split_given(utf8, options.parse_special_tokens, segments);
  for (const auto& segment : segments) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
    } else {
      const bool begins_text = segment.text.data() == utf8.data();
      encode_segment(segment.text, begins_text, options.parse_special_tokens, ids);
    }
  }
  parts_.post_processor.apply(ids, options.add_special_tokens);
  return ids;
}

// A stretch without tokens that are looked for in the text as given.
void PipelineTokenizer::encode_segment(std::string_view text, bool begins_text, bool parse_special,
                                       std::vector<TokenId>& out) const {
  std::string normalized;
  if (parts_.normalizer != nullptr) {
    normalized = text;
    if (parts_.normalizer->apply(normalized)) begins_text = false;
    text = normalized;
  }
  std::vector<AddedTokens::Segment> segments;
  parts_.added.split_normalized(text, parse_special, segments);
  Pieces pieces;
  for (const auto& segment : segments) {
    if (segment.id >= 0) {
      out.push_back(segment.id);
      continue;
    }
    pieces.views.assign(1, segment.text);
    pieces.made.clear();
    pieces.begins_text = begins_text && segment.text.data() == text.data();
    if (parts_.pre_tokenizer != nullptr) parts_.pre_tokenizer->split(pieces);
    for (const std::string_view piece : pieces.views) {
      parts_.model->tokenize(piece, pieces.begins_text, out);
      pieces.begins_text = false;
    }
  }
}

std::string_view PipelineTokenizer::piece(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const Piece& place = pieces_[static_cast<std::size_t>(id)];
  return std::string_view(piece_bytes_).substr(place.offset, place.length);
}

std::string PipelineTokenizer::decode(const std::vector<TokenId>& ids,
                                      bool skip_special_tokens) const {
  std::string text;
  DecodeState state;
  for (const TokenId id : ids) {
    if (!skip_special_tokens || !is_special(id)) decode_next(id, state, text);
  }
  decode_end(state, text);
  return text;
}

void PipelineTokenizer::decode_next(TokenId id, DecodeState& state, std::string& out) const {
  if (id < 0 || id >= vocab_size()) return;
  const Piece& place = pieces_[static_cast<std::size_t>(id)];
  if (!place.exists) return;
  if (state.first && parts_.decoder.first_differs()) {
    parts_.decoder.append(parts_.decoder.piece(token(id), true), place.byte, state, out);
  } else {
    parts_.decoder.append(piece(id), place.byte, state, out);
  }
}

void PipelineTokenizer::decode_end(DecodeState& state, std::string& out) const {
  parts_.decoder.finish(state, out);
}

std::optional<TokenId> PipelineTokenizer::token_to_id(std::string_view token) const {
  if (const auto id = parts_.added.find(token)) return id;
  return parts_.vocabulary->find(token);
}

bool PipelineTokenizer::is_special(TokenId id) const {
  return id >= 0 && id < vocab_size() && pieces_[static_cast<std::size_t>(id)].special;
}

std::int32_t PipelineTokenizer::vocab_size() const {
  return static_cast<std::int32_t>(pieces_.size());
}

}  // namespace saccade
