#include "text/synthetic_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

constexpr char kPattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::unique_ptr<Tokenizer> load(const std::string& file) {
  auto tokenizer = parse_tokenizer(file);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

TEST(SyntheticTokenizer, SpecialTokensHaveTheirIdsAndHolesAreFilled) {
  const auto tokenizer = load(make_byte_level_tokenizer_json(
      2000, {{0, "<unk>"}, {300, "<s>"}, {2000, "<|a|>"}, {2004, "<|b|>"}}, kPattern));
  EXPECT_EQ(tokenizer->vocab_size(), 2005);
  EXPECT_EQ(tokenizer->token_to_id("<unk>"), 0);
  EXPECT_EQ(tokenizer->token_to_id("<s>"), 300);
  EXPECT_EQ(tokenizer->token_to_id("<|a|>"), 2000);
  EXPECT_EQ(tokenizer->token_to_id("<|b|>"), 2004);
  EXPECT_THAT(tokenizer->encode("<|b|><s>"), testing::ElementsAre(2004, 300));
  for (TokenId id = 0; id < 2005; ++id) EXPECT_FALSE(tokenizer->piece(id).empty()) << id;
}

TEST(SyntheticTokenizer, TextComesBackAndWordsAreShorterThanTheirBytes) {
  const auto tokenizer =
      load(make_byte_level_tokenizer_json(151643, {{151643, "<|endoftext|>"}}, kPattern));
  const std::string text = "What is shown in this picture? Three boats; 3 bateaux; 三艘の船 👍🏽\n";
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids, false), text);
  EXPECT_LT(tokenizer->encode("What is shown in this picture").size(), 16u);
}

TEST(SyntheticTokenizer, BeginTokenIsAddedWhenAsked) {
  SyntheticTokenizerOptions options;
  options.nfc = false;
  options.begin = "<s>";
  const auto tokenizer =
      load(make_byte_level_tokenizer_json(300, {{300, "<s>"}}, kPattern, options));
  EXPECT_THAT(tokenizer->encode("e", {.add_special_tokens = true}), testing::ElementsAre(300, 'e'));
  EXPECT_THAT(tokenizer->encode("e"), testing::ElementsAre('e'));
}

TEST(SyntheticTokenizer, IsTheSameEachTime) {
  const auto make = [] { return make_byte_level_tokenizer_json(5000, {{5000, "<s>"}}, kPattern); };
  EXPECT_EQ(make(), make());
}

}  // namespace
}  // namespace saccade
