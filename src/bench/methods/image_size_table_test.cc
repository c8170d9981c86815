#include "bench/methods/image_size_table.h"

#include <gtest/gtest.h>

namespace saccade::bench {
namespace {

struct Asked {
  double ttft_s = 0;
  std::int32_t image_tokens = 0;
  std::string answer;
};

// A request a second, each about an image whose right answer is "red".
RunLog run_of(const std::string& trace, const std::string& mode, const std::vector<Asked>& asked) {
  RunLog run;
  run.header.metadata = {{"trace", trace}, {"image_size", mode}};
  run.stop_reason = "complete";
  PromptRecord prompt;
  prompt.reference = "red";
  prompt.images.resize(1);
  run.prompts.push_back(prompt);
  run.event_begin.push_back(0);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    RequestRecord record;
    record.index = static_cast<std::uint32_t>(i);
    record.status = 200;
    record.scheduled = record.admitted = record.start = record.connected = record.sent =
        record.headers = static_cast<Nanos>(i) * kSecond;
    const Nanos first = record.start + static_cast<Nanos>(asked[i].ttft_s * 1e9);
    record.end = first + kMillisecond;
    record.finish_reason = FinishReason::kStop;
    record.prompt_tokens = asked[i].image_tokens + 10;
    record.completion_tokens = 1;
    record.image_tokens = asked[i].image_tokens;
    record.answer = {run.text.size(), static_cast<std::uint32_t>(asked[i].answer.size())};
    run.text += asked[i].answer;
    LoggedEvent event{};
    event.at = first;
    event.request = record.index;
    event.bytes = 10;
    event.tokens = 1;
    event.kinds = kChoicesEvent | kContentEvent | kFinishEvent;
    run.events.push_back(event);
    LoggedEvent done = event;
    done.kinds = kDoneEvent;
    run.events.push_back(done);
    run.event_begin.push_back(run.events.size());
    run.requests.push_back(record);
  }
  return run;
}

TEST(ImageSizeTable, OneLineARunAgainstVanilla) {
  std::vector<RunLog> runs;
  runs.push_back(
      run_of("7", "vanilla", {{0.1, 100, "red"}, {0.3, 100, " red\n"}, {0.5, 100, "red"}}));
  runs.push_back(
      run_of("7", "dynamic", {{0.1, 100, "red"}, {0.15, 50, "blue"}, {0.15, 30, "red"}}));
  for (const double encoded : {4.0, 7.0})
    runs[0].samples.push_back(
        {0, "metrics", {{"saccade:images_encoded_total{model=\"m\"}", encoded}}});
  ImageSizeTableSettings settings;
  settings.time_scale = 0.1;  // 0.2 s here are the target of 2 s
  const auto table = image_size_table(std::span<const RunLog>(runs), settings);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_NE(
      table->find("| 7 | vanilla | 3 | 3.000 | 4.600 | 4.800 | 4.960 | 33.3 % | 100.0 % | 1.00 "
                  "| 100.0 % | 33.3 % |\n"),
      std::string::npos)
      << *table;
  EXPECT_NE(
      table->find("| 7 | dynamic | 3 | 1.500 | 1.500 | 1.500 | 1.500 | 100.0 % | 60.0 % | - | "
                  "66.7 % | 66.7 % |\n"),
      std::string::npos)
      << *table;
  EXPECT_EQ(table->find("published,"), std::string::npos);
}

TEST(ImageSizeTable, PublishedLinesStandBelowTheirTrace) {
  const std::vector<RunLog> runs = {run_of("5", "seed", {{0.1, 1, "x"}}),
                                    run_of("4", "seed", {{0.1, 1, "x"}}),
                                    run_of("5", "static:4096", {{0.1, 1, "x"}})};
  const auto table = image_size_table(std::span<const RunLog>(runs), {});
  ASSERT_TRUE(table) << table.error().message;
  std::size_t at = 0;
  for (const char* line :
       {"| 5 | seed |", "| 5 | static:4096 |", "| 5 | published, static | - | 0.202",
        "| 5 | published, static, bilinear |", "| 4 | seed |",
        "| 4 | published, static | - | 0.212"}) {
    const std::size_t found = table->find(line, at);
    ASSERT_NE(found, std::string::npos) << line << "\n" << *table;
    at = found;
  }
  // Nothing to compare with: a dash.
  EXPECT_NE(table->find("| 5 | seed | 1 | 0.100 | 0.100 | 0.100 | 0.100 | 100.0 % | - | - |"),
            std::string::npos)
      << *table;
}

TEST(ImageSizeTable, SeedsAreOneLine) {
  std::vector<RunLog> runs;
  const auto add = [&](const std::string& mode, const std::string& seed, double ttft_s,
                       std::int32_t tokens) {
    runs.push_back(run_of("7", mode, {{ttft_s, tokens, "red"}, {ttft_s, tokens, "blue"}}));
    runs.back().header.metadata.emplace_back("seed", seed);
  };
  add("dynamic", "41", 0.2, 50);
  add("dynamic", "42", 0.4, 75);
  add("dynamic", "43", 3.0, 200);
  add("vanilla", "41", 0.5, 100);
  add("vanilla", "42", 0.6, 300);
  const auto table = image_size_table(std::span<const RunLog>(runs), {});
  ASSERT_TRUE(table) << table.error().message;
  // What a seed keeps is held against its own vanilla; the third has none.
  EXPECT_NE(table->find("| 7 | dynamic | 3 runs: 2 | 0.400 (0.200 to 3.000) |"), std::string::npos)
      << *table;
  EXPECT_NE(table->find("| 100.0 % (0.0 % to 100.0 %) | - | - | 50.0 % (50.0 % to 50.0 %) |"),
            std::string::npos)
      << *table;
  EXPECT_NE(table->find("| 7 | vanilla | 2 runs: 2 | 0.550 (0.500 to 0.600) |"), std::string::npos)
      << *table;
  runs[2].header.metadata.back().second = "42";
  EXPECT_FALSE(image_size_table(std::span<const RunLog>(runs), {}));
}

TEST(ImageSizeTable, RunsSayWhichTheyAre) {
  const RunLog one = run_of("7", "seed", {{0.1, 1, "x"}});
  RunLog silent = one;
  silent.header.metadata.pop_back();
  for (const auto& runs : {std::vector{one, one}, std::vector{one, silent}}) {
    const auto table = image_size_table(std::span<const RunLog>(runs), {});
    ASSERT_FALSE(table);
    EXPECT_NE(table.error().message.find("image_size"), std::string::npos) << table.error().message;
  }
  const auto missing = image_size_table(std::vector<std::string>{"/none.jsonl"}, {});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/none.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace saccade::bench
