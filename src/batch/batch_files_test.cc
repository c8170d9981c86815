#include "batch/batch_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "batch/batch_line.h"
#include "tests/support/temporary_directory.h"

namespace saccade::batch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class BatchFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    test::write_file(path, text);
    return path;
  }
  // The error, or the lines that were known.
  Result<std::vector<std::string>> open_output(const std::string& path,
                                               const std::string& more = "") {
    TRY(const LineScanner input, LineScanner::open(input_));
    std::vector<std::string> known;
    TRY(OutputFile output,
        OutputFile::open(path, input, [&](std::string_view line) -> Result<void> {
          TRY(const AnsweredKey key, read_answer_key(line));
          known.push_back(key.custom_id.value_or(key.id));
          return {};
        }));
    if (!more.empty()) TRY_DO(output.append(more));
    return known;
  }

  test::TemporaryDirectory folder_;
  std::string input_ = write("in.jsonl", "{}\n");
};

std::string answer(std::string_view id) {
  return answer_line(1, id, {200, "application/json", "{}", {}});
}

TEST_F(BatchFiles, LinesHaveTheirPlaces) {
  const std::string far(3'000'000, 'x');  // over several of the scanner's buffers
  const std::string path = write("x", "a\n\n  \t\r\n" + far + "\nlast");
  auto scanner = LineScanner::open(path);
  ASSERT_TRUE(scanner);
  EXPECT_EQ(scanner->count().value(), 3);
  std::vector<std::pair<std::int64_t, std::string>> seen;
  std::vector<bool> ended;
  while (const auto place = scanner->next().value()) {
    seen.emplace_back(place->number, scanner->text(*place).value());
    ended.push_back(scanner->ended(*place));
  }
  EXPECT_THAT(seen,
              ElementsAre(testing::Pair(1, "a"), testing::Pair(4, far), testing::Pair(5, "last")));
  EXPECT_THAT(ended, ElementsAre(true, true, false));
}

TEST_F(BatchFiles, EmptyFilesHaveNone) {
  auto scanner = LineScanner::open(write("x", ""));
  ASSERT_TRUE(scanner);
  EXPECT_FALSE(scanner->next().value());
  EXPECT_FALSE(LineScanner::open(folder_.path()));
  const auto missing = LineScanner::open(folder_ / "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/none"));
}

TEST_F(BatchFiles, AnOutputGoesOnBehindItsLastWholeLine) {
  const std::string torn = answer("c");
  for (std::size_t size = 0; size < torn.size(); size += 7) {
    const std::string path = write("out", answer("a") + answer("b") + torn.substr(0, size));
    const auto known = open_output(path, answer("d"));
    ASSERT_TRUE(known) << known.error().message;
    EXPECT_THAT(*known, ElementsAre("a", "b"));
    EXPECT_EQ(test::read_file(path), answer("a") + answer("b") + answer("d"));
  }
}

TEST_F(BatchFiles, WhatIsNoOutputIsLeftAlone) {
  for (const std::string& text :
       {std::string("{\"model_type\": \"x\"}"), std::string("{\"model_type\": \"x\"}\n"),
        answer("a") + "torn\n" + answer("b"), answer("a") + "other"}) {
    const std::string path = write("out", text);
    const auto refused = open_output(path);
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().message, HasSubstr("/out line "));
    EXPECT_EQ(test::read_file(path), text);
  }
  const auto itself = open_output(input_);
  ASSERT_FALSE(itself);
  EXPECT_THAT(itself.error().message, HasSubstr("is the input"));
}

TEST_F(BatchFiles, OneRunWritesAtATime) {
  const std::string path = write("out", "");
  const auto input = LineScanner::open(input_);
  ASSERT_TRUE(input);
  const auto none = [](std::string_view) -> Result<void> { return {}; };
  const auto first = OutputFile::open(path, *input, none);
  ASSERT_TRUE(first);
  const auto second = OutputFile::open(path, *input, none);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another run"));
}

}  // namespace
}  // namespace saccade::batch
