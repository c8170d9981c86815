// How many tokens an image becomes, against the real processors: token_counts.tsv of each family,
// made by tools/goldens/token_counts.py with the published configuration.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "model/families.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

class TokenCounts : public ::testing::TestWithParam<const char*> {};

// The first line is the preprocessor's configuration, then height, width, tokens.
TEST_P(TokenCounts, AreTheProcessors) {
  const std::string folder = testing::golden_folder(GetParam());
  std::ifstream file(folder + "/token_counts.tsv");
  ASSERT_TRUE(file) << folder;
  std::string line;
  std::getline(file, line);
  const auto about = json::parse(line);
  ASSERT_TRUE(about) << about.error().message;
  const json::object& members = about->get_object();
  const auto model = create_model({"published",
                                   members.at("config").get_object(),
                                   {},
                                   members.at("preprocessor").get_object()});
  ASSERT_TRUE(model) << model.error().message;
  int sizes = 0;
  int wrong = 0;
  while (std::getline(file, line)) {
    int height = 0;
    int width = 0;
    std::int64_t tokens = 0;
    std::istringstream(line) >> height >> width >> tokens;
    const auto layout = (*model)->image_layout(width, height, {});
    ++sizes;
    if (tokens == 0) {  // the processor refuses it
      EXPECT_FALSE(layout) << height << "x" << width;
      continue;
    }
    ASSERT_TRUE(layout) << layout.error().message;
    EXPECT_EQ(layout->tokens, tokens) << height << "x" << width;
    EXPECT_LE(layout->tokens, (*model)->max_image_tokens());
    if (layout->tokens != tokens && ++wrong > 10) break;
  }
  EXPECT_GE(sizes, 40);
}

class VideoCounts : public ::testing::TestWithParam<const char*> {};

// The same of videos: frames, height, width, tokens, controls; made by tools/goldens/qwen_video.py.
TEST_P(VideoCounts, AreTheProcessors) {
  std::ifstream file(testing::golden_folder(GetParam()) + "/video_counts.tsv");
  ASSERT_TRUE(file);
  std::string line;
  std::getline(file, line);
  const auto about = json::parse(line);
  ASSERT_TRUE(about) << about.error().message;
  const json::object& members = about->get_object();
  const auto model = create_model({"published",
                                   members.at("config").get_object(),
                                   {},
                                   members.at("preprocessor").get_object()});
  ASSERT_TRUE(model) << model.error().message;
  int videos = 0;
  for (; std::getline(file, line); ++videos) {
    SCOPED_TRACE(line);
    int height = 0;
    int width = 0;
    std::int64_t tokens = 0;
    VideoControls controls;
    std::istringstream fields(line);
    fields >> controls.frames >> height >> width >> tokens;
    std::string said;
    std::getline(fields, said);
    controls.frame.processor_kwargs = json::parse(said).value().get_object();
    const auto layout = (*model)->video_layout(width, height, controls);
    ASSERT_EQ(layout.has_value(), tokens > 0);
    if (!layout) continue;
    EXPECT_EQ(layout->tokens, tokens);
    EXPECT_EQ(layout->grid_t, (controls.frames + 1) / 2);
    EXPECT_EQ(layout->frames, controls.frames);
  }
  EXPECT_GE(videos, 40);
}

INSTANTIATE_TEST_SUITE_P(Families, VideoCounts, ::testing::Values("qwen2_vl", "qwen2_5_vl"),
                         [](const auto& family) { return std::string(family.param); });

INSTANTIATE_TEST_SUITE_P(Families, TokenCounts,
                         ::testing::Values("qwen2_vl", "qwen2_5_vl", "llava_onevision", "internvl2",
                                           "paligemma", "phi_3_vision", "phi_3_vision/num_crops_4",
                                           "smolvlm2", "qwen3_vl"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace saccade
