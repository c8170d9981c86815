#include "model/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/unicode/unicode.h"

namespace saccade {
namespace {

// tokenizer.ggml.token_type, which are SentencePiece's.
enum TokenType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// How texts are cut before byte-level BPE, by tokenizer.ggml.pre: what the tokenizer.json of the
// models that are converted under that name says.
struct PreTokenizer {
  std::string_view name;
  std::string_view pattern;    // empty: GPT-2's
  bool single_digits = false;  // every digit by itself, before the pattern
  bool ignore_merges = false;  // a piece that is a token stays one
  bool composes = false;       // NFC first
};
constexpr std::string_view kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen2's, where marks go with letters.
constexpr std::string_view kQwen35Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::array kPreTokenizers = {
    PreTokenizer{.name = "qwen2", .pattern = kQwen2Split, .composes = true},
    PreTokenizer{.name = "qwen35", .pattern = kQwen35Split, .composes = true},
    PreTokenizer{.name = "llama-bpe", .pattern = kLlama3, .ignore_merges = true},
    PreTokenizer{.name = "llama3", .pattern = kLlama3, .ignore_merges = true},
    PreTokenizer{.name = "llama-v3", .pattern = kLlama3, .ignore_merges = true},
    PreTokenizer{.name = "smollm", .pattern = "", .single_digits = true},
    PreTokenizer{.name = "tekken", .pattern = kTekken, .ignore_merges = true},
    PreTokenizer{.name = "gpt-2", .pattern = ""},
};

Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name) {
  std::string known;
  for (const PreTokenizer& each : kPreTokenizers) {
    if (each.name == name) return &each;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
  }
  return fail(ErrorCode::kUnsupported,
              "tokenizer.ggml.pre is \"{}\"; {} are read. --tokenizer takes a folder with the "
              "model's own tokenizer.json",
              name, known);
}

struct Vocabulary {
  std::span<const std::string_view> tokens;
  std::vector<std::int64_t> types;  // [tokens]
};

Result<Vocabulary> read_vocabulary(const GgufMetadata& metadata) {
  Vocabulary vocabulary;
  TRY(vocabulary.tokens, metadata.get_strings("tokenizer.ggml.tokens"));
  TRY(vocabulary.types, metadata.get_ints("tokenizer.ggml.token_type"));
  if (vocabulary.tokens.empty())
    return fail(ErrorCode::kInvalid, "tokenizer.ggml.tokens is missing");
  if (vocabulary.types.empty()) vocabulary.types.assign(vocabulary.tokens.size(), kNormal);
  if (vocabulary.types.size() != vocabulary.tokens.size())
    return fail(ErrorCode::kCorrupt, "tokenizer.ggml.token_type has {} elements for {} tokens",
                vocabulary.types.size(), vocabulary.tokens.size());
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] < kNormal || vocabulary.types[id] > kByte)
      return fail(ErrorCode::kCorrupt, "token {} is of type {}, types are {} to {}", id,
                  vocabulary.types[id], std::int64_t{kNormal}, std::int64_t{kByte});
    if (!is_valid_utf8(vocabulary.tokens[id]))
      return fail(ErrorCode::kCorrupt, "token {} is not valid UTF-8", id);
  }
  return vocabulary;
}

json::string text(std::string_view from) { return json::string(from.data(), from.size()); }

// The token that `key` names by its id; nothing where there is no such key.
Result<std::optional<std::size_t>> gguf_token(const GgufMetadata& metadata, const char* key,
                                              const Vocabulary& vocabulary) {
  if (!metadata.has(key)) return std::optional<std::size_t>();
  TRY(const std::int64_t id, metadata.get_int(key));
  if (id < 0 || static_cast<std::size_t>(id) >= vocabulary.tokens.size())
    return fail(ErrorCode::kCorrupt, "{} is {}, there are {} tokens", key, id,
                vocabulary.tokens.size());
  return std::optional<std::size_t>(static_cast<std::size_t>(id));
}

