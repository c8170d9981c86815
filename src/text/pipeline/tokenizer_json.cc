#include "text/pipeline/tokenizer_json.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/models/bpe.h"
#include "text/models/unigram.h"
#include "text/models/wordpiece.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace saccade {
namespace {

Result<std::shared_ptr<const TokenTable>> parse_vocabulary(const json::object& model) {
  const json::value* from = json::find(model, "vocab");
  if (from == nullptr || !from->is_object()) {
    return fail(ErrorCode::kInvalid, "'vocab' must be an object");
  }
  auto table = std::make_shared<TokenTable>();
  for (const auto& [token, id] : from->get_object()) {
    if (!id.is_int64()) {
      return fail(ErrorCode::kInvalid, "'vocab' has {} as the id of \"{}\"", json::kind_name(id),
                  std::string_view(token.data(), token.size()).substr(0, 80));
    }
    TRY_DO(table->add(id.get_int64(), std::string_view(token.data(), token.size())));
  }
  return table;
}

// Either "a b" or ["a", "b"].
Result<std::vector<Bpe::Merge>> parse_merges(const json::object& model) {
  const json::value* from = json::find(model, "merges");
  if (from == nullptr || !from->is_array()) {
    return fail(ErrorCode::kInvalid, "'merges' must be an array");
  }
  std::vector<Bpe::Merge> merges;
  merges.reserve(from->get_array().size());
  for (const json::value& item : from->get_array()) {
    if (item.is_string()) {
      const std::string_view text = item.get_string();
      if (text.starts_with("#version")) continue;
      const std::size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
        return fail(ErrorCode::kInvalid, "merge {} is \"{}\", two tokens with a space are required",
                    merges.size(), text.substr(0, 80));
      }
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
      continue;
    }
    const bool pair = item.is_array() && item.get_array().size() == 2 &&
                      item.get_array()[0].is_string() && item.get_array()[1].is_string();
    if (!pair) {
      return fail(ErrorCode::kInvalid, "merge {} is neither a string nor a pair of strings",
                  merges.size());
    }
    merges.emplace_back(item.get_array()[0].get_string(), item.get_array()[1].get_string());
  }
  return merges;
}

Result<std::unique_ptr<TokenModel>> parse_bpe(const json::object& model,
                                              std::shared_ptr<const TokenTable> vocabulary,
                                              bool byte_level) {
  BpeOptions options;
  options.byte_level = byte_level;
  TRY(options.ignore_merges, json::get_bool_or(model, "ignore_merges", false));
  TRY(options.byte_fallback, json::get_bool_or(model, "byte_fallback", false));
  TRY(options.fuse_unknown, json::get_bool_or(model, "fuse_unk", false));
  TRY(options.unknown_token, json::get_string_or(model, "unk_token", ""));
  TRY(options.continuing_prefix, json::get_string_or(model, "continuing_subword_prefix", ""));
  TRY(options.end_suffix, json::get_string_or(model, "end_of_word_suffix", ""));
  TRY(const std::vector<Bpe::Merge> merges, parse_merges(model));
  TRY(auto bpe, Bpe::build(std::move(vocabulary), merges, std::move(options)));
  return bpe;
}

// Whether the model can take bytes themselves where the vocabulary writes them as characters.
bool is_plain_bpe(const json::object& model) {
  const auto type = json::get_string_or(model, "type", "BPE");
  if (!type || *type != "BPE") return false;
  const auto prefix = json::get_string_or(model, "continuing_subword_prefix", "");
  const auto suffix = json::get_string_or(model, "end_of_word_suffix", "");
  return prefix && prefix->empty() && suffix && suffix->empty();
}

// "vocab": [["token", score], ...], ids in order.
struct Scored {
  std::shared_ptr<const TokenTable> vocabulary;
  std::vector<double> scores;
};

Result<Scored> parse_scored_vocabulary(const json::object& model) {
  const json::value* from = json::find(model, "vocab");
  if (from == nullptr || !from->is_array()) {
    return fail(ErrorCode::kInvalid, "'vocab' must be an array");
  }
  auto table = std::make_shared<TokenTable>();
  Scored result;
  for (const json::value& item : from->get_array()) {
    const auto id = static_cast<std::int64_t>(result.scores.size());
    const json::array* pair = item.is_array() ? &item.get_array() : nullptr;
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() ||
        !(*pair)[1].is_number()) {
      return fail(ErrorCode::kInvalid, "'vocab' has something else than [token, score] at {}", id);
    }
    TRY_DO(table->add(id, std::string_view((*pair)[0].get_string())));
    result.scores.push_back((*pair)[1].to_number<double>());
  }
  result.vocabulary = std::move(table);
  return result;
}

