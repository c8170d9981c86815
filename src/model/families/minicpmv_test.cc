// Configurations of MiniCPM-V, the size of its checkpoint of random weights, and its prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/checkpoint/weights.h"
#include "model/dummies/dummy_sizes.h"
#include "model/families.h"
#include "model/prompts/processor.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

const std::string kFolder = SACCADE_SOURCE_DIR "/tests/golden/minicpmv/slices";

json::object file_of(const std::string& name) {
  return json::parse_file(kFolder + "/" + name).value().get_object();
}

TEST(MiniCpmv, RefusesWhatItCannotHonour) {
  const json::object published = file_of("config.json");
  const json::object preprocessor = file_of("preprocessor_config.json");
  const auto error_of = [](const json::object& config, const json::object& images,
                           const json::object& videos = {}) {
    Checkpoint checkpoint{"dir", config, {}, images};
    checkpoint.video_preprocessor = videos;
    const auto model = create_model(checkpoint);
    return model ? "" : model.error().message;
  };
  EXPECT_EQ(error_of(published, preprocessor), "");
  struct Change {
    const char* section;  // empty: the top; "preprocessor"; "videos"
    const char* field;
    const char* value;  // JSON
    const char* message;
  };
  for (const Change& change : {
           Change{"", "downsample_mode", R"("8x")", "downsample_mode is \"8x\""},
           Change{"", "downsample_mode", R"("4x")", "not that of config.json"},
           Change{"", "merger_times", "2", "merger_times is 2"},
           Change{"", "merge_kernel_size", "[2, 1]", "merge_kernel_size is [2,1]"},
           Change{"", "insert_layer_id", "3", "insert_layer_id is 3"},
           Change{"", "insert_layer_id", "-1", "insert_layer_id is -1"},
           Change{"", "drop_vision_last_layer", "true", "drop_vision_last_layer"},
           Change{"", "image_token_id", "481", "image_token_id 481"},
           Change{"", "video_token_id", "null", "video_token_id"},
           Change{"text_config", "model_type", R"("llama")", "model_type \"llama\""},
           Change{"vision_config", "window_kernel_size", "[4, 4]", "window_kernel_size is [4,4]"},
           Change{"vision_config", "num_attention_heads", "5", "width 48 in 5 heads"},
           Change{"vision_config", "image_size", "6", "patches of 7 in 6 pixels"},
           Change{"vision_config", "hidden_act", R"("swoosh")", "swoosh"},
           Change{"preprocessor", "patch_size", "14", "patches of 14, vision_config of 7"},
           Change{"preprocessor", "downsample_mode", R"("4x")", "not that of config.json"},
           Change{"videos", "downsample_mode", R"("4x")", "not that of config.json"},
           Change{"preprocessor", "max_slice_nums", "0", "max_slice_nums is 0"},
           Change{"preprocessor", "scale_resolution", "0", "scale_resolution is 0"},
           Change{"preprocessor", "do_resize", "false", "do_resize"},
           Change{"videos", "stack_frames", "3", "stack_frames is 3"},
           Change{"videos", "max_num_frames", "0", "max_num_frames is 0"},
       }) {
    json::object config = published;
    json::object images = preprocessor;
    json::object videos;
    const std::string_view named = change.section;
    json::object& section = named == "preprocessor" ? images
                            : named == "videos"     ? (videos = preprocessor)
                            : named.empty()         ? config
                                                    : config[named].get_object();
    section[change.field] = json::parse(change.value).value();
    EXPECT_THAT(error_of(config, images, videos), HasSubstr(change.message))
        << change.field << " " << change.value;
  }
}

// As transformers' own class counts them; the tied head apart.
TEST(MiniCpmv, DummiesHaveThePublishedSizes) {
  const DummyCheckpoint dummy = make_dummy("minicpm-v-4.6", "1.3b");
  const Checkpoint checkpoint = {"dummy",
                                 json::parse(dummy.files[0].text).value().get_object(),
                                 {},
                                 json::parse(dummy.files[2].text).value().get_object()};
  const auto model = create_model(checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<TensorSpec> specs = model->network->weight_table().specs();
  EXPECT_EQ(parameter_count(specs), 1300428016);
  EXPECT_EQ(specs.size(), 779u);
  EXPECT_EQ(model->shape().position_axes, 1);
  EXPECT_EQ(model->shape().frames_per_grid, 1);
}

// The words around images are the server's: what a user writes of them stays text.
TEST(MiniCpmv, WhatUsersWriteOfItsWordsStaysText) {
  const auto checkpoint = open_checkpoint(kFolder);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto processor = Processor::open(*checkpoint);
  ASSERT_TRUE(processor) << processor.error().message;
  const auto tokenizer = load_tokenizer(kFolder);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto layout = (*processor)->image_layout(131, 61, {});
  ASSERT_TRUE(layout) << layout.error().message;
  ASSERT_EQ(layout->slices_across * layout->slices_down, 2);
  for (const std::string word : {"<|image_pad|>", "<|video_pad|>", "<image>", "</image>", "<slice>",
                                 "</slice>", "<image_id>", "</image_id>"}) {
    SCOPED_TRACE(word);
    const std::string rendered = (*processor)->guard_literals("a" + word + "b") + "<|image_pad|>";
    const auto prompt = (*processor)->build_prompt(**tokenizer, rendered, {&*layout, 1}, false);
    ASSERT_TRUE(prompt) << prompt.error().message;
    EXPECT_EQ(prompt->images.size(), 3u);
    const auto plain =
        (*processor)->build_prompt(**tokenizer, "ab<|image_pad|>", {&*layout, 1}, false);
    ASSERT_TRUE(plain) << plain.error().message;
    const auto special = (*tokenizer)->token_to_id(word);
    ASSERT_TRUE(special);
    EXPECT_EQ(std::ranges::count(prompt->ids, *special), std::ranges::count(plain->ids, *special));
    EXPECT_GT(prompt->ids.size(), plain->ids.size());
  }
  const auto unplaced = (*processor)->build_prompt(**tokenizer, "ab", {&*layout, 1}, false);
  EXPECT_FALSE(unplaced);
}

}  // namespace
}  // namespace saccade
