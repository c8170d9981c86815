// Finds a checkpoint's tokenizer files: tokenizer.json, tokenizer.model, or vocab.json with
// merges.txt.
#include <algorithm>
#include <utility>

#include "base/json.h"
#include "text/pipeline/tokenizer_json.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/tokenizer.h"

namespace saccade {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// tokenizer_config.json; empty when there is none.
Result<json::object> read_config(const NamedFiles& files) {
  constexpr std::string_view kName = "tokenizer_config.json";
  if (!files.has(kName)) return json::object();
  TRY(json::value config, files.parse(kName));
  if (!config.is_object()) {
    return fail(ErrorCode::kInvalid, "{}: it is {}, an object is required", files.path(kName),
                json::kind_name(config));
  }
  return std::move(config.get_object());
}

// added_tokens_decoder of the config, then what only added_tokens.json has.
Result<std::vector<AddedTokenEntry>> read_added_tokens(const NamedFiles& files,
                                                       const json::object& config) {
  std::vector<AddedTokenEntry> entries;
  if (const json::value* decoder = json::find(config, "added_tokens_decoder")) {
    TRY(entries, parse_added_tokens_decoder(*decoder));
  }
  constexpr std::string_view kName = "added_tokens.json";
  if (!files.has(kName)) return entries;
  TRY(const json::value file, files.parse(kName));
  if (!file.is_object())
    return fail(ErrorCode::kInvalid, "{}: an object is required", files.path(kName));
  std::vector<AddedTokenEntry> more;
  for (const auto& [content, id] : file.get_object()) {
    AddedTokenEntry entry;
    entry.token.content = std::string(content.data(), content.size());
    entry.token.normalized = false;
    TRY(entry.id, json::get_int(file.get_object(), entry.token.content));
    const bool known = std::any_of(entries.begin(), entries.end(), [&](const auto& other) {
      return other.token.content == entry.token.content;
    });
    if (!known) more.push_back(std::move(entry));
  }
  std::sort(more.begin(), more.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  entries.insert(entries.end(), more.begin(), more.end());
  return entries;
}

// The tokenizer.json that vocab.json and merges.txt stand for.
Result<json::value> tree_of_vocabulary_files(const NamedFiles& files, const json::object& config) {
  TRY(const std::string type, json::get_string_or(config, "tokenizer_class", ""));
  const bool qwen2 = type == "Qwen2Tokenizer" || type == "Qwen2TokenizerFast";
  if (!qwen2 && type != "GPT2Tokenizer" && type != "GPT2TokenizerFast") {
    return fail(ErrorCode::kUnsupported,
                "{}: vocab.json and merges.txt are read for Qwen2Tokenizer and GPT2Tokenizer, "
                "tokenizer_class is \"{}\"; a tokenizer.json is needed",
                files.place(), type);
  }
  TRY(const bool prefix, json::get_bool_or(config, "add_prefix_space", false));
  TRY(json::value vocab, files.parse("vocab.json"));
  TRY(const std::string lines, files.read("merges.txt", kMaxFileBytes));
  json::array merges;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    std::string_view line = std::string_view(lines).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) merges.emplace_back(json::string(line.data(), line.size()));
    begin = end + 1;
  }

  const json::value byte_level = {{"type", "ByteLevel"},
                                  {"add_prefix_space", prefix && !qwen2},
                                  {"trim_offsets", false},
                                  {"use_regex", !qwen2}};
  json::value pre_tokenizer = byte_level;
  if (qwen2) {
    const json::value split = {{"type", "Split"},
                               {"pattern", {{"Regex", kQwen2Pattern}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
    pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", json::array{split, byte_level}}};
  }
  json::object root;
  if (qwen2) root["normalizer"] = {{"type", "NFC"}};
  root["pre_tokenizer"] = std::move(pre_tokenizer);
  root["decoder"] = byte_level;
  root["model"] = {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}};
  return root;
}

Result<std::unique_ptr<Tokenizer>> load_sentencepiece(const NamedFiles& files,
                                                      const json::object& config,
                                                      const std::vector<AddedTokenEntry>& added) {
  TRY(const std::string model, files.read("tokenizer.model", kMaxFileBytes));
  SentencePieceOptions options;
  TRY(options.add_bos, json::get_bool_or(config, "add_bos_token", true));
  TRY(options.add_eos, json::get_bool_or(config, "add_eos_token", false));
  TRY(options.prefix_after_special, json::get_bool_or(config, "legacy", true));
  return make_sentencepiece_tokenizer(model, added, options);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const NamedFiles& files) {
  TRY(const json::object config, read_config(files));
  std::string file = files.path("tokenizer.json");
  auto tokenizer = [&]() -> Result<std::unique_ptr<Tokenizer>> {
    if (files.has("tokenizer.json")) {
      std::vector<AddedTokenEntry> extra;
      if (const json::value* decoder = json::find(config, "added_tokens_decoder")) {
        TRY(extra, parse_added_tokens_decoder(*decoder));
      }
      TRY(const json::value root, files.parse("tokenizer.json"));
      return build_tokenizer(root, extra);
    }
    TRY(const std::vector<AddedTokenEntry> added, read_added_tokens(files, config));
    if (files.has("tokenizer.model")) {
      file = files.path("tokenizer.model");
      return load_sentencepiece(files, config, added);
    }
    if (files.has("vocab.json") && files.has("merges.txt")) {
      file = files.path("vocab.json");
      TRY(const json::value root, tree_of_vocabulary_files(files, config));
      return build_tokenizer(root, added);
    }
    file = files.place();
    return fail(ErrorCode::kNotFound,
                "there is no tokenizer.json, tokenizer.model, or vocab.json with merges.txt");
  }();
  if (!tokenizer && !tokenizer.error().message.starts_with(file)) {
    return fail_within(file, std::move(tokenizer).error());
  }
  return tokenizer;
}

}  // namespace saccade
