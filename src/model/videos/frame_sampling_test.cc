#include "model/videos/frame_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/json.h"

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

json::object parsed_object(const std::string& text) { return json::parse(text)->get_object(); }

FrameChoice choice(std::optional<double> fps, std::optional<std::int64_t> num_frames = {},
                   std::optional<std::int64_t> min_frames = {},
                   std::optional<std::int64_t> max_frames = {}) {
  FrameChoice made;
  made.fps = fps;
  made.num_frames = num_frames;
  made.min_frames = min_frames;
  made.max_frames = max_frames;
  return made;
}

FrameSampling sampling(SamplingRule rule, const std::string& preprocessor = "{}", int depth = 2) {
  FrameChoice own = kQwenFrames;
  if (rule == SamplingRule::kTimes) own.min_frames = 1;  // GLM-4.1V's
  auto made = FrameSampling::parse(parsed_object(preprocessor), rule, depth, own);
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

// A row of tools/goldens/frame_sampling.py.
struct Row {
  SamplingRule rule;
  int depth;
  VideoFacts file;
  FrameChoice choice;
  const json::array& rest;
};

Row row_of(const json::array& row) {
  static const std::map<std::string, std::pair<SamplingRule, int>> rules = {
      {"steps", {SamplingRule::kSteps, 2}},    {"single", {SamplingRule::kSteps, 1}},
      {"ends", {SamplingRule::kEnds, 2}},      {"middles", {SamplingRule::kMiddles, 1}},
      {"inner", {SamplingRule::kInner, 1}},    {"times", {SamplingRule::kTimes, 2}},
      {"seconds", {SamplingRule::kSeconds, 1}}};
  const auto number = [&](std::size_t at) -> std::optional<std::int64_t> {
    if (row.at(at).is_null()) return {};
    return row.at(at).to_number<std::int64_t>();
  };
  const auto [rule, depth] = rules.at(std::string(row.at(0).as_string()));
  Row made{rule, depth, {*number(1), row.at(2).to_number<double>()}, choice({}), row};
  if (!row.at(3).is_null()) made.choice.fps = row.at(3).to_number<double>();
  made.choice.num_frames = number(4);
  made.choice.min_frames = number(5);
  made.choice.max_frames = number(6);
  return made;
}

TEST(FrameSampling, TakesTheReferencesFrames) {
  const auto tree = json::parse_file(std::string(SACCADE_SOURCE_DIR) +
                                     "/tests/golden/tables/frame_sampling.json");
  ASSERT_TRUE(tree) << tree.error().message;
  const json::array& rows = tree->get_array();
  EXPECT_GT(rows.size(), 6000u);
  for (const json::value& each : rows) {
    const Row row = row_of(each.get_array());
    const auto indices = sampling(row.rule, "{}", row.depth).indices(row.file, row.choice);
    ASSERT_TRUE(indices) << indices.error().message;
    std::vector<std::int64_t> told;
    if (row.rest.at(7).is_array()) {
      for (const auto& index : row.rest.at(7).get_array())
        told.push_back(index.to_number<std::int64_t>());
      EXPECT_EQ(*indices, told) << boost::json::value(row.rest);
      continue;
    }
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < indices->size(); ++i)
      sum = (sum + static_cast<std::int64_t>(i + 1) * (*indices)[i]) % 1'000'003;
    EXPECT_EQ(indices->size(), row.rest.at(7).to_number<std::size_t>())
        << boost::json::value(row.rest);
    EXPECT_EQ(sum, row.rest.at(8).to_number<std::int64_t>()) << boost::json::value(row.rest);
  }
}

TEST(FrameSampling, FilesOfFewFramesAreShownWhole) {
  for (const SamplingRule rule : {SamplingRule::kSteps, SamplingRule::kEnds}) {
    EXPECT_THAT(*sampling(rule).indices({1, 30}, {}), ElementsAre(0));
    EXPECT_THAT(*sampling(rule).indices({1, 30}, choice({}, 8)), ElementsAre(0));
    EXPECT_THAT(*sampling(rule).indices({2, 30}, {}), ElementsAre(0, 1));
    EXPECT_EQ(sampling(rule).indices({6, 30}, choice({}, 32))->size(), 6u);
  }
}

// GLM-4.1V's rule: what its processor does not know stands at even times from 0 to the end.
TEST(FrameSampling, OtherNumbersStandAtEvenTimes) {
  const SamplingRule rule = SamplingRule::kTimes;
  EXPECT_THAT(*sampling(rule).indices({1, 30}, {}), ElementsAre(0, 0));
  EXPECT_THAT(*sampling(rule).indices({5, 1}, choice(1)), ElementsAre(0, 1, 2, 3, 4, 4));
  EXPECT_THAT(*sampling(rule).indices({5, 1}, choice({}, 2)), ElementsAre(0, 4));
  EXPECT_THAT(*sampling(rule).indices({100, 10}, choice({}, 3)), ElementsAre(0, 50, 99, 99));
  EXPECT_EQ(sampling(rule).indices({6, 30}, choice({}, 32))->size(), 6u);
  EXPECT_THAT(*sampling(rule).indices({100, 10}, choice(2, {}, {}, 4)), ElementsAre(0, 34, 67, 99));
  // A checkpoint's number is not read, its longest duration is.
  EXPECT_EQ(sampling(rule, R"({"num_frames": 16})").indices({600, 10}, {})->size(), 120u);
  EXPECT_EQ(sampling(rule, R"({"max_duration": 5})").indices({600, 10}, {})->size(), 10u);
  const auto refused = FrameSampling::parse(parsed_object(R"({"max_duration": 0})"), rule, 2);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("max_duration is 0"));
}

