#include "text/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "text/decoder.h"
#include "text/pipeline_tokenizer.h"
#include "text/token_model.h"
#include "text/token_table.h"
#include "text/unicode.h"

namespace saccade {
namespace {

constexpr std::string_view kSpace = "\u2581";

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

class SentencePieceModel final : public TokenModel {
 public:
  // `later`: for pieces that do not begin the text; null: the same as for those that do.
  SentencePieceModel(std::unique_ptr<Processor> first, std::unique_ptr<Processor> later)
      : first_(std::move(first)), later_(std::move(later)) {}
  void tokenize(std::string_view piece, bool begins_text,
                std::vector<TokenId>& out) const override {
    std::vector<int> ids;
    const Processor& processor = begins_text || later_ == nullptr ? *first_ : *later_;
    const auto status = processor.Encode(piece, &ids);
    if (!status.ok()) log::warning("SentencePiece: {}", status.ToString());
    out.insert(out.end(), ids.begin(), ids.end());
  }

 private:
  std::unique_ptr<Processor> first_;
  std::unique_ptr<Processor> later_;
};

// As tokenizer.json files made from such models have it.
Result<Decoder> make_decoder(bool strips_space) {
  std::string text =
      R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": ")" +
      std::string(kSpace) + R"("}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"})";
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
  const bool begins_with_space = !first_pieces.empty() && first_pieces[0].starts_with(kSpace);

  PipelineTokenizer::Parts parts;
  parts.vocabulary = vocabulary;
  TRY(parts.added, AddedTokens::build(tokens, *vocabulary, nullptr, AddedTokens::Ids::kAsWritten));
  TRY(parts.decoder, make_decoder(begins_with_space));
  TRY(parts.post_processor, make_post_processor(*processor, options));
  std::unique_ptr<Processor> later;
  if (begins_with_space && !options.prefix_after_special) {
    TRY(later, load_processor(model + std::string(kNoDummyPrefix)));
  }
  parts.model = std::make_unique<SentencePieceModel>(std::move(processor), std::move(later));
  return PipelineTokenizer::make(std::move(parts));
}

}  // namespace saccade
