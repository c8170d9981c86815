#include "text/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "text/models/token_model.h"
#include "text/models/token_table.h"
#include "text/pipeline/decoder.h"
#include "text/pipeline/pipeline_tokenizer.h"
#include "text/unicode/unicode.h"

namespace saccade {
namespace {

constexpr std::string_view kPieceSpace = "\u2581";

// The wire form of normalizer_spec { add_dummy_prefix: false }. Put after a model, it overrides
// what the model says: later fields of a protocol buffer win.
constexpr std::string_view kNoDummyPrefix("\x1A\x02\x18\x00", 4);

using Processor = sentencepiece::SentencePieceProcessor;

Result<std::unique_ptr<Processor>> load_processor(const std::string& model) {
  auto processor = std::make_unique<Processor>();
  try {
    const auto status = processor->LoadFromSerializedProto(model);
    if (!status.ok()) {
      return fail(ErrorCode::kInvalid, "SentencePiece refuses the model: {}", status.ToString());
    }
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInvalid, "SentencePiece refuses the model: {}", error.what());
  }
  return processor;
}

std::size_t bytes_of_character(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  return end - at;
}

bool is_text(const Processor& processor, int id) {
  return !processor.IsControl(id) && !processor.IsUnknown(id) && !processor.IsByte(id);
}

class SentencePieceModel final : public TokenModel {
 public:
  // `later`: for pieces that do not begin the text; null: the same as for those that do.
  SentencePieceModel(std::unique_ptr<Processor> first, std::unique_ptr<Processor> later,
                     const TokenTable& vocabulary)
      : first_(std::move(first)), later_(std::move(later)) {
    find_sure_bytes(vocabulary);
  }
  bool has_more_than(std::size_t most, std::string_view piece,
                     const std::atomic<bool>* cancelled) const override;
  void tokenize(std::string_view piece, bool begins_text,
                std::vector<TokenId>& out) const override {
    std::vector<int> ids;
    const Processor& processor = begins_text || later_ == nullptr ? *first_ : *later_;
    const auto status = processor.Encode(piece, &ids);
    if (!status.ok()) log::warning("SentencePiece: {}", status.ToString());
    out.insert(out.end(), ids.begin(), ids.end());
  }

 private:
  void find_sure_bytes(const TokenTable& vocabulary);

  std::unique_ptr<Processor> first_;
  std::unique_ptr<Processor> later_;
  // Of each piece the bytes of characters that are pieces by themselves, and so in no text part of
  // an unknown token, of which one may stand for any number of bytes. Empty: nothing is sure.
  std::vector<std::size_t> sure_bytes_;
  std::size_t longest_ = 1;  // bytes of a piece
};

void SentencePieceModel::find_sure_bytes(const TokenTable& vocabulary) {
  const auto stands_alone = [&](std::string_view character) {
    const auto id = vocabulary.find(character);
    return id && is_text(*first_, *id);
  };
  std::string probe;
  std::vector<std::size_t> sure(static_cast<std::size_t>(first_->GetPieceSize()));
  for (int id = 0; id < first_->GetPieceSize(); ++id) {
    const std::string_view piece = first_->IdToPiece(id);
    longest_ = std::max(longest_, piece.size());
    if (!is_text(*first_, id)) continue;
    for (std::size_t at = 0, bytes = 0; at < piece.size(); at += bytes) {
      bytes = bytes_of_character(piece, at);
      const std::string_view character = piece.substr(at, bytes);
      if (!stands_alone(character)) continue;
      sure[static_cast<std::size_t>(id)] += bytes;
      if (probe.size() < 64 && bytes == 1) probe += character;
    }
  }
  // A model of whole words has unknown tokens of known characters.
  std::vector<int> ids;
  const bool encodes = first_->Encode(probe, &ids).ok();
  if (encodes && std::ranges::none_of(ids, [&](int id) { return first_->IsUnknown(id); }))
    sure_bytes_ = std::move(sure);
}

// Characters of a slice are normalised as in the whole text but near its ends, where rules and
// blanks may reach across; so a token of the whole stands for at most `longest_` of the sure bytes
// that are found in the slices.
bool SentencePieceModel::has_more_than(std::size_t most, std::string_view piece,
                                       const std::atomic<bool>* cancelled) const {
  constexpr std::size_t kSlice = 32u << 10;
  constexpr std::size_t kLongestRule = 128;  // bytes that normalisation looks at together
  if (sure_bytes_.empty() || piece.size() / longest_ <= most) return false;
  const std::size_t lost = 2 * (longest_ + kLongestRule);
  std::size_t sure = 0;
  std::vector<int> ids;
  while (!piece.empty() && (cancelled == nullptr || !*cancelled)) {
    std::size_t end = std::min(kSlice, piece.size());
    while (end < piece.size() && (piece[end] & 0xC0) == 0x80) ++end;
    if (!first_->Encode(piece.substr(0, end), &ids).ok()) return false;
    piece.remove_prefix(end);
    std::size_t found = 0;
    for (const int id : ids) found += sure_bytes_[static_cast<std::size_t>(id)];
    sure += found - std::min(found, lost);
    if (sure / longest_ > most) return true;
  }
  return false;
}

// As tokenizer.json files made from such models have it.
Result<Decoder> make_decoder(bool strips_space) {
  std::string text =
      R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": ")" +
      std::string(kPieceSpace) +
      R"("}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"})";
  if (strips_space) text += R"(, {"type": "Strip", "content": " ", "start": 1, "stop": 0})";
  TRY(const json::value tree, json::parse(text + "]}"));
  return Decoder::parse(&tree);
}

