// Configurations of GLM-4.1V, and the size of its checkpoint of random weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/checkpoint/weights.h"
#include "model/dummies/dummy_sizes.h"
#include "model/families.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

json::object glm4v_config() {
  return json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/glm4v/odd_heads/config.json")
      .value()
      .get_object();
}

TEST(Glm4v, RefusesWhatItCannotHonour) {
  const auto error_of = [](const json::object& config) {
    const auto model = create_model({"dir", config, {}, {}});
    return model ? "" : model.error().message;
  };
  EXPECT_EQ(error_of(glm4v_config()), "");
  struct Change {
    const char* section;  // empty: the top
    const char* field;
    const char* value;  // JSON
    const char* message;
  };
  for (const Change& change : {
           Change{"", "partial_rotary_factor", "0.55", "partial_rotary_factor is 0.55"},
           Change{"", "partial_rotary_factor", "1.5", "partial_rotary_factor is 1.5"},
           Change{"", "partial_rotary_factor", "0", "partial_rotary_factor is 0"},
           Change{"", "partial_rotary_factor", "1", "[1, 3, 2]"},
           Change{"", "rope_scaling", "null", "[8, 12, 12]"},
           Change{"vision_config", "out_hidden_size", "64", "out_hidden_size is 64"},
           Change{"vision_config", "image_size", "13", "image_size is 13"},
           Change{"vision_config", "patch_size", "16", "patches"},
           Change{"vision_config", "num_heads", "5", "width 48 in 5 heads"},
           Change{"vision_config", "num_heads", "8", "width 48 in 8 heads"},
           Change{"vision_config", "hidden_act", R"("swoosh")", "swoosh"},
       }) {
    json::object config = glm4v_config();
    json::object& section = *change.section == 0 ? config : config[change.section].get_object();
    section[change.field] = json::parse(change.value).value();
    EXPECT_THAT(error_of(config), HasSubstr(change.message)) << change.field << " " << change.value;
  }
  json::object config = glm4v_config();
  config["head_dim"] = 16;
  config["partial_rotary_factor"] = 0.75;
  EXPECT_THAT(error_of(config), HasSubstr("head_dim is 16"));
}

TEST(Glm4v, DummiesHaveThePublishedSizes) {
  const DummyCheckpoint dummy = make_dummy("glm-4.1v", "9b");
  Checkpoint checkpoint = {"dummy",
                           json::parse(dummy.files[0].text).value().get_object(),
                           {},
                           json::parse(dummy.files[2].text).value().get_object()};
  checkpoint.video_preprocessor = json::parse(dummy.files[3].text).value().get_object();
  const auto model = create_model(checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<TensorSpec> specs = model->network->weight_table().specs();
  EXPECT_EQ(parameter_count(specs), 10292777472);
  EXPECT_EQ(specs.size(), 704u);
  EXPECT_EQ(model->shape().max_image_tokens, 30000);
  for (const TensorSpec& spec : specs)  // as the hub names them
    EXPECT_TRUE(spec.name.starts_with("model.visual.") ||
                spec.name.starts_with("model.language_model.") || spec.name == "lm_head.weight")
        << spec.name;
}

}  // namespace
}  // namespace saccade
