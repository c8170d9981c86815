#include "model/prompts/placeholders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One id a byte; "<X>" is one token, 1000, unless special tokens are not parsed.
class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<TokenId> ids;
    if (options.add_special_tokens) ids.push_back(999);
    for (std::size_t i = 0; i < text.size();) {
      if (options.parse_special_tokens && text.substr(i).starts_with("<X>")) {
        ids.push_back(1000);
        i += 3;
      } else {
        ids.push_back(static_cast<unsigned char>(text[i++]));
      }
    }
    return ids;
  }
  std::string_view piece(TokenId) const override { return {}; }
  std::string decode(const std::vector<TokenId>&, bool) const override { return {}; }
  std::optional<TokenId> token_to_id(std::string_view) const override { return {}; }
  bool is_special(TokenId id) const override { return id >= 999; }
  std::int32_t vocab_size() const override { return 1001; }
  std::size_t longest_piece_bytes() const override { return 3; }
};

constexpr std::array<std::string_view, 1> kLiterals = {"<X>"};

std::vector<TokenId> bytes_of(std::string_view text) {
  return ByteTokenizer().encode(text, {.parse_special_tokens = false});
}

TEST(Guard, WrittenOutPlaceholdersStayText) {
  const ByteTokenizer tokenizer;
  const std::string user = "a<X>b<X><X>";
  EXPECT_EQ(encode_guarded(tokenizer, guard(user, kLiterals), false), bytes_of(user));
  std::vector<TokenId> expected = {'p', 1000, 'q'};
  for (const TokenId id : bytes_of(user)) expected.push_back(id);
  EXPECT_EQ(encode_guarded(tokenizer, "p<X>q" + guard(user, kLiterals), false), expected);
  EXPECT_THAT(encode_guarded(tokenizer, guard("<X>", kLiterals) + "z", true),
              ElementsAre(999, '<', 'X', '>', 'z'));
  EXPECT_EQ(guard("plain", kLiterals), "plain");
}

// Whatever a user writes, marks included, comes back as its own bytes and never as a placeholder.
TEST(Guard, AnyTextSurvives) {
  const ByteTokenizer tokenizer;
  const std::vector<std::string> pieces = {
      "<X>",      "<", "X>", "\xEF\xB7\x90", "\xEF\xB7\x91", "\xEF\xB7\x92", "0", "1", "2",
      "\xEF\xB7", "é", "<X"};
  Rng rng(7);
  for (int round = 0; round < 2000; ++round) {
    std::string user;
    for (std::uint64_t n = rng.below(8); n > 0; --n) user += pieces[rng.below(pieces.size())];
    EXPECT_EQ(encode_guarded(tokenizer, guard(user, kLiterals), false), bytes_of(user)) << user;
  }
}

TEST(ExpandPlaceholders, CountsAndPlaces) {
  const std::vector<TokenId> ids = {1, 9, 2, 9, 3};
  const auto expanded = expand_placeholders(ids, 9, std::vector<std::int64_t>{3, 1});
  ASSERT_TRUE(expanded);
  EXPECT_THAT(expanded->ids, ElementsAre(1, 9, 9, 9, 2, 9, 3));
  ASSERT_EQ(expanded->images.size(), 2u);
  EXPECT_EQ(expanded->images[1].begin, 5);
  EXPECT_EQ(expanded->images[1].tokens, 1);
  EXPECT_EQ(expanded->images[1].index, 1);
  const auto wrong = expand_placeholders(ids, 9, std::vector<std::int64_t>{3});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("2 image placeholders for 1 images"));
}

TEST(GridPositions, TextGridText) {
  GridPositions positions;
  positions.add_text(5);
  positions.add_grid(1, 2, 3);
  positions.add_text(2);
  EXPECT_EQ(positions.delta(), -3);
  const auto axes = positions.take();
  EXPECT_THAT(axes[0], ElementsAre(0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 8, 9));
  EXPECT_THAT(axes[1], ElementsAre(0, 1, 2, 3, 4, 5, 5, 5, 6, 6, 6, 8, 9));
  EXPECT_THAT(axes[2], ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 5, 6, 7, 8, 9));
}

TEST(GridPositions, VideosStandInTime) {
  GridPositions positions;
  positions.add_text(1);
  const std::vector<std::int32_t> times = {0, 2, 5};
  positions.add_grid(times, 1, 2);
  positions.add_text(1);
  const auto axes = positions.take();
  EXPECT_THAT(axes[0], ElementsAre(0, 1, 1, 3, 3, 6, 6, 7));
  EXPECT_THAT(axes[1], ElementsAre(0, 1, 1, 1, 1, 1, 1, 7));
  EXPECT_THAT(axes[2], ElementsAre(0, 1, 2, 1, 2, 1, 2, 7));
}

}  // namespace
}  // namespace saccade
