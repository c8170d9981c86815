#include "text/sentencepiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "text/encode_limit.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string model_bytes() {
  std::ifstream file(SACCADE_SOURCE_DIR "/tests/golden/tokenizers/model_bpe/tokenizer.model",
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

AddedTokenEntry image_token() {
  AddedTokenEntry entry;
  entry.id = 5000;
  entry.token = {.content = "<image>", .normalized = false, .special = true};
  return entry;
}

TEST(SentencePiece, SpecialTokensAreCutOutOfTheText) {
  const auto tokenizer = make_sentencepiece_tokenizer(model_bytes(), {image_token()}, {});
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const TokenId a = *(*tokenizer)->token_to_id("▁a");
  EXPECT_THAT((*tokenizer)->encode("a</s><image>a"), ElementsAre(a, 2, 5000, a));
  EXPECT_THAT((*tokenizer)->encode("a", {.add_special_tokens = true}), ElementsAre(1, a));
  EXPECT_EQ((*tokenizer)->vocab_size(), 5001);
  EXPECT_TRUE((*tokenizer)->is_special(1));
  EXPECT_EQ((*tokenizer)->decode({1, a, 5000}, true), "a");
  EXPECT_EQ((*tokenizer)->decode({1, a, 5000}, false), "<s> a<image>");
}

TEST(SentencePiece, LaterTextsMayBeginWithoutASpace) {
  SentencePieceOptions options;
  options.prefix_after_special = false;
  const auto tokenizer = make_sentencepiece_tokenizer(model_bytes(), {image_token()}, options);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const TokenId first = *(*tokenizer)->token_to_id("▁a"), later = *(*tokenizer)->token_to_id("a");
  EXPECT_THAT((*tokenizer)->encode("a<image>a"), ElementsAre(first, 5000, later));
}

// What is far over a limit is refused after a few slices, and what normalisation drops is no reason
// to refuse.
TEST(SentencePiece, LongTextsAreRefusedEarly) {
  const auto made = make_sentencepiece_tokenizer(model_bytes(), {}, {});
  ASSERT_TRUE(made);
  const auto& tokenizer = dynamic_cast<const StoppableTokenizer&>(**made);
  constexpr std::size_t kMost = 500;
  std::string text;
  while (text.size() < (8u << 20)) text += "some words and more of them ";
  for (const std::size_t bytes : {std::size_t{200'000}, text.size()}) {
    EncodeLimit limit;
    limit.max_tokens = kMost;
    EXPECT_TRUE(tokenizer.encode_within(text.substr(0, bytes), {}, limit).empty());
    EXPECT_TRUE(limit.stopped);
    EXPECT_EQ(limit.at_least, kMost + 1);  // not the whole's number: the rest was not looked at
  }
  // Characters that the model does not know may be one token together.
  for (const char* repeated : {"\u4e9c", "\x01", "\u0378"}) {
    std::string strange = "a";
    while (strange.size() < 100'000) strange += repeated;
    EncodeLimit limit;
    const std::size_t count = tokenizer.encode(strange, {}).size();
    limit.max_tokens = count;
    EXPECT_EQ(tokenizer.encode_within(strange, {}, limit).size(), count);
    EXPECT_FALSE(limit.stopped);
  }
}

TEST(SentencePiece, BytesThatAreNoModelAreRefused) {
  const std::string good = model_bytes();
  EXPECT_FALSE(make_sentencepiece_tokenizer("", {}, {}));
  EXPECT_FALSE(make_sentencepiece_tokenizer("not a model", {}, {}));
  EXPECT_FALSE(make_sentencepiece_tokenizer(good.substr(0, good.size() / 2), {}, {}));
}

}  // namespace
}  // namespace saccade
