#include "bench/metrics/text_similarity.h"

#include <gtest/gtest.h>

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
