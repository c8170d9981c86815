#include "engine/drafting/prompt_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace saccade {
namespace {

using Tokens = std::vector<TokenId>;

Tokens draft_of(const Tokens& tokens, std::int64_t shortest, std::int64_t longest,
                std::int64_t most) {
  PromptLookup lookup(shortest, longest);
  lookup.read(tokens);
  Tokens draft;
  const bool found = lookup.propose(tokens, most, draft);
  EXPECT_EQ(found, !draft.empty());
  return draft;
}

TEST(PromptLookup, GoesOnAsLastTime) {
  EXPECT_EQ(draft_of({1, 2, 3, 4, 5, 1, 2}, 2, 2, 3), (Tokens{3, 4, 5}));
  EXPECT_EQ(draft_of({1, 2, 3, 4, 5, 1, 2}, 3, 3, 3), Tokens{});
  // The longest n-gram decides, not the latest.
  EXPECT_EQ(draft_of({7, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2}, 2, 3, 1), (Tokens{3}));
  // Of equals the latest.
  EXPECT_EQ(draft_of({7, 1, 2, 3, 9, 1, 2, 4, 8, 1, 2}, 2, 3, 1), (Tokens{4}));
}

TEST(PromptLookup, GoesRoundWhereThePlaceIsNear) {
  EXPECT_EQ(draft_of({5, 5}, 1, 3, 4), (Tokens{5, 5, 5, 5}));
  EXPECT_EQ(draft_of({9, 1, 2, 1, 2}, 1, 4, 5), (Tokens{1, 2, 1, 2, 1}));
}

TEST(PromptLookup, OfNothingNothing) {
  EXPECT_EQ(draft_of({}, 1, 3, 4), Tokens{});
  EXPECT_EQ(draft_of({1}, 1, 3, 4), Tokens{});
  EXPECT_EQ(draft_of({1, 1}, 1, 3, 0), Tokens{});
}

// The same by looking through the whole text each time.
Tokens naive(const Tokens& tokens, std::int64_t shortest, std::int64_t longest, std::int64_t most) {
  const auto known = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t length = std::min(longest, known - 1); length >= shortest; --length) {
    for (std::int64_t end = known - 1; end >= length; --end) {
      if (!std::equal(tokens.end() - length, tokens.end(), tokens.begin() + (end - length)))
        continue;
      Tokens draft(tokens.begin() + end, tokens.end());
      while (static_cast<std::int64_t>(draft.size()) < most)
        draft.push_back(draft[draft.size() - static_cast<std::size_t>(known - end)]);
      draft.resize(static_cast<std::size_t>(most));
      return draft;
    }
  }
  return {};
}

TEST(PromptLookup, IsWhatASearchThroughTheTextFinds) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const auto shortest = 1 + static_cast<std::int64_t>(rng.below(3));
    const auto longest = shortest + static_cast<std::int64_t>(rng.below(4));
    const std::uint64_t alphabet = 2 + rng.below(5);
    PromptLookup lookup(shortest, longest);
    Tokens tokens;
    Tokens draft;
    while (tokens.size() < 300) {
      for (std::uint64_t more = 1 + rng.below(5); more > 0; --more)
        tokens.push_back(static_cast<TokenId>(rng.below(alphabet)));
      lookup.read(tokens);
      lookup.propose(tokens, 4, draft);
      ASSERT_EQ(draft, naive(tokens, shortest, longest, 4)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace saccade
