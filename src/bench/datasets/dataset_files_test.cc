// Which rows of a file are asked, against vLLM's client.
#include "bench/datasets/dataset_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/support/temporary_directory.h"

namespace saccade::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using Rows = std::vector<std::size_t>;

// A token a word, and one special token before a text.
class WordsWithBos final : public TextSource {
 public:
  MadeText repeat_one(std::int32_t, Rng&) override { return {}; }
  MadeText extend(std::string_view, std::int32_t, Rng&) override { return {}; }
  std::int32_t count(std::string_view text) const override {
    return static_cast<std::int32_t>(std::count(text.begin(), text.end(), 'w'));
  }
  bool exact() const override { return true; }
  std::int32_t added() const override { return 1; }
};

std::string words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "w ";
  return text;
}

std::string conversation(int question, int answer) {
  return fmt::format(
      R"({{"conversations": [{{"from": "human", "value": "{}"}}, {{"from": "gpt", "value": "{}"}}]}})"
      "\n",
      words(question), words(answer));
}

// len(tokenizer(text).input_ids) has the special tokens, so that the limits 4, 1024 and 2048 do.
TEST(ShareGpt, SpecialTokensCount) {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "rows.jsonl";
  test::write_file(path, conversation(3, 3) + conversation(2, 9) + conversation(9, 2) +
                             conversation(1023, 1023) + conversation(1024, 9) +
                             conversation(1023, 1024));
  WordsWithBos text;
  DatasetContext context;
  context.text = &text;
  const auto dataset =
      sharegpt_dataset({.path = path, .rows = {.shuffle = false, .oversample = false}}, context);
  ASSERT_TRUE(dataset) << dataset.error().message;
  std::vector<std::pair<std::int32_t, std::int32_t>> lengths;
  for (const Prompt& prompt : dataset->prompts)
    lengths.emplace_back(prompt.text_tokens, prompt.max_tokens);
  EXPECT_THAT(lengths, ElementsAre(std::pair(4, 4), std::pair(1024, 1024)));
}

// A Parquet file's captions are counted like those of JSON lines.
TEST(Captions, OfParquet) {
  WordsWithBos text;
  DatasetContext context;
  context.text = &text;
  context.num_prompts = 2;
  CaptionSettings settings;
  settings.path = SACCADE_SOURCE_DIR "/tests/golden/bench/captions.parquet";
  settings.reencode = false;
  const auto dataset = caption_dataset(settings, context);
  if (!dataset && dataset.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << "no Arrow";
  ASSERT_TRUE(dataset) << dataset.error().message;
  std::vector<std::tuple<std::int32_t, std::int32_t, std::string>> rows;
  for (const Prompt& prompt : dataset->prompts)
    rows.emplace_back(prompt.messages[0].parts[1].image->width, prompt.text_tokens,
                      prompt.reference);
  EXPECT_THAT(rows, UnorderedElementsAre(std::tuple(8, 3, "a small square"),
                                         std::tuple(16, 5, "a larger one")));
}

// As CPython 3.11 draws them: random.seed(s), random.shuffle(rows); then random.seed(s) again and
// random.choice(rows) for each that is missing.
TEST(ChooseRows, AsVllmsClientDraws) {
  EXPECT_EQ(choose_rows(3, 12, {}, 0), (Rows{0, 2, 1, 2, 2, 0, 2, 1, 2, 2, 2, 2}));
  EXPECT_EQ(choose_rows(3, 12, {}, 7), (Rows{2, 0, 1, 0, 2, 0, 1, 2, 2, 1, 2, 0}));
  EXPECT_EQ(choose_rows(3, 9, {.shuffle = false}, 7), (Rows{0, 1, 2, 1, 0, 1, 2, 0, 0}));
  EXPECT_EQ(choose_rows(5, 3, {}, 7), (Rows{4, 0, 3}));
  EXPECT_EQ(choose_rows(3, 12, {.oversample = false}, 0), (Rows{0, 2, 1}));
  EXPECT_EQ(choose_rows(0, 12, {}, 0), Rows{});
}

}  // namespace
}  // namespace saccade::bench
