#include "text/synthetic_tokenizer.h"

#include <map>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "text/models/token_table.h"
#include "text/unicode/byte_alphabet.h"

namespace saccade {
namespace {

// Tokens grow from these: the space that begins a word, then letters as English uses them.
constexpr std::string_view kLetters = " etaoinshrdlucmwfgypbvkjxqzTSAIWCBMHPRDLNEFGOUVJKYXQZ";
constexpr std::size_t kLongestToken = 16;

struct Letters {
  std::vector<std::string> tokens;  // of two letters or more
  std::vector<std::pair<std::string, std::string>> merges;
};

// `count` tokens, each the concatenation of two before it. Pairs are taken along the diagonals of
// the table of all pairs, so those of frequent letters come first.
Letters grow_letters(std::size_t count) {
  Letters result;
  std::vector<std::string> parts;
  for (const char letter : kLetters) parts.emplace_back(1, letter);
  std::unordered_set<std::string> seen;
  for (std::size_t diagonal = 0; result.tokens.size() < count; ++diagonal) {
    for (std::size_t i = 0; i <= diagonal && result.tokens.size() < count; ++i) {
      const std::size_t j = diagonal - i;
      if (i >= parts.size() || j >= parts.size() || parts[j].starts_with(' ')) continue;
      std::string whole = parts[i] + parts[j];
      if (whole.size() > kLongestToken || !seen.insert(whole).second) continue;
      result.merges.emplace_back(parts[i], parts[j]);
      result.tokens.push_back(whole);
      parts.push_back(std::move(whole));
    }
  }
  return result;
}

using SpecialTokens = std::map<TokenId, SpecialTokenAt>;

std::string written(std::string_view bytes) {
  std::string characters;
  append_byte_characters(characters, bytes);
  return characters;
}

// All special tokens by id: those given, and stand-ins for ids from `vocab_size` on that are not.
SpecialTokens complete(std::int64_t vocab_size, const std::vector<SpecialTokenAt>& given) {
  SpecialTokens all;
  std::set<std::string_view> texts;
  for (const SpecialTokenAt& token : given) {
    CHECK(token.id >= 0 && token.id <= TokenTable::kMaxId, "special token id {}", token.id);
    CHECK(!token.text.empty() && texts.insert(token.text).second, "special token \"{}\"",
          token.text);
    CHECK(all.emplace(token.id, token).second, "special token id {} twice", token.id);
  }
  const TokenId last = all.empty() ? -1 : all.rbegin()->first;
  for (auto id = static_cast<TokenId>(vocab_size); id < last; ++id)
    all.emplace(id, SpecialTokenAt{id, fmt::format("<|reserved_{}|>", id)});
  return all;
}

void write_model(json::JsonWriter& writer, std::int64_t vocab_size, const SpecialTokens& special) {
  const std::int64_t inside =
      std::distance(special.begin(), special.lower_bound(static_cast<TokenId>(vocab_size)));
  CHECK(vocab_size >= 256 + inside && vocab_size <= TokenTable::kMaxId,
        "vocab_size {} with {} special tokens inside", vocab_size, inside);
  const Letters letters = grow_letters(static_cast<std::size_t>(vocab_size - 256 - inside));

  writer.begin_object();
  writer.member("type", "BPE");
  writer.key("dropout");
  writer.null();
  writer.key("unk_token");
  writer.null();
  writer.key("continuing_subword_prefix");
  writer.null();
  writer.key("end_of_word_suffix");
  writer.null();
  writer.member("fuse_unk", false);
  writer.member("byte_fallback", false);
  writer.member("ignore_merges", false);
  writer.key("vocab");
  writer.begin_object();
  std::size_t next = 0;  // of the bytes and then the tokens of letters
  for (TokenId id = 0; id < vocab_size; ++id) {
    if (const auto it = special.find(id); it != special.end()) {
      writer.member(it->second.text, std::int64_t{id});
      continue;
    }
    const std::string bytes =
        next < 256 ? std::string(1, static_cast<char>(static_cast<unsigned char>(next)))
                   : letters.tokens[next - 256];
    writer.member(written(bytes), std::int64_t{id});
    ++next;
  }
  writer.end_object();
  writer.key("merges");
  writer.begin_array();
  for (const auto& [left, right] : letters.merges) {
    writer.begin_array();
    writer.value(written(left));
    writer.value(written(right));
    writer.end_array();
  }
  writer.end_array();
  writer.end_object();
}

void write_added_tokens(json::JsonWriter& writer, const SpecialTokens& special) {
  writer.begin_array();
  for (const auto& [id, token] : special) {
    writer.begin_object();
    writer.member("id", std::int64_t{id});
    writer.member("content", token.text);
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"})
      writer.member(flag, false);
    writer.member("special", token.special);
    writer.end_object();
  }
  writer.end_array();
}

void write_byte_level(json::JsonWriter& writer, bool use_regex) {
  writer.begin_object();
  writer.member("type", "ByteLevel");
  writer.member("add_prefix_space", false);
  writer.member("trim_offsets", false);
  writer.member("use_regex", use_regex);
  writer.end_object();
}

void write_pre_tokenizer(json::JsonWriter& writer, const std::string& pattern) {
  writer.begin_object();
  writer.member("type", "Sequence");
  writer.key("pretokenizers");
  writer.begin_array();
  writer.begin_object();
  writer.member("type", "Split");
  writer.key("pattern");
  writer.begin_object();
  writer.member("Regex", pattern);
  writer.end_object();
  writer.member("behavior", "Isolated");
  writer.member("invert", false);
  writer.end_object();
  write_byte_level(writer, false);
  writer.end_array();
  writer.end_object();
}

// TemplateProcessing that puts `begin` before the text, or ByteLevel, which changes nothing.
void write_post_processor(json::JsonWriter& writer, const std::string& begin,
                          const SpecialTokens& special) {
  if (begin.empty()) return write_byte_level(writer, true);
  std::int64_t begin_id = -1;
  for (const auto& [id, token] : special) {
    if (token.text == begin) begin_id = id;
  }
  CHECK(begin_id >= 0, "\"{}\" is not one of the special tokens", begin);
  const auto part = [&](const char* kind, std::string_view id, int type_id) {
    writer.begin_object();
    writer.key(kind);
    writer.begin_object();
    writer.member("id", id);
    writer.member("type_id", type_id);
    writer.end_object();
    writer.end_object();
  };
  writer.begin_object();
  writer.member("type", "TemplateProcessing");
  writer.key("single");
  writer.begin_array();
  part("SpecialToken", begin, 0);
  part("Sequence", "A", 0);
  writer.end_array();
  writer.key("pair");
  writer.begin_array();
  part("SpecialToken", begin, 0);
  part("Sequence", "A", 0);
  part("SpecialToken", begin, 1);
  part("Sequence", "B", 1);
  writer.end_array();
  writer.key("special_tokens");
  writer.begin_object();
  writer.key(begin);
  writer.begin_object();
  writer.member("id", begin);
  writer.key("ids");
  writer.begin_array();
  writer.value(begin_id);
  writer.end_array();
  writer.key("tokens");
  writer.begin_array();
  writer.value(begin);
  writer.end_array();
  writer.end_object();
  writer.end_object();
  writer.end_object();
}

// BERT's order: specials among unused places, characters, their continuations, then letters.
std::vector<std::string> word_pieces(std::size_t count) {
  std::vector<std::string> pieces = {"[PAD]"};
  while (pieces.size() < 100) pieces.push_back("[unused" + std::to_string(pieces.size() - 1) + "]");
  pieces.insert(pieces.end(), {"[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  const auto add = [&](std::string_view prefix, const std::string& text) {
    if (pieces.size() < count) pieces.push_back(std::string(prefix) + text);
  };
  for (const std::string_view prefix : {"", "##"}) {
    for (char c = '!'; c <= '~'; ++c) {
      if (c < 'A' || c > 'Z') add(prefix, std::string(1, c));
    }
  }
  std::vector<std::string> stems(1);
  for (int letters = 1; letters <= 3; ++letters) {
    std::vector<std::string> longer;
    for (const std::string& stem : stems) {
      for (char c = 'a'; c <= 'z'; ++c) longer.push_back(stem + c);
    }
    stems = std::move(longer);
    if (letters == 1) continue;
    for (const std::string& stem : stems) {
      add("", stem);
      add("##", stem);
    }
  }
  return pieces;
}

}  // namespace

std::string make_byte_level_tokenizer_json(std::int64_t vocab_size,
                                           const std::vector<SpecialTokenAt>& special_tokens,
                                           const std::string& pattern,
                                           const SyntheticTokenizerOptions& options) {
  const SpecialTokens special = complete(vocab_size, special_tokens);
  std::string out;
  json::JsonWriter writer(out);
  writer.begin_object();
  writer.member("version", "1.0");
  writer.key("truncation");
  writer.null();
  writer.key("padding");
  writer.null();
  writer.key("added_tokens");
  write_added_tokens(writer, special);
  writer.key("normalizer");
  if (options.nfc) {
    writer.begin_object();
    writer.member("type", "NFC");
    writer.end_object();
  } else {
    writer.null();
  }
  writer.key("pre_tokenizer");
  write_pre_tokenizer(writer, pattern);
  writer.key("post_processor");
  write_post_processor(writer, options.begin, special);
  writer.key("decoder");
  write_byte_level(writer, true);
  writer.key("model");
  write_model(writer, vocab_size, special);
  writer.end_object();
  return out;
}

std::string make_word_piece_tokenizer_json(std::int64_t vocab_size) {
  CHECK(vocab_size >= 512 && vocab_size <= 36'000, "{} tokens", vocab_size);
  const std::vector<std::string> pieces = word_pieces(static_cast<std::size_t>(vocab_size));
  SpecialTokens special;
  for (const TokenId id : {0, 100, 101, 102, 103})
    special.emplace(id, SpecialTokenAt{id, pieces[static_cast<std::size_t>(id)]});
  std::string out;
  json::JsonWriter writer(out);
  writer.begin_object();
  writer.member("version", "1.0");
  writer.key("added_tokens");
  write_added_tokens(writer, special);
  writer.key("normalizer");
  writer.raw(
      R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})");
  writer.key("pre_tokenizer");
  writer.raw(R"({"type":"BertPreTokenizer"})");
  writer.key("post_processor");
  writer.raw(
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},)"
      R"({"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],)"
      R"("pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},)"
      R"({"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},)"
      R"({"SpecialToken":{"id":"[SEP]","type_id":1}}],"special_tokens":{)"
      R"("[CLS]":{"id":"[CLS]","ids":[101],"tokens":["[CLS]"]},)"
      R"("[SEP]":{"id":"[SEP]","ids":[102],"tokens":["[SEP]"]}}})");
  writer.key("decoder");
  writer.raw(R"({"type":"WordPiece","prefix":"##","cleanup":true})");
  writer.key("model");
  writer.begin_object();
  writer.member("type", "WordPiece");
  writer.member("unk_token", "[UNK]");
  writer.member("continuing_subword_prefix", "##");
  writer.member("max_input_chars_per_word", 100);
  writer.key("vocab");
  writer.begin_object();
  for (std::size_t id = 0; id < pieces.size(); ++id)
    writer.member(pieces[id], static_cast<std::int64_t>(id));
  writer.end_object();
  writer.end_object();
  writer.end_object();
  return out;
}

}  // namespace saccade
