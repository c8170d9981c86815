// tokenizer.json as files have it, and as nobody should write it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "base/rng.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A file with the parts given, else a small one that works.
struct File {
  std::string vocab = R"({"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "Ġ": 5, "Ġa": 6, "é": 7})";
  std::string merges = R"([["a", "b"], ["ab", "c"], ["Ġ", "a"]])";
  std::string model_rest;
  std::string added = "[]";
  std::string normalizer = "null";
  std::string pre_tokenizer =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";
  std::string post_processor = "null";
  std::string decoder = R"({"type": "ByteLevel"})";

  std::string text() const {
    return R"({"version": "1.0", "added_tokens": )" + added + R"(, "normalizer": )" + normalizer +
           R"(, "pre_tokenizer": )" + pre_tokenizer + R"(, "post_processor": )" + post_processor +
           R"(, "decoder": )" + decoder + R"(, "model": {"type": "BPE", "vocab": )" + vocab +
           R"(, "merges": )" + merges + model_rest + "}}";
  }
};

std::unique_ptr<Tokenizer> parse(const File& file) {
  auto tokenizer = parse_tokenizer(file.text());
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return tokenizer ? std::move(tokenizer).value() : nullptr;
}

std::string error_of(const File& file) {
  const auto tokenizer = parse_tokenizer(file.text());
  EXPECT_FALSE(tokenizer) << "it should not load";
  return tokenizer ? "" : tokenizer.error().message;
}

TEST(TokenizerJson, MergesInBothForms) {
  File file;
  EXPECT_THAT(parse(file)->encode("abc a"), ElementsAre(4, 6));
  file.merges = R"(["#version: 0.2", "a b", "ab c", "Ġ a"])";
  EXPECT_THAT(parse(file)->encode("abc a"), ElementsAre(4, 6));
}

TEST(TokenizerJson, LaterMergesReplaceEarlierOnesOfThePair) {
  File file;
  file.vocab = R"({"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4})";
  file.merges = R"(["a b", "b c", "a b"])";
  EXPECT_THAT(parse(file)->encode("abc"), ElementsAre(0, 4));
}

TEST(TokenizerJson, AddedTokensTakeTheNextIds) {
  File file;
  file.added = R"([{"id": 8, "content": "<x>", "special": true}, {"id": 9, "content": "<xy>"},
                   {"id": 2, "content": "c", "special": true}])";
  const auto tokenizer = parse(file);
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  EXPECT_THAT(tokenizer->encode("<xy><x>c"), ElementsAre(9, 8, 2));
  EXPECT_TRUE(tokenizer->is_special(2));
  EXPECT_FALSE(tokenizer->is_special(9));
  EXPECT_EQ(tokenizer->decode({9, 8, 2, 0}, true), "<xy>a");
  // Plain text when asked: what is special is spelt, what is not is still a token.
  EXPECT_THAT(tokenizer->encode("c<xy>", {.parse_special_tokens = false}), ElementsAre(2, 9));
  EXPECT_EQ(tokenizer->token_to_id("<x>"), 8);
  EXPECT_EQ(tokenizer->token_to_id("nothing"), std::nullopt);
}

TEST(TokenizerJson, IdsOutOfRangeHaveNoText) {
  const auto tokenizer = parse(File{});
  for (const TokenId id : {-1, 8, 100, 0x7FFFFFFF}) {
    EXPECT_EQ(tokenizer->piece(id), "");
    EXPECT_FALSE(tokenizer->is_special(id));
    EXPECT_EQ(tokenizer->decode({0, id, 1}, false), "ab");
  }
}