Result<std::unique_ptr<TokenModel>> parse_unigram(const json::object& model, Scored scored) {
  TRY(const bool byte_fallback, json::get_bool_or(model, "byte_fallback", false));
  std::optional<TokenId> unknown;
  if (json::find(model, "unk_id")) {
    TRY(const std::int64_t id, json::get_int(model, "unk_id"));
    if (id < 0 || id > TokenTable::kMaxId) {
      return fail(ErrorCode::kInvalid, "unk_id is {}, allowed is 0 to {}", id, TokenTable::kMaxId);
    }
    unknown = static_cast<TokenId>(id);
  }
  TRY(auto unigram, Unigram::build(std::move(scored.vocabulary), std::move(scored.scores), unknown,
                                   byte_fallback));
  return unigram;
}

Result<std::unique_ptr<TokenModel>> parse_wordpiece(const json::object& model,
                                                    std::shared_ptr<const TokenTable> vocabulary) {
  WordPieceOptions options;
  TRY(options.unknown_token, json::get_string(model, "unk_token"));
  TRY(options.continuing_prefix, json::get_string(model, "continuing_subword_prefix"));
  TRY(const std::int64_t longest, json::get_int(model, "max_input_chars_per_word"));
  if (longest < 0) {
    return fail(ErrorCode::kInvalid, "max_input_chars_per_word is {}, 0 is the least", longest);
  }
  options.longest_word = static_cast<std::size_t>(longest);
  TRY(auto wordpiece, WordPiece::build(std::move(vocabulary), std::move(options)));
  return wordpiece;
}

Result<std::unique_ptr<TokenModel>> parse_word_level(const json::object& model,
                                                     std::shared_ptr<const TokenTable> vocabulary) {
  TRY(const std::string unknown, json::get_string(model, "unk_token"));
  const auto id = vocabulary->find(unknown);
  if (!id) return fail(ErrorCode::kInvalid, "unk_token \"{}\" is not in the vocabulary", unknown);
  return std::make_unique<WordLevel>(std::move(vocabulary), *id);
}

// Fills in the vocabulary and the model.
Result<void> parse_model(const json::object& model, bool byte_level,
                         PipelineTokenizer::Parts& parts) {
  TRY(const std::string type, json::get_string_or(model, "type", "BPE"));
  if (type == "Unigram") {
    TRY(Scored scored, parse_scored_vocabulary(model));
    parts.vocabulary = scored.vocabulary;
    TRY(parts.model, parse_unigram(model, std::move(scored)));
    return {};
  }
  if (type != "BPE" && type != "WordPiece" && type != "WordLevel") {
    return fail(ErrorCode::kUnsupported, "this type is not supported");
  }
  TRY(parts.vocabulary, parse_vocabulary(model));
  if (type == "BPE") {
    TRY(parts.model, parse_bpe(model, parts.vocabulary, byte_level));
  } else if (type == "WordPiece") {
    TRY(parts.model, parse_wordpiece(model, parts.vocabulary));
  } else {
    TRY(parts.model, parse_word_level(model, parts.vocabulary));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> build_tokenizer(const json::value& root,
                                                   const std::vector<AddedTokenEntry>& extra) {
  if (!root.is_object()) {
    return fail(ErrorCode::kInvalid, "it is {}, an object is required", json::kind_name(root));
  }
  const json::object& file = root.get_object();
  const json::value* model = json::find(file, "model");
  if (model == nullptr || !model->is_object()) {
    return fail(ErrorCode::kInvalid, "'model' must be an object");
  }
  const json::object& model_object = model->get_object();
  PipelineTokenizer::Parts parts;
  if (const json::value* normalizer = json::find(file, "normalizer")) {
    TRY(parts.normalizer, parse_normalizer(*normalizer));
  }
  const json::value* pre_tokenizer = json::find(file, "pre_tokenizer");
  const bool byte_level = ends_in_byte_level(pre_tokenizer) && is_plain_bpe(model_object);
  if (pre_tokenizer != nullptr) {
    TRY(parts.pre_tokenizer, parse_pre_tokenizer(*pre_tokenizer, {byte_level}));
  }
  if (auto parsed = parse_model(model_object, byte_level, parts); !parsed) {
    const auto type = json::get_string_or(model_object, "type", "BPE");
    return fail_within("model " + type.value_or(""), std::move(parsed).error());
  }

  std::vector<AddedTokenEntry> added;
  if (const json::value* from = json::find(file, "added_tokens")) {
    TRY(added, parse_added_tokens(*from));
  }
  added.insert(added.end(), extra.begin(), extra.end());
  TRY(parts.added, AddedTokens::build(added, *parts.vocabulary, parts.normalizer.get()));
  if (const json::value* from = json::find(file, "post_processor")) {
    TRY(parts.post_processor, PostProcessor::parse(*from));
  }
  TRY(parts.decoder, Decoder::parse(json::find(file, "decoder")));
  return PipelineTokenizer::make(std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view tokenizer_json) {
  TRY(const json::value root, json::parse(tokenizer_json));
  return build_tokenizer(root, {});
}

}  // namespace saccade