Result<PostProcessor> make_post_processor(const Processor& processor,
                                          const SentencePieceOptions& options) {
  std::string parts, names;
  const auto add = [&](int id, std::string_view name) {
    parts +=
        fmt::format(R"({}{{"SpecialToken": {{"id": "{}"}}}})", parts.empty() ? "" : ", ", name);
    names += fmt::format(R"({}"{}": {{"ids": [{}]}})", names.empty() ? "" : ", ", name, id);
  };
  if (options.add_bos && processor.bos_id() >= 0) add(processor.bos_id(), "bos");
  parts += parts.empty() ? "" : ", ";
  parts += R"({"Sequence": {"id": "A"}})";
  if (options.add_eos && processor.eos_id() >= 0) add(processor.eos_id(), "eos");
  TRY(const json::value tree, json::parse(R"({"type": "TemplateProcessing", "single": [)" + parts +
                                          R"(], "special_tokens": {)" + names + "}}"));
  return PostProcessor::parse(tree);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_sentencepiece_tokenizer(
    const std::string& model, const std::vector<AddedTokenEntry>& added,
    const SentencePieceOptions& options) {
  TRY(std::unique_ptr<Processor> processor, load_processor(model));
  auto vocabulary = std::make_shared<TokenTable>();
  std::vector<AddedTokenEntry> tokens;
  for (int id = 0; id < processor->GetPieceSize(); ++id) {
    const std::string& piece = processor->IdToPiece(id);
    if (!is_valid_utf8(piece)) {
      return fail(ErrorCode::kInvalid, "piece {} of the model is not valid UTF-8", id);
    }
    TRY_DO(vocabulary->add(id, piece));
    if (!processor->IsControl(id) && !processor->IsUnknown(id)) continue;
    AddedTokenEntry special;
    special.id = id;
    special.token.content = piece;
    special.token.special = true;
    special.token.normalized = false;
    tokens.push_back(std::move(special));
  }
  tokens.insert(tokens.end(), added.begin(), added.end());

  std::vector<std::string> first_pieces;
  if (const auto status = processor->Encode("a", &first_pieces); !status.ok()) {
    return fail(ErrorCode::kInvalid, "SentencePiece cannot encode: {}", status.ToString());
  }
  const bool begins_with_space = !first_pieces.empty() && first_pieces[0].starts_with(kPieceSpace);

  PipelineTokenizer::Parts parts;
  parts.vocabulary = vocabulary;
  TRY(parts.added, AddedTokens::build(tokens, *vocabulary, nullptr, AddedTokens::Ids::kAsWritten));
  TRY(parts.decoder, make_decoder(begins_with_space));
  TRY(parts.post_processor, make_post_processor(*processor, options));
  std::unique_ptr<Processor> later;
  if (begins_with_space && !options.prefix_after_special) {
    TRY(later, load_processor(model + std::string(kNoDummyPrefix)));
  }
  parts.model =
      std::make_unique<SentencePieceModel>(std::move(processor), std::move(later), *vocabulary);
  return PipelineTokenizer::make(std::move(parts));
}

}  // namespace saccade
