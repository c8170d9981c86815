// Configurations of Mistral 3 and Pixtral, the sizes of their checkpoints of random weights, and
// how large images become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "model/dummies/dummy_sizes.h"
#include "model/families.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

const std::string kMistral3Goldens = SACCADE_SOURCE_DIR "/tests/golden/";

UnloadedModel dummy_mistral3(std::string_view family, std::string_view size) {
  const DummyCheckpoint dummy = make_dummy(family, size);
  return create_model({"dummy",
                       json::parse(dummy.files[0].text).value().get_object(),
                       {},
                       json::parse(dummy.files[2].text).value().get_object()})
      .value();
}

std::string mistral3_error(const Checkpoint& checkpoint) {
  const auto model = create_model(checkpoint);
  return model ? "" : model.error().message;
}

TEST(Mistral3Dummies, HaveThePublishedSizes) {
  struct Size {
    std::string_view family;
    std::string_view name;
    std::int64_t parameters;
    std::int64_t image_tokens;
  };
  for (const Size& size : {Size{"mistral-3", "24b", 24011361280, 55 * 55},
                           Size{"pixtral", "12b", 12682739712, 64 * 64}}) {
    SCOPED_TRACE(std::string(size.family));
    const UnloadedModel model = dummy_mistral3(size.family, size.name);
    EXPECT_EQ(parameter_count(model.network->weight_table().specs()), size.parameters);
    EXPECT_EQ(model.shape().max_image_tokens, size.image_tokens);
  }
}

TEST(Mistral3, RefusesWhatItCannotHonour) {
  struct Change {
    const char* checkpoint;
    const char* section;  // "": the outermost
    const char* field;
    const char* value;  // JSON; "": absent
    const char* message;
  };
  for (const Change& change : {
           Change{"pixtral/rows", "vision_config", "model_type", "", "clip_vision_model"},
           Change{"pixtral/rows", "text_config", "model_type", R"("llama")", "\"llama\""},
           Change{"pixtral/rows", "", "vision_feature_layer", "", "vision_feature_layer -2"},
           Change{"pixtral/rows", "", "vision_feature_select_strategy", "",
                  "vision_feature_select_strategy \"default\""},
           Change{"pixtral/rows", "", "image_token_index", "", "image_token_index 32000"},
           Change{"mistral3/squares", "text_config", "model_type", R"("ministral3")", "ministral3"},
           Change{"mistral3/squares", "", "vision_feature_layer", "[-1, -2]",
                  "vision_feature_layer"},
           Change{"mistral3/squares", "", "spatial_merge_size", "0", "spatial_merge_size"},
           Change{"mistral3/squares", "", "projector_hidden_act", R"("xielu")", "xielu"},
           Change{"mistral3/squares", "vision_config", "hidden_act", R"("xielu")", "xielu"},
           Change{"mistral3/squares", "vision_config", "head_dim", "8", "head_dim is 8"},
           Change{"mistral3/squares", "vision_config", "num_attention_heads", "5", "5 heads"},
           Change{"mistral3/squares", "vision_config", "num_channels", "1", "1 channels"},
           Change{"mistral3/squares", "vision_config", "rope_theta", "-1", "rope_theta is -1"},
       }) {
    Checkpoint checkpoint = open_checkpoint(kMistral3Goldens + change.checkpoint).value();
    EXPECT_EQ(mistral3_error(checkpoint), "");
    json::object& section = *change.section == '\0'
                                ? checkpoint.config
                                : checkpoint.config.at(change.section).get_object();
    section.erase(change.field);
    if (*change.value != '\0') section[change.field] = json::parse(change.value).value();
    EXPECT_THAT(mistral3_error(checkpoint), HasSubstr(change.message))
        << change.field << " " << change.value;
  }
  Checkpoint checkpoint = open_checkpoint(kMistral3Goldens + "mistral3/squares").value();
  checkpoint.config["vision_feature_layer"] = 3;
  EXPECT_EQ(mistral3_error(checkpoint), "") << "the last of three";
  checkpoint.preprocessor["size"] = {{"height", 64}, {"width", 64}};
  EXPECT_THAT(mistral3_error(checkpoint), HasSubstr("longest_edge"));
}

// Bounds keep the aspect as far as whole squares let them, and never leave nothing.
TEST(Mistral3, BoundsMoveTheLongerSide) {
  const UnloadedModel model = dummy_mistral3("mistral-3", "24b");
  struct Case {
    int width, height;
    std::optional<std::int64_t> min_pixels, max_pixels, max_tokens;
    int resized_width, resized_height;
  };
  constexpr std::int64_t kSquare = 28 * 28;
  constexpr auto kNone = std::nullopt;
  for (const Case& each :
       {Case{1540, 770, kNone, kNone, kNone, 1540, 784},
        Case{3080, 1540, kNone, kNone, kNone, 1540, 784},
        Case{100, 50, kNone, kNone, kNone, 112, 56},
        Case{1540, 770, kNone, 200 * kSquare, kNone, 560, 280},
        Case{1540, 770, kNone, kNone, 200, 560, 280}, Case{1540, 770, kNone, kNone, 199, 532, 280},
        Case{1500, 2, kNone, kNone, 1, 28, 28},
        Case{100, 50, 200 * kSquare, kNone, kNone, 560, 280},
        Case{100, 50, 1 << 24, kNone, kNone, 1540, 784},
        Case{100, 50, 1, 1 << 24, kNone, 112, 56}}) {
    ImageControls controls;
    controls.min_pixels = each.min_pixels;
    controls.max_pixels = each.max_pixels;
    controls.max_tokens = each.max_tokens;
    const auto layout = model.processor->image_layout(each.width, each.height, controls);
    ASSERT_TRUE(layout) << layout.error().message;
    EXPECT_EQ(layout->resized_width, each.resized_width) << each.width << "x" << each.height;
    EXPECT_EQ(layout->resized_height, each.resized_height) << each.width << "x" << each.height;
  }
  const auto thin = model.processor->image_layout(4000, 2, {});
  ASSERT_FALSE(thin);
  EXPECT_THAT(thin.error().message, HasSubstr("4000x2"));
}

}  // namespace
}  // namespace saccade
