#include "engine/step/stop_checker.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/support/letter_tokenizer.h"

namespace saccade {
namespace {

struct Answer {
  std::string text;
  std::vector<std::string> pieces;
  Delta last;
};

Answer run(const SamplingParams& params, const std::vector<TokenId>& tokens,
           std::int64_t max_length = 1000) {
  static const LetterTokenizer tokenizer;
  StopChecker checker(params, &tokenizer, {0}, 4, max_length);
  Answer answer;
  for (const TokenId token : tokens) {
    answer.last = checker.push(token);
    answer.text += answer.last.text;
    answer.pieces.push_back(answer.last.text);
    if (answer.last.finish != FinishReason::kNone) break;
  }
  return answer;
}

std::vector<TokenId> letters(std::string_view text) { return {text.begin(), text.end()}; }

SamplingParams stops(std::vector<std::string> strings) {
  SamplingParams params;
  params.max_tokens = 1000;
  params.stop = std::move(strings);
  return params;
}

TEST(StopChecker, HoldsBackTheBeginningOfAStop) {
  const Answer answer = run(stops({"END"}), letters("ab ENx END of it"));
  EXPECT_EQ(answer.text, "ab ENx ");
  EXPECT_EQ(answer.pieces[3], "");
  EXPECT_EQ(answer.pieces[4], "");
  EXPECT_EQ(answer.pieces[5], "ENx");
  EXPECT_EQ(answer.last.finish, FinishReason::kStop);
  EXPECT_EQ(answer.last.stop_string, "END");
}

TEST(StopChecker, KeepsTheStopWhenAsked) {
  SamplingParams params = stops({"!!"});
  params.include_stop_str_in_output = true;
  EXPECT_EQ(run(params, letters("a!b!!c")).text, "a!b!!");
}

TEST(StopChecker, HeldTextComesOutAtTheLimit) {
  SamplingParams params = stops({"abc"});
  params.max_tokens = 3;
  const Answer answer = run(params, letters("xabc"));
  EXPECT_EQ(answer.text, "xab");
  EXPECT_EQ(answer.last.finish, FinishReason::kLength);
}

TEST(StopChecker, AStopStringWinsOverTheLimit) {
  SamplingParams params = stops({"c"});
  params.max_tokens = 3;
  EXPECT_EQ(run(params, letters("abc")).last.finish, FinishReason::kStop);
  EXPECT_EQ(run(params, letters("abd")).last.finish, FinishReason::kLength);
  EXPECT_EQ(run(stops({}), letters("abcdef"), 7).text, "abc");  // prompt of 4, room for 7
}

TEST(StopChecker, EndTokensEndTheAnswerAndHaveNoText) {
  const Answer answer = run(stops({}), {'a', 'b', 0, 'c'});
  EXPECT_EQ(answer.text, "ab");
  EXPECT_EQ(answer.last.finish, FinishReason::kStop);
  EXPECT_FALSE(answer.last.stop_token.has_value());
  SamplingParams params = stops({});
  params.skip_special_tokens = false;
  EXPECT_EQ(run(params, {'a', 0}).text, "a");
  params.ignore_eos = true;
  EXPECT_EQ(run(params, {'a', 0, 'b'}).text, "a<end>b");
  params.stop_token_ids = std::vector<TokenId>{'b'};
  const Answer stopped = run(params, letters("abc"));
  EXPECT_EQ(stopped.text, "a");
  EXPECT_EQ(stopped.last.stop_token, 'b');
  params.include_stop_str_in_output = true;
  EXPECT_EQ(run(params, letters("abc")).text, "ab");
}

TEST(StopChecker, NothingEndsWithinMinTokens) {
  SamplingParams params = stops({"b", "de"});
  params.min_tokens = 3;
  params.stop_token_ids = std::vector<TokenId>{'a'};
  // "b" ends inside; "de" ends outside, though it begins inside.
  EXPECT_EQ(run(params, letters("bbdef")).text, "bb");
  EXPECT_EQ(run(params, letters("aaba")).text, "aab");
  // The last of them may end it.
  EXPECT_EQ(run(params, letters("fbac")).text, "fb");
}

TEST(StopChecker, CharactersAreWhole) {
  const Answer answer = run(stops({"x"}), {'a', 1, 2, 'b', 1, 0});
  EXPECT_EQ(answer.pieces[1], "");
  EXPECT_EQ(answer.pieces[2], "\xC3\xA9");
  EXPECT_EQ(answer.text,
            "a\xC3\xA9"
            "b\xEF\xBF\xBD");
}

// The answer is what one search over the whole text gives, and never a byte is taken back.
TEST(StopChecker, AgreesWithASearchOverTheWhole) {
  Rng rng(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 24; ++i) text += static_cast<char>('a' + rng.below(2));
    std::vector<std::string> strings(1 + rng.below(3));
    for (std::string& stop : strings) {
      for (std::uint64_t j = 0; j <= rng.below(5); ++j) {
        stop += static_cast<char>('a' + rng.below(2));
      }
    }
    std::size_t begin = std::string::npos;
    std::size_t end = std::string::npos;
    for (const std::string& stop : strings) {
      const std::size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
        begin = at;
        end = at + stop.size();
      }
    }
    const Answer answer = run(stops(strings), letters(text));
    if (end == std::string::npos) {
      EXPECT_EQ(answer.last.finish, FinishReason::kNone);
      EXPECT_EQ(text.substr(0, answer.text.size()), answer.text);
    } else {
      ASSERT_EQ(answer.text, text.substr(0, begin)) << text;
      ASSERT_EQ(answer.pieces.size(), end);
    }
  }
}

// Half a character and the letter after it come out together, three bytes and one.
TEST(StopChecker, OfTwoThatComeAtOnceTheOneThatIsCompleteFirst) {
  const std::vector<TokenId> tokens = {'x', 'a', 1, 'b'};
  const std::string mark = "\uFFFD";
  EXPECT_EQ(run(stops({mark, "a" + mark + "b"}), tokens).text, "xa");
  EXPECT_EQ(run(stops({mark + "b", "a" + mark + "b"}), tokens).text, "x");
}

TEST(StopChecker, AStopIsFoundWhereverTheTextIsShortened) {
  for (std::size_t length = 4080; length < 4120; ++length) {
    SamplingParams params = stops({"!"});
    params.max_tokens = 100000;
    const std::string text(length, 'a');
    const Answer answer = run(params, letters(text + "!a"), 200000);
    EXPECT_EQ(answer.text, text);
    EXPECT_EQ(answer.last.stop_string, "!") << length;
  }
}

TEST(StopChecker, LongAnswersAreNotKeptWhole) {
  SamplingParams params = stops({"stop"});
  params.max_tokens = 100000;
  std::string text;
  for (int i = 0; i < 30000; ++i) text += static_cast<char>('a' + i % 17);
  EXPECT_EQ(run(params, letters(text + "stop"), 200000).text, text);
}

}  // namespace
}  // namespace saccade