TEST(TokenizerJson, InvalidUtf8CountsAsReplacementCharacter) {
  File file;
  file.vocab = R"({"ï": 0, "¿": 1, "½": 2})";
  file.merges = "[]";
  EXPECT_THAT(parse(file)->encode("\xED\xA0"), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(TokenizerJson, DetokenizerHoldsBackHalfCharacters) {
  File file;
  file.vocab = R"({"Ã": 0, "©": 1, "a": 2})";  // bytes C3, A9
  file.merges = "[]";
  const auto tokenizer = parse(file);
  Detokenizer steps(*tokenizer, false);
  EXPECT_EQ(steps.push(2), "a");
  EXPECT_EQ(steps.push(0), "");
  EXPECT_EQ(steps.push(1), "é");
  EXPECT_EQ(steps.push(0), "");
  EXPECT_EQ(steps.push(2),
            "\uFFFD"
            "a");
  EXPECT_EQ(steps.push(0), "");
  EXPECT_EQ(steps.finish(), "\uFFFD");
  EXPECT_EQ(tokenizer->piece(0), "\xC3");
}

TEST(TokenizerJson, WrongPartsAreNamed) {
  const auto with = [](auto change) {
    File file;
    change(file);
    return error_of(file);
  };
  EXPECT_THAT(with([](File& f) { f.vocab = R"({"a": 0, "b": 0})"; }),
              HasSubstr("id 0 is given to both"));
  EXPECT_THAT(with([](File& f) { f.vocab = R"({"a": -1})"; }), HasSubstr("id -1"));
  EXPECT_THAT(with([](File& f) { f.vocab = R"({"a": 4294967296})"; }), HasSubstr("id 4294967296"));
  EXPECT_THAT(with([](File& f) { f.vocab = R"({"a": 1000000000000000000000})"; }),
              HasSubstr("'vocab'"));
  EXPECT_THAT(with([](File& f) { f.vocab = R"({"a": "0"})"; }), HasSubstr("a string as the id"));
  EXPECT_THAT(with([](File& f) { f.vocab = R"({"a": 0.5})"; }), HasSubstr("'vocab'"));
  EXPECT_THAT(with([](File& f) { f.vocab = "[]"; }), HasSubstr("'vocab' must be an object"));
  EXPECT_THAT(with([](File& f) { f.merges = R"(["a z"])"; }),
              HasSubstr("\"z\", which is not in the vocabulary"));
  EXPECT_THAT(with([](File& f) { f.merges = R"(["b a"])"; }),
              HasSubstr("\"ba\", which is not in the vocabulary"));
  EXPECT_THAT(with([](File& f) { f.merges = R"(["ab"])"; }), HasSubstr("merge 0"));
  EXPECT_THAT(with([](File& f) { f.merges = R"(["a b c"])"; }), HasSubstr("merge 0"));
  EXPECT_THAT(with([](File& f) { f.merges = R"([["a", "b", "c"]])"; }), HasSubstr("merge 0"));
  EXPECT_THAT(with([](File& f) { f.merges = R"([["a", 1]])"; }), HasSubstr("merge 0"));
  EXPECT_THAT(with([](File& f) { f.merges = "7"; }), HasSubstr("'merges'"));
  EXPECT_THAT(with([](File& f) { f.model_rest = R"(, "unk_token": "<unk>")"; }),
              HasSubstr("unk_token \"<unk>\""));
  EXPECT_THAT(with([](File& f) { f.model_rest = R"(, "byte_fallback": 1)"; }),
              HasSubstr("byte_fallback"));
  EXPECT_THAT(with([](File& f) { f.added = R"([{"id": -5, "content": "<x>"}])"; }),
              HasSubstr("id -5"));
  EXPECT_THAT(with([](File& f) {
                f.added = R"([{"id": 8, "content": "<x>"}, {"id": 8, "content": "<y>"}])";
              }),
              HasSubstr("id 8 is given to both"));
  EXPECT_THAT(with([](File& f) { f.added = R"([{"content": "<x>"}])"; }),
              HasSubstr("'id' is missing"));
  EXPECT_THAT(with([](File& f) {
                f.added = R"([{"id": 8, "content": ")" + std::string(5000, 'x') + R"("}])";
              }),
              HasSubstr("5000 bytes"));
  EXPECT_THAT(
      with([](File& f) {
        f.pre_tokenizer =
            R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": false})";
      }),
      HasSubstr("pre_tokenizer Split: pattern: "));
  EXPECT_THAT(
      with([](File& f) {
        f.pre_tokenizer =
            R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Sideways", "invert": false})";
      }),
      HasSubstr("Sideways"));
  EXPECT_THAT(with([](File& f) { f.pre_tokenizer = R"({"type": "UnicodeScripts"})"; }),
              HasSubstr("UnicodeScripts"));
  EXPECT_THAT(with([](File& f) { f.pre_tokenizer = R"({"type": "FixedLength", "length": 0})"; }),
              HasSubstr("'length' is 0"));
  EXPECT_THAT(with([](File& f) { f.normalizer = R"({"type": "Shout"})"; }),
              HasSubstr("normalizer Shout"));
  EXPECT_THAT(with([](File& f) {
                f.normalizer = R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})";
              }),
              HasSubstr("charsmap"));
  EXPECT_THAT(with([](File& f) { f.decoder = R"({"type": "CTC"})"; }), HasSubstr("decoder CTC"));
  EXPECT_THAT(with([](File& f) { f.decoder = R"({"type": "Sequence"})"; }),
              HasSubstr("decoder Sequence: 'decoders' must be an array"));
  EXPECT_THAT(with([](File& f) { f.post_processor = R"({"type": "Sequence", "processors": 1})"; }),
              HasSubstr("post_processor Sequence: 'processors' must be an array"));
  EXPECT_THAT(
      with([](File& f) {
        f.post_processor =
            R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}], "special_tokens": {}})";
      }),
      HasSubstr("<s>"));
  EXPECT_THAT(
      with([](File& f) {
        f.post_processor =
            R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}], "special_tokens": {}})";
      }),
      HasSubstr("\"B\""));
}

