#include "text/patterns/oniguruma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "text/patterns/regex.h"
#include "text/patterns/regex_effort.h"
#include "text/unicode/unicode.h"

namespace saccade {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex) << regex.error().message;
  std::vector<std::string> found;
  if (!regex) return found;
  Regex::Matches walk(*regex, text);
  while (const auto span = walk.next())
    found.emplace_back(text.substr(span->begin, span->end - span->begin));
  return found;
}

using testing::ElementsAre;
using testing::IsEmpty;

// Each differs between the two syntaxes.
TEST(Oniguruma, MeansWhatItMeansInRuby) {
  EXPECT_THAT(matches(R"(\h+)", "a 1F g"), ElementsAre("a", "1F"));        // hex digits
  EXPECT_THAT(matches(R"(\v)", "\n\v\x0c"), ElementsAre("\v"));            // one character
  EXPECT_THAT(matches(R"(\s)", "a\u180Eb\u0085"), ElementsAre("\u0085"));  // U+180E is no space
  EXPECT_THAT(matches(R"(a{,2}b)", "b ab aab"), ElementsAre("b", "ab", "aab"));
  EXPECT_THAT(matches(R"(a{2}+b)", "aaaab"), ElementsAre("aaaab"));  // (a{2})+, not possessive
  EXPECT_THAT(matches(R"((?m).+)", "a\nb"), ElementsAre("a\nb"));    // m is "dot matches newline"
  EXPECT_THAT(matches(R"(.+)", "a\nb\r"), ElementsAre("a", "b\r"));
  EXPECT_THAT(matches(R"(^b$)", "a\nb\nc"), ElementsAre("b"));  // always line by line
  EXPECT_THAT(matches(R"([\p{L}&&[^a-f]]+)", "face zoo"), ElementsAre("zoo"));
  EXPECT_THAT(matches(R"([^\p{L}&&[a-f]]+)", "zaz"), ElementsAre("z", "z"));
  EXPECT_THAT(matches(R"([a[0-9]]+)", "a1b2"), ElementsAre("a1", "2"));
  EXPECT_THAT(matches(R"(\u3042)", "\u3042"), ElementsAre("\u3042"));
  EXPECT_THAT(matches(R"(\p{^L}+)", "ab12"), ElementsAre("12"));
  EXPECT_THAT(matches(R"(a(?i)b|c)", "aB C aC"), ElementsAre("aB", "aC"));  // a(?i:b|c)
  EXPECT_THAT(matches(R"(\w)", "\u00b2\u0301-"), ElementsAre("\u00b2", "\u0301"));
  EXPECT_THAT(matches(R"([\w]+)", "\u00b2a\u0301"), ElementsAre("a\u0301"));
  EXPECT_THAT(matches(R"(\bab\b)", "ab abc \u0301ab ab"), ElementsAre("ab", "ab"));
  EXPECT_THAT(matches(R"(\p{Han}+)", "、漢字。"), ElementsAre("漢字"));  // not by script extensions
  EXPECT_THAT(matches(R"([[:punct:]]+)", "a$b"), ElementsAre("$"));
  EXPECT_THAT(matches(R"(\p{Punct}+)", "a$b."), ElementsAre("."));
}

TEST(Oniguruma, CharactersOfUnicode16AreKnown) {
  EXPECT_THAT(matches(R"(\p{L}+)", "a\U000323AF\U00010D50"), ElementsAre("a\U000323AF\U00010D50"));
  EXPECT_THAT(matches(R"([^\p{L}]+)", "1\U000323AF"), ElementsAre("1"));
  EXPECT_THAT(matches(R"(\p{Cn}+)", "\U000323AF\u0378"), ElementsAre("\u0378"));
  EXPECT_THAT(matches(R"(\P{Cn}+)", "\U000323AF\u0378"), ElementsAre("\U000323AF"));
}

