#include "bench/text_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/letter_tokenizer.h"

namespace saccade::bench {
namespace {

// A server whose tokens are pairs of letters, and which puts two special ones around a completion.
Result<std::int32_t> by_pairs(std::string_view text, bool with_added) {
  return static_cast<std::int32_t>((text.size() + 1) / 2) + (with_added ? 2 : 0);
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
    EXPECT_NEAR(text.tokens, length, 4);
    exact += text.tokens == length;
    const MadeText longer = (*source)->extend("begin here", length, rng);
    EXPECT_TRUE(longer.text.starts_with("begin here"));
    EXPECT_EQ(longer.tokens, *by_pairs(longer.text, false));
  }
  EXPECT_GT(exact, 50);
  EXPECT_EQ((*source)->extend("a prefix that is longer", 3, rng).text, "a prefix that is longer");
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