TEST(TokenizerJson, OtherShapesAreRefused) {
  for (const char* text :
       {"", "[]", "null", "{", "{}", R"({"model": null})", R"({"model": {"type": "BPE"}})",
        R"({"model": {"type": "Markov", "vocab": {}}})", R"({"model": {"type": 3}})",
        R"({"model": {"type": "Unigram", "vocab": [["a"]]}})",
        R"({"model": {"type": "Unigram", "vocab": [["a", "b"]]}})",
        R"({"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1}})",
        R"({"model": {"type": "WordPiece", "vocab": {"a": 0}}})"}) {
    EXPECT_FALSE(parse_tokenizer(text)) << text;
  }
}

TEST(TokenizerJson, NestingIsBounded) {
  File file;
  file.normalizer = R"({"type": "Lowercase"})";
  for (int depth = 0; depth < 100; ++depth)
    file.normalizer = R"({"type": "Sequence", "normalizers": [)" + file.normalizer + "]}";
  EXPECT_THAT(error_of(file), HasSubstr("JSON"));
}

// A file may not turn a short text into an endless one.
TEST(TokenizerJson, GrowthIsBounded) {
  const auto replace = [](std::string_view pattern, std::size_t bytes) {
    return R"({"type": "Replace", "pattern": )" + std::string(pattern) + R"(, "content": ")" +
           std::string(bytes, 'a') + R"("})";
  };
  const auto sequence = [](const std::string& steps) {
    return R"({"type": "Sequence", "normalizers": [)" + steps + "]}";
  };
  File file;
  file.normalizer = replace(R"({"Regex": ""})", 100);
  EXPECT_THAT(error_of(file), HasSubstr("101 times longer"));
  file.normalizer = replace(R"({"String": "b"})", 100);
  EXPECT_THAT(error_of(file), HasSubstr("100 times longer"));
  const std::string nine = replace(R"({"String": "a"})", 9);
  file.normalizer = sequence(nine + "," + nine);
  EXPECT_THAT(error_of(file), HasSubstr("81 times longer"));
  file.normalizer = sequence(sequence(nine) + "," + sequence(nine));
  EXPECT_THAT(error_of(file), HasSubstr("81 times longer"));
  file.normalizer = nine;
  EXPECT_EQ(parse(file)->encode("aa").size(), 18u);
  file.normalizer = R"({"type": "Prepend", "prepend": ")" + std::string(1000, 'a') + R"("})";
  EXPECT_THAT(error_of(file), HasSubstr("1000 bytes"));
  file.normalizer = "null";
  file.vocab = R"({"a": 0, ")" + std::string(20'000, 'b') + R"(": 1})";
  file.merges = "[]";
  EXPECT_THAT(error_of(file), HasSubstr("20000 bytes"));
}

