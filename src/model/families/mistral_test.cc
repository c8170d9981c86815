// Configurations of Mistral's text, and the sizes of its checkpoints of random weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/dummies/dummy_sizes.h"
#include "model/families.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

const std::string kGoldens = SACCADE_SOURCE_DIR "/tests/golden/";
const std::string kMinistralIndex = SACCADE_SOURCE_DIR
    "/../shared/data/published/mistralai--Ministral-8B-Instruct-2410/model.safetensors.index.json";

UnloadedModel dummy_model(std::string_view size) {
  const DummyCheckpoint dummy = make_dummy("mistral", size);
  return create_model({"dummy", json::parse(dummy.files[0].text).value().get_object(), {}, {}})
      .value();
}

TEST(MistralDummies, HaveThePublishedSizes) {
  struct Size {
    std::string_view name;
    std::int64_t parameters;
  };
  for (const Size& size : {Size{"7b", 7248023552}, Size{"8b", 8019808256}, Size{"12b", 12247782400},
                           Size{"24b", 23572403200}}) {
    SCOPED_TRACE(std::string(size.name));
    const UnloadedModel model = dummy_model(size.name);
    EXPECT_EQ(parameter_count(model.network->weight_table().specs()), size.parameters);
  }
}

TEST(MistralDummies, MinistralHasThePublishedTensors) {
  const auto index = json::parse_file(kMinistralIndex);
  if (!index) GTEST_SKIP() << kMinistralIndex << " is absent";
  std::set<std::string> published;
  for (const auto& member : index->get_object().at("weight_map").get_object())
    published.insert(std::string(member.key()));
  std::set<std::string> wanted;
  const UnloadedModel model = dummy_model("8b");
  for (const TensorSpec& spec : model.network->weight_table().specs()) wanted.insert(spec.name);
  EXPECT_EQ(wanted, published);
}

// A window where the file says one or nothing, none where it says null; other fields that files
// leave out are those of the class.
TEST(Mistral, WindowIsOfEveryLayer) {
  Checkpoint checkpoint = open_checkpoint(kGoldens + "mistral/wide_heads").value();
  const auto windows = [&] {
    std::set<std::int64_t> found;
    const auto model = create_model(checkpoint);
    EXPECT_TRUE(model) << model.error().message;
    if (model)
      for (const LayerShape& layer : model->shape().layers) found.insert(layer.window);
    return found;
  };
  EXPECT_EQ(windows(), std::set<std::int64_t>{0});
  checkpoint.config["sliding_window"] = 7;
  EXPECT_EQ(windows(), std::set<std::int64_t>{7});
  checkpoint.config["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(windows(), std::set<std::int64_t>{7}) << "the class does not read layer_types";
  checkpoint.config.erase("sliding_window");
  EXPECT_EQ(windows(), std::set<std::int64_t>{4096});
  for (const char* field : {"num_attention_heads", "num_key_value_heads", "num_hidden_layers"})
    checkpoint.config.erase(field);
  const auto model = create_model(checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->shape().layers.size(), 32u);
  EXPECT_EQ(model->shape().layers.front().kv_heads, 8);
  checkpoint.config["sliding_window"] = 0;
  const auto none = create_model(checkpoint);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("sliding_window is 0"));
}

}  // namespace
}  // namespace saccade
