#include "bench/datasets/text_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/letter_tokenizer.h"

namespace saccade::bench {
namespace {

// A server whose tokens are pairs of letters, and which puts two special ones around a completion.
Result<std::int32_t> by_pairs(std::string_view text, bool with_added) {
  return static_cast<std::int32_t>((text.size() + 1) / 2) + (with_added ? 2 : 0);
}

// Letters of which every third comes back as three question marks, as parts of a character do.
class BrokenTokenizer final : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view utf8, const EncodeOptions& options) const override {
    return letters_.encode(utf8, options);
  }
  std::string_view piece(TokenId id) const override { return letters_.piece(id); }
  std::string decode(const std::vector<TokenId>& ids, bool skip_special_tokens) const override {
    std::string text;
    for (const TokenId id : ids)
      text += id % 3 == 0 && id != '?' ? "???" : letters_.decode({id}, skip_special_tokens);
    return text;
  }
  std::optional<TokenId> token_to_id(std::string_view token) const override {
    return letters_.token_to_id(token);
  }
  bool is_special(TokenId id) const override { return letters_.is_special(id); }
  std::int32_t vocab_size() const override { return letters_.vocab_size(); }
  std::size_t longest_piece_bytes() const override { return letters_.longest_piece_bytes(); }

 private:
  LetterTokenizer letters_;
};

TEST(TextSource, TokensThatComeBackAsOthers) {
  const BrokenTokenizer broken;
  const auto source = make_token_source(broken);
  Rng rng(11);
  for (std::int32_t length = 1; length < 200; ++length) {
    const MadeText text = source->make(length, rng);
    EXPECT_EQ(text.tokens, length);
    EXPECT_EQ(text.text.size(), static_cast<std::size_t>(length));
  }
}

TEST(TextSource, CountedByAServer) {
  const auto source = make_counted_source(by_pairs);
  ASSERT_TRUE(source);
  EXPECT_TRUE((*source)->exact());
  EXPECT_EQ((*source)->added(), 2);
  EXPECT_EQ((*source)->count("abc"), 2);
  Rng rng(7);
  int exact = 0;
  for (std::int32_t length = 20; length < 120; ++length) {
    const MadeText text = (*source)->make(length, rng);
    EXPECT_EQ(text.tokens, *by_pairs(text.text, false));  // what is said is what was counted
    exact += text.tokens == length;
    const MadeText longer = (*source)->extend("begin here", length, rng);
    EXPECT_TRUE(longer.text.starts_with("begin here"));
    EXPECT_EQ(longer.tokens, *by_pairs(longer.text, false));
  }
  EXPECT_EQ(exact, 100);
  EXPECT_EQ((*source)->extend("a prefix that is longer", 3, rng).text, "a prefix that is longer");
}

// Three tokens a word: what a word repeated cannot reach, letters do.
TEST(TextSource, AWordOfSeveralTokensRepeated) {
  const auto source = make_counted_source([](std::string_view text, bool) -> Result<std::int32_t> {
    std::int32_t tokens = 0;
    bool in_word = false;
    for (const char c : text) {
      const bool letter = c >= 'a' && c <= 'z';
      tokens += letter ? (in_word ? 0 : 3) : (c == ' ' ? 0 : 1);
      in_word = letter;
    }
    return tokens;
  });
  ASSERT_TRUE(source);
  Rng rng(5);
  for (std::int32_t length = 3; length < 110; ++length)
    EXPECT_EQ((*source)->repeat_one(length, rng).tokens, length);
}

TEST(TextSource, AServerThatDoesNotCount) {
  const auto source = make_counted_source([](std::string_view, bool) -> Result<std::int32_t> {
    return fail(ErrorCode::kUnsupported, "404");
  });
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().message, "404");
}

TEST(TextSource, OneTokenAsOftenAsWanted) {
  const LetterTokenizer letters;
  const auto source = make_token_source(letters);
  Rng rng(3);
  for (const std::int32_t length : {1, 7, 2048}) {
    const MadeText text = source->repeat_one(length, rng);
    EXPECT_EQ(text.tokens, length);
    EXPECT_EQ(text.text, std::string(static_cast<std::size_t>(length), text.text[0]));
  }
}

}  // namespace
}  // namespace saccade::bench