TEST(TokenizerJson, AddedTokensOfTheConfigFillInWhatTheFileLacks) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "tokenizer_json_test";
  std::filesystem::create_directories(folder);
  File file;
  file.added = R"([{"id": 8, "content": "<x>", "special": true}])";
  std::ofstream(folder / "tokenizer.json") << file.text();
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"added_tokens_decoder": {"9": {"content": "<y>", "special": true}, "8": {"content": "<x>", "special": true}}})";
  const auto tokenizer = load_tokenizer(folder.string());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_THAT((*tokenizer)->encode("<y><x>"), ElementsAre(9, 8));
  std::filesystem::remove_all(folder);
  const auto missing = load_tokenizer(folder.string());
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("tokenizer.json"));
}

// Long words go another way than short ones; both give what merging by definition gives.
TEST(Bpe, ShortAndLongWordsMergeAlike) {
  std::string vocab = R"({"a": 0, "b": 1, "c": 2)";
  std::string merges;
  std::vector<std::string> tokens = {"a", "b", "c"};
  Rng rng(11);
  for (int next = 3; next < 60; ++next) {
    const std::string left = tokens[rng.below(tokens.size())],
                      right = tokens[rng.below(tokens.size())];
    if (std::find(tokens.begin(), tokens.end(), left + right) != tokens.end()) continue;
    vocab += ", \"" + left + right + "\": " + std::to_string(tokens.size());
    merges += (merges.empty() ? "[\"" : ", [\"") + left + "\", \"" + right + "\"]";
    tokens.push_back(left + right);
  }
  File file;
  file.vocab = vocab + "}";
  file.merges = "[" + merges + "]";
  const auto tokenizer = parse(file);
  const auto by_definition = [&](const std::string& word) {
    std::vector<std::string> symbols;
    for (const char c : word) symbols.emplace_back(1, c);
    const auto pairs = json::parse(file.merges).value();
    while (true) {
      std::size_t best_rank = pairs.get_array().size(), best = 0;
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        for (std::size_t rank = 0; rank < best_rank; ++rank) {
          const auto& pair = pairs.get_array()[rank].get_array();
          if (symbols[i] == pair[0].get_string().c_str() &&
              symbols[i + 1] == pair[1].get_string().c_str()) {
            best_rank = rank;
            best = i;
          }
        }
      }
      if (best_rank == pairs.get_array().size()) break;
      symbols[best] += symbols[best + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    return symbols;
  };
  for (const std::size_t length : {1u, 2u, 5u, 20u, 47u, 48u, 49u, 50u, 120u}) {
    for (int round = 0; round < 8; ++round) {
      std::string word;
      while (word.size() < length) word += "abc"[rng.below(3)];
      std::vector<std::string> pieces;
      for (const TokenId id : tokenizer->encode(word)) pieces.emplace_back(tokenizer->piece(id));
      ASSERT_EQ(pieces, by_definition(word)) << word;
    }
  }
}

TEST(Tokenizer, ManyThreadsEncodeAlike) {
  const auto tokenizer = load_tokenizer(SACCADE_SOURCE_DIR "/tests/golden/tokenizers/qwen2");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const std::string text =
      "The module defines several classes and functions; don't panic. 三艘の船\n";
  std::vector<std::vector<TokenId>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) result = (*tokenizer)->encode(text);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  EXPECT_EQ((*tokenizer)->decode(results[0], false), text);
}

// No text is so long or so odd that it takes more than linear time (or n log n).
TEST(Tokenizer, LongWordsAreNotQuadratic) {
  for (const char* kind : {"qwen2", "llama2", "t5", "bert"}) {
    const auto tokenizer =
        load_tokenizer(std::string(SACCADE_SOURCE_DIR "/tests/golden/tokenizers/") + kind);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (const std::string unit : {"a", " ", "\n", "<", "é", "x "}) {
      std::string text;
      while (text.size() < 200'000) text += unit;
      EXPECT_LE((*tokenizer)->encode(text).size(), text.size() + 1);
    }
  }
}

}  // namespace
}  // namespace saccade
