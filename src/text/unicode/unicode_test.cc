#include "text/unicode/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>

#include "base/rng.h"

namespace saccade {
namespace {

std::string utf8(std::u32string_view codes) {
  std::string text;
  for (const char32_t code : codes) append_utf8(text, code);
  return text;
}

TEST(Unicode, EveryCharacterRoundTrips) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    const std::string text = utf8({&code, 1});
    ASSERT_EQ(text.size(), character_bytes(text[0]));
    ASSERT_TRUE(is_valid_utf8(text));
    std::size_t at = 0;
    ASSERT_EQ(next_character(text, at), code);
    ASSERT_EQ(previous_character("a" + text, text.size() + 1), 1u);
    for (std::size_t cut = 1; cut < text.size(); ++cut)
      ASSERT_EQ(decode_utf8(text.substr(0, cut), 0).kind, Utf8Step::Kind::kTruncated);
  }
}

std::string repaired(std::string_view bytes) {
  std::string text;
  append_valid_utf8(text, bytes, true);
  return text;
}

// The maximal-part rule, as in Python's and Rust's lossy decoders.
TEST(Unicode, InvalidPartsBecomeOneReplacementEach) {
  EXPECT_EQ(repaired("a\xFFz"), "a\uFFFDz");
  EXPECT_EQ(repaired("\xC0\x80"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(repaired("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(repaired("\xE2\x82"
                     "a"),
            "\uFFFD"
            "a");                                                       // cut short
  EXPECT_EQ(repaired("\xF0\x9F\x98"), "\uFFFD");                        // cut short by the end
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // past U+10FFFF
  EXPECT_EQ(repaired("\xF0\x9F\x98\xF0\x9F\x98\x80"), "\uFFFD\U0001F600");
}

TEST(Unicode, HeldBytesAreAPrefixOfACharacter) {
  std::string text;
  EXPECT_EQ(append_valid_utf8(text, "ab\xF0\x9F\x98", false), 3u);
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(append_valid_utf8(text, "\xF0\x9F\x98\x80", false), 0u);
  EXPECT_EQ(text, "ab\U0001F600");
}

std::string whole_nfc(const std::string& text) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string result(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length));
  std::free(mapped);
  return result;
}

TEST(Unicode, NfcInStretchesEqualsNfcOfTheWhole) {
  // Every character alone, and after letters that compose with many.
  for (char32_t code = 0; code < 0x30000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    for (const char32_t before : {U'a', U'\u1100', U'\uAC00', U'\u304B'}) {
      const std::u32string codes = {before, code, U'x', code};
      const std::string text = utf8(codes);
      ASSERT_EQ(normalize(text, NormalForm::kC), whole_nfc(text)) << std::hex << unsigned{code};
    }
  }
  Rng rng(1);
  constexpr char32_t kStarts[] = {0x20,   0xC0,   0x300,  0x320,  0x5B0,  0x93C,  0x1100,  0x1161,
                                  0x11A8, 0x3041, 0x3099, 0xAC00, 0x1E00, 0xFB1D, 0x1D15E, 0x400};
  for (int round = 0; round < 20000; ++round) {
    std::u32string codes(rng.below(9), U' ');
    for (char32_t& code : codes)
      code = kStarts[rng.below(std::size(kStarts))] + static_cast<char32_t>(rng.below(32));
    ASSERT_EQ(normalize(utf8(codes), NormalForm::kC), whole_nfc(utf8(codes)));
  }
}

TEST(Unicode, OtherForms) {
  EXPECT_EQ(normalize("\u00e9\ufb01", NormalForm::kD), "e\u0301\ufb01");
  EXPECT_EQ(normalize("e\u0301\ufb01", NormalForm::kKC),
            "\u00e9"
            "fi");
  EXPECT_EQ(normalize("\u00bd", NormalForm::kKD), "1\u20442");
  EXPECT_EQ(normalize("\u00e9", NormalForm::kC), "\u00e9");
}

TEST(Unicode, LowerCase) { EXPECT_EQ(to_lowercase("AÉΣ\u0130ß\u1E9E"), "aéσi\u0307ßß"); }

TEST(Unicode, WordCharacters) {
  for (const char32_t code :
       {U'a', U'_', U'9', U'\u0301', U'\u2167', U'\u24B6', U'\u200D', U'\u4E00'})
    EXPECT_TRUE(is_word_character(code)) << unsigned{code};
  for (const char32_t code : {U' ', U'-', U'\u00BD', U'\u2460', U'\u00A0', U'\U0001F600'})
    EXPECT_FALSE(is_word_character(code)) << unsigned{code};
}

}  // namespace
}  // namespace saccade
