#include "engine/stop_checker.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace saccade {
namespace {

TEST(StopChecker, HoldsBackTheBeginningOfAStop) {
  StopChecker checker({"END"}, false);
  EXPECT_EQ(checker.push("ab E").text, "ab ");
  EXPECT_EQ(checker.push("N").text, "");
  EXPECT_EQ(checker.push("x").text, "ENx");
  const auto verdict = checker.push("END of it");
  EXPECT_EQ(verdict.text, "");
  EXPECT_EQ(verdict.matched, "END");
}

TEST(StopChecker, KeepsTheStopWhenAsked) {
  StopChecker checker({"\n\n"}, true);
  EXPECT_EQ(checker.push("a\n").text, "a");
  const auto verdict = checker.push("\nb");
  EXPECT_EQ(verdict.text, "\n\n");
  EXPECT_TRUE(verdict.matched.has_value());
}

TEST(StopChecker, HeldTextComesOutAtTheEnd) {
  StopChecker checker({"abc"}, false);
  EXPECT_EQ(checker.push("xab").text, "x");
  EXPECT_EQ(checker.finish(), "ab");
}

TEST(StopChecker, NotArmedPassesEverything) {
  StopChecker checker({"a"}, false);
  EXPECT_EQ(checker.push("banana", false).text, "banana");
  EXPECT_TRUE(checker.push("a").matched.has_value());
}

// Any way of cutting the text gives what one search over the whole gives.
TEST(StopChecker, CuttingDoesNotMatter) {
  Rng rng(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 24; ++i) text += static_cast<char>('a' + rng.below(2));
    std::vector<std::string> stops;
    for (std::uint64_t i = 0; i <= rng.below(3); ++i) {
      std::string stop;
      for (std::uint64_t j = 0; j <= rng.below(5); ++j)
        stop += static_cast<char>('a' + rng.below(2));
      stops.push_back(stop);
    }
    // The stop that completes first ends the text; among those that complete together, the earliest
    // beginning.
    std::size_t end = std::string::npos;
    std::size_t begin = 0;
    for (const auto& stop : stops) {
      const std::size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
        end = at + stop.size();
        begin = at;
      }
    }
    const std::string expected = end == std::string::npos ? text : text.substr(0, begin);
    StopChecker checker(stops, false);
    std::string got;
    bool matched = false;
    for (std::size_t i = 0; i < text.size() && !matched;) {
      const std::size_t piece = 1 + rng.below(6);
      const auto verdict = checker.push(text.substr(i, piece));
      i += piece;
      got += verdict.text;
      matched = verdict.matched.has_value();
    }
    got += checker.finish();
    ASSERT_EQ(got, expected) << text;
    ASSERT_EQ(matched, end != std::string::npos);
  }
}

}  // namespace
}  // namespace saccade