TEST(FrameSampling, TheNearestWishWins) {
  const VideoFacts minute{1800, 30};
  const SamplingRule rule = SamplingRule::kEnds;
  EXPECT_EQ(sampling(rule).indices(minute, {})->size(), 120u);
  EXPECT_EQ(sampling(rule, R"({"fps": 1})").indices(minute, {})->size(), 60u);
  EXPECT_EQ(sampling(rule, R"({"fps": 1, "max_frames": 16})").indices(minute, {})->size(), 16u);
  EXPECT_EQ(sampling(rule, R"({"num_frames": 32})").indices(minute, {})->size(), 32u);
  // A checkpoint's number takes the place of its rate, where that would give fewer, too.
  EXPECT_EQ(sampling(rule, R"({"num_frames": 32})").indices({300, 30}, {})->size(), 32u);
  EXPECT_EQ(sampling(rule, R"({"num_frames": 32})").indices(minute, choice(1))->size(), 60u);
  EXPECT_EQ(sampling(rule, R"({"fps": 1})").indices(minute, choice({}, 9))->size(), 9u);
  // Beside a rate a number is the most, as vLLM has it.
  EXPECT_EQ(sampling(rule).indices(minute, choice(2, 32))->size(), 32u);
  EXPECT_EQ(sampling(rule).indices(minute, choice(0.2, 32))->size(), 12u);
  EXPECT_EQ(sampling(rule).indices(minute, choice(0.01, {}, 6))->size(), 6u);
  EXPECT_EQ(sampling(rule).indices(minute, choice(0.01, {}, 900))->size(), 900u);
}

// Where the reference takes the middles, or has fps and a number side by side.
TEST(FrameSampling, FamiliesHaveNumbersOfTheirOwn) {
  const VideoFacts minute{1800, 30};
  const FrameChoice eight = {.fps = {}, .num_frames = 8, .min_frames = 1, .max_frames = 768};
  const auto middles = FrameSampling::parse(parsed_object("{}"), SamplingRule::kMiddles, 1, eight);
  EXPECT_THAT(*middles->indices({16, 30}, {}), ElementsAre(1, 3, 5, 7, 9, 11, 13, 15));
  EXPECT_EQ(middles->indices(minute, choice(1))->size(), 60u);
  EXPECT_EQ(middles->indices(minute, choice(1, 5))->size(), 5u);
  EXPECT_THAT(*middles->indices({3, 30}, {}), ElementsAre(0, 1, 2));  // there are no eight
  const auto said =
      FrameSampling::parse(parsed_object(R"({"fps": 0.5})"), SamplingRule::kMiddles, 1, eight);
  EXPECT_EQ(said->indices(minute, {})->size(), 30u);

  const FrameChoice smol = {.fps = 1, .num_frames = 64, .min_frames = 1, .max_frames = 768};
  const auto inner = FrameSampling::parse(parsed_object("{}"), SamplingRule::kInner, 1, smol);
  EXPECT_EQ(inner->indices(minute, {})->size(), 60u);
  EXPECT_EQ(inner->indices(minute, choice({}, 9))->size(), 9u);
  EXPECT_EQ(inner->indices(minute, choice(2))->size(), 64u);
  EXPECT_EQ(inner->indices({300, 30}, choice({}, 64))->size(), 10u);  // one a second all the same
  const auto more =
      FrameSampling::parse(parsed_object(R"({"num_frames": 7})"), SamplingRule::kInner, 1, smol);
  EXPECT_EQ(more->indices(minute, {})->size(), 7u);
  EXPECT_EQ(inner->indices(minute, choice({}, {}, {}, 6))->size(), 6u);
}

TEST(FrameSampling, RefusesWhatIsOutOfRange) {
  const FrameSampling some = sampling(SamplingRule::kSteps);
  const VideoFacts file{100, 30};
  for (const FrameChoice& wrong :
       {choice(0), choice(-1), choice({}, 0), choice({}, {}, {}, 70'000), choice({}, {}, 9, 8)}) {
    const auto refused = some.indices(file, wrong);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalid) << refused.error().message;
  }
  EXPECT_EQ(some.indices({0, 30}, {}).error().code, ErrorCode::kUndecodable);
  EXPECT_EQ(some.indices({10, 0}, {}).error().code, ErrorCode::kUndecodable);
  const auto refused =
      FrameSampling::parse(parsed_object(R"({"max_frames": 0})"), SamplingRule::kEnds, 2);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("max_frames is 0"));
}

}  // namespace
}  // namespace saccade