json::value byte_level(bool splits) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", splits}};
}

json::value pre_tokenizer_of(const PreTokenizer& from) {
  json::array steps;
  if (from.single_digits)
    steps.emplace_back(json::object{{"type", "Digits"}, {"individual_digits", true}});
  if (!from.pattern.empty())
    steps.emplace_back(json::object{{"type", "Split"},
                                    {"pattern", {{"Regex", text(from.pattern)}}},
                                    {"behavior", "Isolated"},
                                    {"invert", false}});
  steps.push_back(byte_level(from.pattern.empty()));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

// Special tokens that every text begins and ends with.
Result<json::value> post_processor_of(const GgufMetadata& metadata, const Vocabulary& vocabulary) {
  json::array parts;
  json::object tokens;
  const auto add = [&](const char* flag, const char* key) -> Result<void> {
    TRY(const bool adds, metadata.get_bool_or(flag, false));
    TRY(const auto id, gguf_token(metadata, key, vocabulary));
    if (!adds || !id) return {};
    parts.emplace_back(json::object{{"SpecialToken", {{"id", key}, {"type_id", 0}}}});
    tokens[key] = {{"id", key},
                   {"ids", json::array{*id}},
                   {"tokens", json::array{text(vocabulary.tokens[*id])}}};
    return {};
  };
  TRY_DO(add("tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id"));
  parts.emplace_back(json::object{{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  TRY_DO(add("tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id"));
  if (tokens.empty()) return byte_level(true);
  return json::object{{"type", "TemplateProcessing"},
                      {"single", std::move(parts)},
                      {"pair", json::array()},
                      {"special_tokens", std::move(tokens)}};
}

Result<std::string> tokenizer_json(const GgufMetadata& metadata, const Vocabulary& vocabulary) {
  TRY(const std::string_view name, metadata.get_string_or("tokenizer.ggml.pre", "gpt-2"));
  TRY(const PreTokenizer* pre, find_pre_tokenizer(name));
  TRY(const auto merges, metadata.get_strings("tokenizer.ggml.merges"));
  json::object words;
  json::array added;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::int64_t type = vocabulary.types[id];
    if (type == kUnused) continue;  // a row of the embedding that no text reaches
    if (type == kNormal || type == kByte) {
      words[vocabulary.tokens[id]] = id;
      continue;
    }
    added.emplace_back(json::object{{"id", id},
                                    {"content", text(vocabulary.tokens[id])},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", type != kUserDefined}});
  }
  json::array pairs;
  pairs.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    if (!is_valid_utf8(merges[i]))
      return fail(ErrorCode::kCorrupt, "merge {} is not valid UTF-8", i);
    pairs.emplace_back(text(merges[i]));
  }
  json::object root;
  if (pre->composes) root["normalizer"] = {{"type", "NFC"}};
  root["added_tokens"] = std::move(added);
  root["pre_tokenizer"] = pre_tokenizer_of(*pre);
  TRY(root["post_processor"], post_processor_of(metadata, vocabulary));
  root["decoder"] = byte_level(true);
  root["model"] = {{"type", "BPE"},
                   {"ignore_merges", pre->ignore_merges},
                   {"vocab", std::move(words)},
                   {"merges", std::move(pairs)}};
  return boost::json::serialize(root);
}

// A protocol buffer, field by field.
class Message {
 public:
  void number(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
  }
  void bytes(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    text_ += value;
  }
  void real(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) text_ += static_cast<char>(bits >> shift);
  }
  const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) text_ += static_cast<char>(value | 128);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

// The ModelProto of SentencePiece's sentencepiece_model.proto.
Result<std::string> tokenizer_model(const GgufMetadata& metadata, const Vocabulary& vocabulary) {
  constexpr std::uint64_t kBpe = 2;
  TRY(const std::vector<double> scores, metadata.get_doubles("tokenizer.ggml.scores"));
  if (scores.size() != vocabulary.tokens.size())
    return fail(ErrorCode::kCorrupt, "tokenizer.ggml.scores has {} elements for {} tokens",
                scores.size(), vocabulary.tokens.size());
  Message model;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    Message piece;
    piece.bytes(1, vocabulary.tokens[id]);
    piece.real(2, static_cast<float>(scores[id]));
    piece.number(3, static_cast<std::uint64_t>(vocabulary.types[id]));
    model.bytes(1, piece.text());
  }
  Message trainer;
  trainer.number(3, kBpe);
  trainer.number(35, std::ranges::find(vocabulary.types, kByte) != vocabulary.types.end() ? 1 : 0);
  struct Special {
    const char* key;
    int id_field;
    int piece_field;
  };
  for (const auto& [key, id_field, piece_field] :
       {Special{"tokenizer.ggml.unknown_token_id", 40, 45},
        {"tokenizer.ggml.bos_token_id", 41, 46},
        {"tokenizer.ggml.eos_token_id", 42, 47},
        {"tokenizer.ggml.padding_token_id", 43, 48}}) {
    TRY(const auto id, gguf_token(metadata, key, vocabulary));
    if (!id) continue;
    trainer.number(id_field, *id);
    trainer.bytes(piece_field, vocabulary.tokens[*id]);
  }
  model.bytes(2, trainer.text());
  TRY(const bool prefix, metadata.get_bool_or("tokenizer.ggml.add_space_prefix", true));
  TRY(const bool squeezes, metadata.get_bool_or("tokenizer.ggml.remove_extra_whitespaces", false));
  Message normalizer;
  normalizer.bytes(1, "identity");
  normalizer.number(3, prefix ? 1 : 0);
  normalizer.number(4, squeezes ? 1 : 0);
  normalizer.number(5, 1);
  model.bytes(3, normalizer.text());
  return model.text();
}

Result<std::string> tokenizer_config(const GgufMetadata& metadata, const Vocabulary& vocabulary,
                                     bool adds_bos) {
  json::object config;
  TRY(const std::string_view source, metadata.get_string_or("tokenizer.chat_template", ""));
  if (!is_valid_utf8(source))
    return fail(ErrorCode::kCorrupt, "tokenizer.chat_template is not valid UTF-8");
  if (!source.empty()) config["chat_template"] = text(source);
  for (const auto& [key, name] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token"},
                                  {"tokenizer.ggml.eos_token_id", "eos_token"},
                                  {"tokenizer.ggml.unknown_token_id", "unk_token"},
                                  {"tokenizer.ggml.padding_token_id", "pad_token"}}) {
    TRY(const auto id, gguf_token(metadata, key, vocabulary));
    if (id) config[name] = text(vocabulary.tokens[*id]);
  }
  TRY(config["add_bos_token"], metadata.get_bool_or("tokenizer.ggml.add_bos_token", adds_bos));
  TRY(config["add_eos_token"], metadata.get_bool_or("tokenizer.ggml.add_eos_token", false));
  return boost::json::serialize(config);
}

}  // namespace

Result<NamedFiles::Texts> read_gguf_tokenizer(const GgufMetadata& metadata) {
  NamedFiles::Texts files;
  TRY(const std::string_view model, metadata.get_string_or("tokenizer.ggml.model", "none"));
  if (model == "none" || model == "no_vocab") return files;  // --tokenizer has one
  TRY(const Vocabulary vocabulary, read_vocabulary(metadata));
  if (model == "gpt2") {
    TRY(files["tokenizer.json"], tokenizer_json(metadata, vocabulary));
  } else if (model == "llama") {
    TRY(files["tokenizer.model"], tokenizer_model(metadata, vocabulary));
  } else {
    return fail(ErrorCode::kUnsupported,
                "tokenizer.ggml.model is \"{}\"; gpt2 (byte-level BPE) and llama (SentencePiece) "
                "are read",
                model);
  }
  TRY(files["tokenizer_config.json"], tokenizer_config(metadata, vocabulary, model == "llama"));
  return files;
}

}  // namespace saccade
