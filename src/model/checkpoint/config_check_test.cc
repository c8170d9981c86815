#include "model/checkpoint/config_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::string& config, const std::string& generation = "{}") {
  const auto checked =
      check_config(json::parse(config)->get_object(), json::parse(generation)->get_object());
  return checked ? "" : checked.error().message;
}

TEST(ConfigCheck, WhatNothingCouldBeMeantByIsRefusedByNameAndValue) {
  EXPECT_EQ(error_of(R"({"architectures": 5})"),
            "config.json: architectures is 5, a list of names is required");
  EXPECT_EQ(error_of(R"({"text_config": {"eos_token_id": "</s>"}})"),
            "config.json: text_config.eos_token_id is \"</s>\", a token id or a list of them is "
            "required");
  EXPECT_EQ(error_of("{}", R"({"eos_token_id": [1, -1]})"),
            "generation_config.json: eos_token_id is [1,-1], a token id or a list of them is "
            "required");
  for (const char* const wrong :
       {"-1", "1099511627776", "2147483648", "1.5", "\"5\"", "true", "[5]", "18446744073709551615"})
    for (const char* const name : {"image_token_id", "image_token_index", "video_token_id",
                                   "vision_start_token_id", "boi_token_index"})
      EXPECT_NE(error_of(fmt::format(R"({{"{}": {}}})", name, wrong)).find(name), std::string::npos)
          << name << " " << wrong;
  for (const char* const wrong : {"1000000000", "0", "-3", "\"3\"", "4"})
    EXPECT_NE(error_of(fmt::format(R"({{"vision_config": {{"in_chans": {}}}}})", wrong))
                  .find("vision_config.in_chans is " + std::string(wrong)),
              std::string::npos)
        << wrong;
  for (const char* const name :
       {"rms_norm_eps", "layer_norm_eps", "norm_eps", "layer_norm_epsilon"}) {
    for (const char* const wrong : {"-1", "-1e-6", "1", "1e300", "\"1e-6\"", "[1e-6]", "true"})
      EXPECT_NE(error_of(fmt::format(R"({{"text_config": {{"{}": {}}}}})", name, wrong))
                    .find(fmt::format("text_config.{} is ", name)),
                std::string::npos)
          << name << " " << wrong;
    for (const char* const right : {"0", "1e-06", "0.001"})
      EXPECT_EQ(error_of(fmt::format(R"({{"{}": {}}})", name, right)), "");
  }
  for (const char* const wrong : {"[5]", "{}", "\"A\"", "[null]", "[[\"A\"]]", "true"})
    EXPECT_NE(error_of(fmt::format(R"({{"architectures": {}}})", wrong)), "") << wrong;
  EXPECT_NE(error_of(R"({"model_type": ["qwen2"]})"), "");
}

TEST(ConfigCheck, WhatIsPublishedIsTaken) {
  EXPECT_EQ(error_of(R"({"architectures": ["A"], "model_type": "a", "eos_token_id": [1, 2],
                         "pad_token_id": -1, "bos_token_id": null, "image_token_id": null,
                         "image_token_index": 128256,
                         "vision_config": {"in_chans": 3, "num_channels": 3},
                         "quantization_config": {"num_bits": 8}})"),
            "");
  int read = 0;
  for (const char* const folder :
       {SACCADE_SOURCE_DIR "/tests/golden", SACCADE_SOURCE_DIR "/../shared/data/published"}) {
    if (!fs::exists(folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().filename() != "config.json") continue;
      const auto config = json::parse_file(entry.path().string());
      ASSERT_TRUE(config && config->is_object()) << entry.path();
      const auto checked = check_config(config->get_object(), {});
      EXPECT_TRUE(checked) << entry.path() << ": " << checked.error().message;
      ++read;
    }
  }
  EXPECT_GT(read, 20);
}

}  // namespace
}  // namespace saccade
