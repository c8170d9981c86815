// Configurations of Qwen3.5, and what its layers keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/checkpoint/weights.h"
#include "model/dummies/dummy_sizes.h"
#include "model/families.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

TEST(Qwen35, RefusesWhatItCannotHonour) {
  const json::object published =
      json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/qwen3_5/odd_heads/config.json")
          .value()
          .get_object();
  struct Change {
    const char* field;
    const char* value;  // JSON
    const char* message;
  };
  const auto error_of = [](const json::object& config) {
    const auto model = create_model({"dir", config, {}, {}});
    return model ? "" : model.error().message;
  };
  EXPECT_EQ(error_of(published), "");
  for (const Change& change : {
           Change{"linear_num_value_heads", "5", "linear_num_value_heads 5 is no multiple"},
           Change{"linear_num_key_heads", "0", "linear_num_key_heads is 0"},
           Change{"linear_key_head_dim", "2048", "linear_key_head_dim is 2048"},
           Change{"linear_conv_kernel_dim", "1", "linear_conv_kernel_dim is 1"},
           Change{"linear_conv_kernel_dim", "9", "linear_conv_kernel_dim is 9"},
           Change{"attn_output_gate", "false", "attn_output_gate false"},
           Change{"num_experts", "8", "num_experts 8"},
           Change{"full_attention_interval", "0", "full_attention_interval is 0"},
           Change{"layer_types", R"(["sliding_attention"])", "layer_types is not a list"},
           Change{"layer_types",
                  R"(["full_attention", "full_attention", "full_attention", "full_attention",
                      "sliding_attention"])",
                  "layer_types holds sliding_attention"},
           Change{"rope_parameters", R"({"partial_rotary_factor": 0})",
                  "partial_rotary_factor is 0"},
           Change{"rope_parameters", R"({"partial_rotary_factor": 0.28})", "partial_rotary_factor"},
           Change{"rope_parameters", R"({"rope_type": "dynamic", "factor": 2})", "dynamic"},
       }) {
    json::object config = published;
    config[change.field] = json::parse(change.value).value();
    EXPECT_THAT(error_of(config), HasSubstr(change.message)) << change.field << " " << change.value;
  }
  // Another family's delta nets are none of its layers.
  json::object qwen3 =
      json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/qwen3/odd_heads/config.json")
          .value()
          .get_object();
  qwen3["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  EXPECT_THAT(error_of(qwen3), HasSubstr("layer_types holds linear_attention"));
}

// As config.json says: three layers of four keep a state, of the convolution's three tokens and a
// matrix a value head.
TEST(Qwen35, KeepsOneStateForThreeLayersOfFour) {
  const Family* family = find_family("qwen3.5-text").value();
  const DummyCheckpoint dummy = make_dummy(family->name, "0.8b");
  const auto model =
      create_model({"dir", json::parse(dummy.files[0].text).value().get_object(), {}, {}});
  ASSERT_TRUE(model) << model.error().message;
  const ModelShape& shape = model->shape();
  ASSERT_EQ(shape.layers.size(), 24u);
  EXPECT_TRUE(shape.keeps_state());
  for (std::size_t i = 0; i < shape.layers.size(); ++i) {
    const bool attends = i % 4 == 3;
    EXPECT_EQ(shape.layers[i].kind, attends ? LayerKind::kFull : LayerKind::kRecurrent) << i;
    EXPECT_EQ(shape.layers[i].state, attends ? 0 : 3 * 6144 + 16 * 128 * 128) << i;
    EXPECT_EQ(shape.layers[i].kv_heads, attends ? 2 : 0) << i;
  }
}

// The sizes of make-dummy have the published checkpoints' parameters and tensors.
}  // namespace
}  // namespace saccade
