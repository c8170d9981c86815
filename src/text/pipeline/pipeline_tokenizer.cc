#include "text/pipeline/pipeline_tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/patterns/regex_effort.h"
#include "text/unicode/unicode.h"

namespace saccade {

Result<std::unique_ptr<Tokenizer>> PipelineTokenizer::make(Parts parts) {
  std::unique_ptr<PipelineTokenizer> tokenizer(new PipelineTokenizer(std::move(parts)));
  TRY_DO(tokenizer->fill_pieces());
  tokenizer->find_bounds();
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

void PipelineTokenizer::find_bounds() {
  piece_a_token_ = static_cast<double>(parts_.model->max_bytes_per_token());
  const bool keeps_all = parts_.pre_tokenizer == nullptr || parts_.pre_tokenizer->keeps_all();
  if (!keeps_all) return;
  normalised_a_token_ = piece_a_token_;
  // Tokens that are looked for in normalised text may be longer than any of the model.
  for (TokenId id = 0; id < vocab_size(); ++id) {
    const AddedToken* added = parts_.added.token(id);
    if (added != nullptr && added->normalized) return;
  }
  given_a_token_ =
      normalised_a_token_ * (parts_.normalizer == nullptr ? 1 : parts_.normalizer->shrink());
}

class PipelineTokenizer::Progress {
 public:
  explicit Progress(EncodeLimit& limit) : limit_(limit) {}
  std::vector<TokenId> ids;

  // Whether to stop before `bytes` more, of which a token takes at most `a_token` (0: not known).
  bool stops(std::size_t bytes, double a_token) {
    if (limit_.stopped) return true;
    std::size_t least = ids.size();
    if (a_token > 0) least += static_cast<std::size_t>(static_cast<double>(bytes) / a_token);
    if (least > limit_.max_tokens) {
      limit_.at_least = least;
      limit_.stopped = true;
    } else if (limit_.cancelled != nullptr && *limit_.cancelled) {
      limit_.stopped = true;
    }
    return limit_.stopped;
  }
  // The same for a piece of which a model has to be asked.
  bool stops(std::string_view piece, const TokenModel& model) {
    const std::size_t rest = limit_.max_tokens - std::min(ids.size(), limit_.max_tokens);
    if (!limit_.stopped && model.has_more_than(rest, piece, limit_.cancelled)) {
      limit_.at_least = limit_.max_tokens + 1;
      limit_.stopped = true;
    }
    return stops(0, 0);
  }
  bool stopped() const { return limit_.stopped; }

 private:
  EncodeLimit& limit_;
};

std::vector<TokenId> PipelineTokenizer::encode_within(std::string_view utf8,
                                                      const EncodeOptions& options,
                                                      EncodeLimit& limit) const {
  Progress progress(limit);
  std::string repaired;
  if (!is_valid_utf8(utf8)) {
    append_valid_utf8(repaired, utf8, true);
    utf8 = repaired;
  }
  const RegexEffort effort(RegexEffort::for_text(utf8.size()));
  std::vector<AddedTokens::Segment> segments;
  parts_.added.split_given(utf8, options.parse_special_tokens, segments);
  for (const auto& segment : segments) {
    if (progress.stopped()) return {};
    if (segment.id >= 0) {
      progress.ids.push_back(segment.id);
    } else {
      const bool begins_text = segment.text.data() == utf8.data();
      encode_segment(segment.text, begins_text, options.parse_special_tokens, progress);
    }
  }
  parts_.post_processor.apply(progress.ids, options.add_special_tokens);
  if (progress.stops(0, 0)) return {};
  return std::move(progress.ids);
}

// A stretch without tokens that are looked for in the text as given.
void PipelineTokenizer::encode_segment(std::string_view text, bool begins_text, bool parse_special,
                                       Progress& progress) const {
  if (progress.stops(text.size(), given_a_token_)) return;
  std::string normalized;
  if (parts_.normalizer != nullptr) {
    normalized = text;
    if (parts_.normalizer->apply(normalized)) begins_text = false;
    text = normalized;
  }
  std::vector<AddedTokens::Segment> segments;
  parts_.added.split_normalized(text, parse_special, segments);
  for (const auto& segment : segments) {
    if (progress.stopped()) return;
    if (segment.id >= 0) {
      progress.ids.push_back(segment.id);
    } else {
      encode_pieces(segment.text, begins_text && segment.text.data() == text.data(), progress);
    }
  }
}

// A stretch of normalised text without any tokens that are looked for.
void PipelineTokenizer::encode_pieces(std::string_view text, bool begins_text,
                                      Progress& progress) const {
  if (progress.stops(text.size(), normalised_a_token_)) return;
  Pieces pieces;
  pieces.views.assign(1, text);
  pieces.begins_text = begins_text;
  if (parts_.pre_tokenizer != nullptr) parts_.pre_tokenizer->split(pieces);
  for (const std::string_view piece : pieces.views) {
    if (progress.stops(piece.size(), piece_a_token_)) return;
    if (piece_a_token_ == 0 && progress.stops(piece, *parts_.model)) return;
    parts_.model->tokenize(piece, pieces.begins_text, progress.ids);
    pieces.begins_text = false;
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
