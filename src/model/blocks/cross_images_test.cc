// Which rows of images each token sees, against the reference's rule written out token by token.
#include "model/blocks/cross_images.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/rng.h"

namespace saccade {
namespace {

Prompt prompt_of(std::vector<std::int64_t> tokens) {
  Prompt prompt;
  prompt.cross_attends = true;
  for (const std::int64_t token : tokens)
    prompt.images.push_back({token, 1, static_cast<int>(prompt.images.size()), 0});
  return prompt;
}

// get_cross_attention_token_mask of transformers' models/mllama: which images token `at` of
// `length` sees.
std::set<std::size_t> seen_by_rule(const std::vector<std::int64_t>& tokens, std::int64_t at,
                                   std::int64_t length) {
  std::vector<std::int64_t> ends(tokens.size(), length);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) ends[i] = tokens[i + 1];
  std::int64_t last = length;
  for (std::size_t i = tokens.size(); i-- > 0;) {
    if (tokens[i] == ends[i] - 1) ends[i] = last;
    last = ends[i];
  }
  std::set<std::size_t> seen;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] <= at && at < ends[i]) seen.insert(i);
  return seen;
}

void expect_rule(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& rows,
                 std::int64_t length, std::int64_t block, std::int64_t chunk) {
  const std::vector<CrossImage> images = lay_out_cross_images(prompt_of(tokens), rows, block);
  const std::int64_t stream = stream_length(images, block);
  ASSERT_EQ(stream % block, 0);
  std::vector<std::int32_t> table(static_cast<std::size_t>(stream / block));
  std::iota(table.begin(), table.end(), 100);

  // Where each image's rows are, from the spans that write them; and what each token sees, from
  // those that read.
  std::vector<std::vector<std::int64_t>> written;
  std::vector<std::vector<std::int64_t>> seen(static_cast<std::size_t>(length));
  for (std::int64_t begin = 0; begin < length; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, length);
    CrossSpans spans;
    spans.add(images, begin, end, table, block);
    std::vector<std::int32_t> seeing;
    add_seeing_rows(images, begin, end, 5, seeing);
    const auto place = [&](const SequenceSpan& span, std::int64_t position) {
      return (span.blocks[static_cast<std::size_t>(position / block)] - 100) * block +
             position % block;
    };
    std::int64_t next = 0;
    for (const SequenceSpan& span : spans.images) {
      ASSERT_EQ(span.row_begin, next);
      next += span.row_count;
      std::vector<std::int64_t>& at = written.emplace_back();
      for (std::int64_t row = 0; row < span.row_count; ++row)
        at.push_back(place(span, span.context + row));
    }
    next = 0;
    for (const SequenceSpan& span : spans.seeing) {
      ASSERT_EQ(span.row_begin, next);
      ASSERT_EQ(span.context, 0);
      ASSERT_LE(span.row_count, span.prefix);
      for (std::int64_t row = 0; row < span.row_count; ++row, ++next) {
        const std::int64_t token = seeing[static_cast<std::size_t>(next)] - 5 + begin;
        for (std::int64_t key = 0; key < span.prefix; ++key)
          seen[static_cast<std::size_t>(token)].push_back(place(span, key));
      }
    }
    ASSERT_EQ(next, static_cast<std::int64_t>(seeing.size()));
  }
  ASSERT_EQ(written.size(), tokens.size());
  std::set<std::int64_t> all;
  for (std::size_t i = 0; i < written.size(); ++i) {
    ASSERT_EQ(static_cast<std::int64_t>(written[i].size()), rows[i]);
    for (const std::int64_t place : written[i]) ASSERT_TRUE(all.insert(place).second) << place;
  }
  for (std::int64_t token = 0; token < length; ++token) {
    std::vector<std::int64_t> want;
    for (const std::size_t image : seen_by_rule(tokens, token, length))
      want.insert(want.end(), written[image].begin(), written[image].end());
    ASSERT_EQ(seen[static_cast<std::size_t>(token)], want) << "token " << token;
  }
}

TEST(CrossImages, TokensSeeWhatTheReferencesRuleSays) {
  expect_rule({}, {}, 5, 16, 5);
  expect_rule({0}, {17}, 9, 16, 9);
  expect_rule({3}, {1}, 40, 4, 7);
  expect_rule({2, 3, 4, 9}, {5, 17, 1, 30}, 20, 16, 3);
  expect_rule({0, 1, 8, 9, 10}, {3, 3, 3, 3, 3}, 11, 4, 2);
  Rng rng(4);
  for (int round = 0; round < 300; ++round) {
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); };
    const std::int64_t length = 1 + below(30);
    std::vector<std::int64_t> tokens;
    std::vector<std::int64_t> rows;
    for (std::int64_t token = 0; token < length; ++token) {
      if (below(4) != 0) continue;
      tokens.push_back(token);
      rows.push_back(1 + below(40));
    }
    SCOPED_TRACE(round);
    ASSERT_NO_FATAL_FAILURE(expect_rule(tokens, rows, length, 1 + below(16), 1 + below(12)));
  }
}

TEST(CrossImages, NoneWhereImagesTakePlacesOfTheText) {
  Prompt prompt = prompt_of({1});
  prompt.cross_attends = false;
  EXPECT_TRUE(lay_out_cross_images(prompt, std::vector<std::int64_t>{4}, 16).empty());
  EXPECT_EQ(stream_length({}, 16), 0);
}

}  // namespace
}  // namespace saccade