TEST(Oniguruma, LiteralsStayLiteral) {
  EXPECT_THAT(matches(R"(\.\/#& -~{x}]")", R"(./#& -~{x}]")"), ElementsAre(R"(./#& -~{x}]")"));
  EXPECT_THAT(matches(R"([\]\\\[^.\-a-c]+)", R"(]\[^.-abc d)"), ElementsAre(R"(]\[^.-abc)"));
  EXPECT_THAT(matches(R"([]a]+)", "]a["), ElementsAre("]a"));
  EXPECT_THAT(matches(R"([a-]+)", "a-b"), ElementsAre("a-"));
}

TEST(Oniguruma, RefusesByName) {
  const auto error = [](std::string_view pattern) {
    const auto translated = pcre2_from_oniguruma(pattern);
    EXPECT_FALSE(translated) << pattern << " became " << translated.value_or("");
    return translated ? std::make_pair(ErrorCode::kInternal, std::string())
                      : std::make_pair(translated.error().code, translated.error().message);
  };
  for (const char* pattern :
       {R"((a)\1)", R"(\X)", R"((?~a))", R"(\k<a>)", R"((?<a>b))", R"(\G)", "a{70000}", "a{3,1}",
        R"(\x80)", R"(\p{Print})", "a{2}?", "(*FAIL)"}) {
    EXPECT_EQ(error(pattern).first, ErrorCode::kUnsupported) << pattern;
  }
  for (const char* pattern :
       {"(", ")", "[", "[a", "[]", "a\\", "*", "(?", R"(\p{L)", R"(\u12)", "[b-a]", "[a&&]",
        R"(\x{110000})", R"(\x{D800})", "[[:alpha]", "\xFF"}) {
    const auto [code, message] = error(pattern);
    EXPECT_TRUE(code == ErrorCode::kInvalid || code == ErrorCode::kUnsupported) << pattern;
    EXPECT_THAT(message, testing::StartsWith("pattern: ")) << pattern;
  }
  EXPECT_FALSE(pcre2_from_oniguruma(std::string(100'000, 'a')));
  EXPECT_FALSE(pcre2_from_oniguruma(std::string(40, '[') + "a" + std::string(40, ']')));
  EXPECT_FALSE(Regex::compile(R"(\p{Klingon})"));
}

TEST(Regex, EmptyMatchesCutButDoNotRepeat) {
  const auto regex = Regex::compile("x*");
  ASSERT_TRUE(regex);
  std::vector<Regex::Span> spans;
  Regex::Matches walk(*regex, "axxé");
  while (const auto span = walk.next()) spans.push_back(*span);
  // Not at 3, where "xx" ended.
  EXPECT_THAT(spans, ElementsAre(Regex::Span{0, 0}, Regex::Span{1, 3}, Regex::Span{5, 5}));
}

TEST(Regex, LiteralTakesAnything) {
  const auto regex = Regex::literal("a.b");
  ASSERT_TRUE(regex);
  Regex::Matches walk(*regex, "aab a.b");
  EXPECT_EQ(walk.next(), (Regex::Span{4, 7}));
  EXPECT_EQ(walk.next(), std::nullopt);
}

// Effort is bounded: this would take 2^40 steps.
TEST(Regex, RunawayMatchEnds) {
  const auto regex = Regex::compile("(?:a|aa|a?a)+(?:a|b)+c");
  ASSERT_TRUE(regex);
  const std::string text(60, 'a');
  Regex::Matches walk(*regex, text);
  EXPECT_EQ(walk.next(), std::nullopt);
  EXPECT_EQ(walk.next(), std::nullopt);
}

// A pattern that costs little at each place, but at each as much as the text is long: minutes here.
TEST(Regex, PatternsThatAreSquareEnd) {
  const std::string text(std::size_t{1} << 18, 'a');
  for (const char* const pattern :
       {"[a-z]*[0-9]", "(?=[a-z]*[0-9])a", "(?:[a-z]|[a-y]x?)*+[0-9]", "(?:[a-z]+)*[0-9]"}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex) << pattern;
    Regex::Matches walk(*regex, text);
    EXPECT_EQ(walk.next(), std::nullopt) << pattern;
  }
}

// Walks over pieces of one text are bounded together, whether they find something or not.
TEST(Regex, WalksOfAThreadShareItsEffort) {
  const auto rare = Regex::compile("b");
  const auto every = Regex::compile("a");
  ASSERT_TRUE(rare && every);
  const std::string text = std::string(4000, 'a') + "b";
  const auto count = [&](const Regex& regex) {
    Regex::Matches walk(regex, text);
    int found = 0;
    while (walk.next()) ++found;
    return found;
  };
  EXPECT_EQ(count(*rare), 1);
  EXPECT_EQ(count(*every), 4000);
  {
    const RegexEffort none(0);
    EXPECT_EQ(count(*rare), 0);
    EXPECT_LT(count(*every), 64);
    const RegexEffort inner(RegexEffort::for_text(1));
    EXPECT_EQ(count(*rare), 0);
  }
  EXPECT_EQ(count(*rare), 1);
}

// Where matches begin is looked for in windows: nothing is missed between them.
TEST(Regex, MatchesBeginAnywhere) {
  const auto regex = Regex::compile("x+");
  ASSERT_TRUE(regex);
  for (const std::string unit : {"a", "é", "漢", "\U0001f600"}) {
    for (std::size_t before = 1; before < 2200; before += before < 300 ? 1 : 67) {
      std::string text;
      for (std::size_t i = 0; i < before; ++i) text += unit;
      const std::size_t begin = text.size();
      text += "xx" + text + "x";
      Regex::Matches walk(*regex, text);
      ASSERT_EQ(walk.next(), (Regex::Span{begin, begin + 2})) << before << unit;
      ASSERT_EQ(walk.next(), (Regex::Span{text.size() - 1, text.size()})) << before << unit;
      ASSERT_EQ(walk.next(), std::nullopt);
    }
  }
}

TEST(Regex, LongTextsAreLinear) {
  const auto regex = Regex::compile(
      R"((?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  ASSERT_TRUE(regex);
  for (const std::string unit : {"a", " ", "\n", "\r\n", " \n", "-", "é", "漢", "1", "'", "a "}) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    Regex::Matches walk(*regex, text);
    std::size_t end = 0;
    while (const auto span = walk.next()) {
      ASSERT_EQ(span->begin, end) << "something is left out of " << unit;
      end = span->end;
    }
    EXPECT_EQ(end, text.size()) << unit;
  }
}

}  // namespace
}  // namespace saccade
