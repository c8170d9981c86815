#include "bench/load/measured_run.h"

#include <gtest/gtest.h>

#include "bench/metrics/metrics.h"
#include "tests/support/hand_log.h"
#include "tests/support/letter_tokenizer.h"

namespace saccade::bench {
namespace {

constexpr EventKinds kMeasuredText = kChoicesEvent | kContentEvent;
constexpr EventKinds kMeasuredThought = kChoicesEvent | kReasoningEvent;
constexpr EventKinds kMeasuredFinish = kChoicesEvent | kFinishEvent;

RequestMetrics measured(HandRequest request, bool with_tokenizer) {
  request.end_ms = 400;
  RunLog log = hand_log({std::move(request)});
  if (with_tokenizer) count_answers(log, LetterTokenizer());
  return compute_metrics(log).requests.at(0);
}

// Four tokens as two and two: a tokenizer tells, without one nobody knows.
TEST(CountAnswers, EventsOfSeveralTokens) {
  const HandRequest request = {.events = {{100, kMeasuredText, kUnknownTokens, 2},
                                          {200, kMeasuredText, kUnknownTokens, 2},
                                          {210, kMeasuredFinish}},
                               .completion_tokens = 4,
                               .answer = "abcd"};
  EXPECT_FALSE(measured(request, false).tpot);
  const RequestMetrics told = measured(request, true);
  EXPECT_FALSE(told.unsplit);
  EXPECT_NEAR(told.tpot.value_or(0) * 1e3, 50, 1e-6);

  RunLog log = hand_log({request});
  count_answers(log, LetterTokenizer());
  const RunMetrics metrics = compute_metrics(log);
  ASSERT_EQ(metrics.itl_values.size(), 2u);
  EXPECT_NEAR(metrics.itl_values[0] * 1e3, 50, 1e-6);
  EXPECT_EQ(log.events[0].tokens, 2);
  EXPECT_EQ(log.events[2].tokens, kUnknownTokens);  // the end brings no text
}

// The tokenizer says nothing where it makes other numbers than the server, or the texts are not
// known; and what is one token an event is left as it is.
TEST(CountAnswers, OnlyWhereItsNumbersAreTheServers) {
  HandRequest request = {
      .events = {{100, kMeasuredText, kUnknownTokens, 3}, {200, kMeasuredText, kUnknownTokens, 3}},
      .completion_tokens = 4,
      .answer = "abcdef"};
  EXPECT_FALSE(measured(request, true).tpot);  // six letters, four tokens
  request.completion_tokens = kUnknownTokens;
  EXPECT_NEAR(measured(request, true).tpot.value_or(0) * 1e3, 100.0 / 3, 1e-6);
  request.events[1].text = 9;  // more than the answer has
  EXPECT_FALSE(measured(request, true).tpot);
  request.events[1].text = kLongText;
  EXPECT_FALSE(measured(request, true).tpot);

  HandRequest single = {
      .events = {{100, kMeasuredText, kUnknownTokens, 1}, {200, kMeasuredText, kUnknownTokens, 1}},
      .completion_tokens = 2,
      .answer = "ab"};
  RunLog log = hand_log({single});
  count_answers(log, LetterTokenizer());
  EXPECT_EQ(log.events[0].tokens, kUnknownTokens);
}

// Thoughts and the answer are texts of their own; an end token has no text.
TEST(CountAnswers, ThoughtsAndTheEnd) {
  HandRequest request = {.events = {{100, kMeasuredText, kUnknownTokens, 2},
                                    {200, kMeasuredText, kUnknownTokens, 3},
                                    {210, kMeasuredFinish}},
                         .completion_tokens = 6,
                         .answer = "abcde"};
  EXPECT_TRUE(measured(request, true).tpot);
  request.completion_tokens = 7;
  EXPECT_FALSE(measured(request, true).tpot);

  RunLog log = hand_log({{.end_ms = 300,
                          .events = {{100, kMeasuredThought, kUnknownTokens, 3},
                                     {200, kMeasuredText, kUnknownTokens, 2}},
                          .completion_tokens = 5,
                          .answer = "de"}});
  std::string& text = log.text;
  log.requests[0].reasoning = {text.size(), 3};
  text += "abc";
  count_answers(log, LetterTokenizer());
  EXPECT_EQ(log.events[0].tokens, 3);
  EXPECT_EQ(log.events[1].tokens, 2);
}

}  // namespace
}  // namespace saccade::bench
