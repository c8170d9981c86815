#include "bench/metrics/text_similarity.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace saccade::bench {
namespace {

TEST(TextSimilarity, LongestCommonSubsequence) {
  // "police the gunman" of "police kill the gunman": 3 of 4 words, in order.
  const Overlap some = rouge_l("police kill the gunman", "Police ended the gunman!");
  EXPECT_DOUBLE_EQ(some.f1, 0.75);
  // The same words in another order have a shorter subsequence: "the gunman".
  EXPECT_DOUBLE_EQ(rouge_l("the gunman kill police", "police kill the gunman").f1, 0.5);
  EXPECT_DOUBLE_EQ(rouge_l("A cat.", "a CAT").f1, 1);
  EXPECT_DOUBLE_EQ(rouge_l("a b c d", "b").precision, 0.25);
  EXPECT_DOUBLE_EQ(rouge_l("a b c d", "b").recall, 1);
  EXPECT_DOUBLE_EQ(rouge_l("", "").f1, 0);
  EXPECT_DOUBLE_EQ(rouge_l("x", "").f1, 0);
}

TEST(TextSimilarity, WordsInCommon) {
  // Articles and punctuation do not count; a word counts as often as both have it.
  EXPECT_DOUBLE_EQ(token_f1("The cat, the dog", "a dog and cat").f1, 0.8);
  EXPECT_DOUBLE_EQ(token_f1("yes yes yes", "yes").f1, 0.5);
  EXPECT_DOUBLE_EQ(token_f1("the", "a").f1, 1);
  EXPECT_DOUBLE_EQ(token_f1("the", "dog").f1, 0);
}

TEST(TextSimilarity, LettersOfMultipleChoice) {
  EXPECT_EQ(answer_letter("It is clear.\nAnswer: B"), 'B');
  EXPECT_EQ(answer_letter("answer: (c) because"), 'C');
  EXPECT_EQ(answer_letter("Answer: A, no: Answer: $D$"), 'D');
  EXPECT_EQ(answer_letter("Answer: Both"), std::nullopt);
  EXPECT_EQ(answer_letter("B"), std::nullopt);
  EXPECT_EQ(answer_letter("Answer: 3."), '3');
  EXPECT_EQ(answer_letter("Answer: 35"), std::nullopt);
  EXPECT_EQ(answer_letter("Answer: 3.5"), std::nullopt);
}

// A model that is asked for the letter alone says the letter alone.
TEST(TextSimilarity, BareLettersAreAnswersToo) {
  const auto accuracy = [](const std::string& said, const std::string& key) {
    test::TemporaryDirectory folder;
    const std::string path = folder.path() + "/run.json";
    std::ofstream(path) << R"({"individual_request_metrics": [{"generated_text": ")" << said
                        << R"(", "answer_text": ")" << key << R"("}]})";
    const std::string report = similarity_report(path).value();
    const std::size_t at = report.find("answer accuracy (n 1)");
    return at == std::string::npos ? "none" : report.substr(at + 29, 6);
  };
  EXPECT_EQ(accuracy("B", "B"), "1.0000");
  EXPECT_EQ(accuracy(" (b).", "B"), "1.0000");
  EXPECT_EQ(accuracy("3", "3"), "1.0000");
  EXPECT_EQ(accuracy("It must be so. Answer: C", "C"), "1.0000");
  EXPECT_EQ(accuracy("B", "Answer: B"), "1.0000");
  EXPECT_EQ(accuracy("A", "B"), "0.0000");
  EXPECT_EQ(accuracy("33", "3"), "0.0000");
  EXPECT_EQ(accuracy("", "B"), "0.0000");
  EXPECT_EQ(accuracy("A or B", "B"), "0.0000");
  EXPECT_EQ(accuracy("a cat", "a cat"), "none");
}

TEST(TextSimilarity, CosineOfTwoVectors) {
  const std::vector<float> a = {3, 4};
  EXPECT_DOUBLE_EQ(cosine(a, a), 1);
  EXPECT_DOUBLE_EQ(cosine(a, std::vector<float>{-4, 3}), 0);
  EXPECT_DOUBLE_EQ(cosine(a, std::vector<float>{-6, -8}), -1);
  EXPECT_DOUBLE_EQ(cosine(a, std::vector<float>{0, 0}), 0);
}

}  // namespace
}  // namespace saccade::bench
