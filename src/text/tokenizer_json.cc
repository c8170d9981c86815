// Reads tokenizer.json: each member becomes one part of a PipelineTokenizer.
#include <filesystem>
#include <utility>

#include "base/json.h"
#include "text/bpe.h"
#include "text/pipeline_tokenizer.h"
#include "text/tokenizer.h"

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

bool has_decorations(const json::object& model) {
  const auto prefix = json::get_string_or(model, "continuing_subword_prefix", "");
  const auto suffix = json::get_string_or(model, "end_of_word_suffix", "");
  return !prefix || !prefix->empty() || !suffix || !suffix->empty();
}

Result<std::unique_ptr<Tokenizer>> build_tokenizer(const json::value& root,
                                                   const json::value* extra_added_tokens) {
  if (!root.is_object()) {
    return fail(ErrorCode::kInvalid, "it is {}, an object is required", json::kind_name(root));
  }
  const json::object& file = root.get_object();
  const json::value* model = json::find(file, "model");
  if (model == nullptr || !model->is_object()) {
    return fail(ErrorCode::kInvalid, "'model' must be an object");
  }
  const json::object& model_object = model->get_object();
  TRY(const std::string type, json::get_string_or(model_object, "type", "BPE"));
  if (type != "BPE") {
    return fail(ErrorCode::kUnsupported, "model {}: this type is not supported", type);
  }

  PipelineTokenizer::Parts parts;
  if (const json::value* normalizer = json::find(file, "normalizer")) {
    TRY(parts.normalizer, parse_normalizer(*normalizer));
  }
  const json::value* pre_tokenizer = json::find(file, "pre_tokenizer");
  const bool byte_level = ends_in_byte_level(pre_tokenizer) && !has_decorations(model_object);
  if (pre_tokenizer != nullptr) {
    TRY(parts.pre_tokenizer, parse_pre_tokenizer(*pre_tokenizer, {byte_level}));
  }
  TRY(parts.vocabulary, parse_vocabulary(model_object));
  TRY(parts.model, parse_bpe(model_object, parts.vocabulary, byte_level));

  std::vector<AddedTokenEntry> added;
  if (const json::value* from = json::find(file, "added_tokens")) {
    TRY(added, parse_added_tokens(*from));
  }
  if (extra_added_tokens != nullptr) {
    TRY(std::vector<AddedTokenEntry> extra, parse_added_tokens_decoder(*extra_added_tokens));
    added.insert(added.end(), extra.begin(), extra.end());
  }
  TRY(parts.added, AddedTokens::build(added, *parts.vocabulary, parts.normalizer.get()));
  if (const json::value* from = json::find(file, "post_processor")) {
    TRY(parts.post_processor, PostProcessor::parse(*from));
  }
  TRY(parts.decoder, Decoder::parse(json::find(file, "decoder")));
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view tokenizer_json) {
  TRY(const json::value root, json::parse(tokenizer_json));
  return build_tokenizer(root, nullptr);
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  const std::string config_path = directory + "/tokenizer_config.json";
  TRY(const json::value root, json::parse_file(path));
  json::value config;
  std::error_code code;
  if (std::filesystem::exists(config_path, code)) {
    TRY(config, json::parse_file(config_path));
  }
  const json::value* extra =
      config.is_object() ? json::find(config.get_object(), "added_tokens_decoder") : nullptr;
  auto tokenizer = build_tokenizer(root, extra);
  if (!tokenizer) return fail_within(path, std::move(tokenizer).error());
  return tokenizer;
}

}  // namespace saccade
