// Of the choices made, the likeliest are given, prompt by prompt.
#include "api/answers/best_choices.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "api/answers/completion_writer.h"

namespace saccade::api {
namespace {

AnswerPiece piece(int choice, std::string text, double logprob, bool last) {
  AnswerPiece made;
  made.said.push_back({SaidPart::Kind::kText, text, -1, ""});
  made.tokens = 1;
  made.rest.index = choice;
  made.rest.logprobs = std::vector<LogprobEntry>{{text, 1, logprob, {}}};
  if (last) made.rest.finish_reason = "stop";
  return made;
}

json::value run(bool logprobs) {
  const auto writer = best_choices({.prompts = 2, .made = 3, .given = 2, .logprobs = logprobs},
                                   whole_completion({{"cmpl-1", 7, "m"}, false, false}, 4));
  // Of the first prompt: means -1.5, -0.5, -1; of the second: -3, and two that are equal.
  EXPECT_EQ(writer->add(piece(0, "a", -1.5, true), nullptr), "");
  writer->add(piece(5, "f", -2, true), nullptr);
  writer->add(piece(1, "b", -0.1, false), nullptr);
  writer->add(piece(2, "c", -1, true), nullptr);
  writer->add(piece(1, "B", -0.9, true), nullptr);
  writer->add(piece(3, "d", -3, true), nullptr);
  writer->add(piece(4, "e", -2, true), nullptr);
  return json::parse(writer->finish({.prompt_tokens = 4, .completion_tokens = 7}, nullptr)).value();
}

TEST(BestChoices, TheLikeliestAreGivenBestFirst) {
  const json::value answer = run(false);
  const auto& choices = answer.at("choices").as_array();
  ASSERT_EQ(choices.size(), 4u);
  const char* texts[] = {"bB", "c", "e", "f"};
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_EQ(choices[i].at("index").as_int64(), static_cast<std::int64_t>(i));
    EXPECT_EQ(choices[i].at("text").as_string(), texts[i]);
    EXPECT_EQ(choices[i].at("finish_reason").as_string(), "stop");
    EXPECT_TRUE(choices[i].at("logprobs").is_null());
  }
  EXPECT_EQ(answer.at("usage").at("completion_tokens").as_int64(), 7);
}

TEST(BestChoices, LogprobsAreGivenWhereTheyWereAskedFor) {
  const json::value answer = run(true);
  EXPECT_EQ(answer.at("choices").at(0).at("logprobs").at("token_logprobs"),
            (json::array{-0.1, -0.9}));
}

// What is the prompt's is every choice's alike: the answers alone are compared.
TEST(BestChoices, AnEchoedPromptDoesNotCount) {
  const auto writer = best_choices({.prompts = 1, .made = 2, .given = 1, .logprobs = true},
                                   whole_completion({{"cmpl-1", 7, "m"}, false, false}, 1));
  for (const int choice : {0, 1}) {
    AnswerPiece first = piece(choice, choice == 0 ? "a" : "b", choice == 0 ? -2 : -1, choice == 0);
    LogprobEntry prompt{"p", 2, -9, {}};
    prompt.echoed = true;
    first.rest.logprobs->insert(first.rest.logprobs->begin(), prompt);
    writer->add(std::move(first), nullptr);
  }
  // With the prompt's the means are -5.5 and -5; without, -2 and -2.5.
  writer->add(piece(1, "B", -4, true), nullptr);
  const json::value answer = json::parse(writer->finish({}, nullptr)).value();
  EXPECT_EQ(answer.at("choices").at(0).at("text").as_string(), "a");
  EXPECT_EQ(answer.at("choices").at(0).at("logprobs").at("token_logprobs"),
            (json::array{-9.0, -2.0}));
}

}  // namespace
}  // namespace saccade::api
