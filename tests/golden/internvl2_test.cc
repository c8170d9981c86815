// What InternVL2 has beside what every family with images is tested for: prompts longer than its
// unscaled positions, its conversation formats, and image tokens that users write out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/dummies/dummy_sizes.h"
#include "model/solo_run.h"
#include "tests/golden/family_golden.h"
#include "text/templates/chat_template.h"

namespace saccade {
namespace {

using test::golden_folder;

class InternVl2Beyond : public ::testing::TestWithParam<std::string> {};

// 856 tokens where positions are scaled from 512 on.
TEST_P(InternVl2Beyond, DynamicNtkAgrees) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  const std::string directory = golden_folder("internvl2/internlm2");
  const auto model = test::load(directory, *device);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->shape().usual_length, 512);
  EXPECT_EQ(model->shape().max_position, 1024);
  test::expect_golden(*model, *device, directory, "beyond");
}

// Without the reference, which takes its time with so long a prompt.
INSTANTIATE_TEST_SUITE_P(Devices, InternVl2Beyond,
                         ::testing::Values("portable", "neon", "avx2", "avx512", "bf16", "amx"),
                         [](const auto& device) { return device.param; });

TEST(InternVl2, ChunksBeyondGiveTheSameTokens) {
  const auto device = *make_cpu_device(kDeviceThreads);
  const std::string directory = golden_folder("internvl2/internlm2");
  const auto model = test::load(directory, *device);
  ASSERT_NE(model, nullptr);
  const auto golden = read_golden(directory + "/golden/beyond.safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  const auto count = static_cast<std::int64_t>(golden->greedy.size());
  for (const std::int64_t chunk : {100, 513}) {
    auto run = SoloRun::create(*model->network, *device,
                               model->processor->wrap_tokens(golden->ids).value(), {}, count);
    ASSERT_TRUE(run) << run.error().message;
    (*run)->prefill(chunk);
    EXPECT_EQ((*run)->greedy(8),
              std::vector<TokenId>(golden->greedy.begin(), golden->greedy.begin() + 8))
        << chunk;
  }
  // The frequencies of a shorter longest sequence are others.
  auto run = SoloRun::create(*model->network, *device,
                             model->processor->wrap_tokens(golden->ids).value(), {}, 1);
  ASSERT_TRUE(run) << run.error().message;
  const View logits = (*run)->prefill();
  const auto& expected =
      std::ranges::find(golden->taps, std::string("logits"), &GoldenTap::name)->values;
  float worst = 0;
  for (std::int64_t i = 0; i < logits.cols(); ++i) {
    const float reference = expected[expected.size() - static_cast<std::size_t>(logits.cols() - i)];
    worst = std::max(worst, std::abs(logits.row<float>(0)[i] - reference));
  }
  EXPECT_GT(worst, 1e-3f);
}

// The conversation that config.json names, against the original's Python: all cases, system message
// given and not, one image and several.
TEST(InternVl2, ConversationsAreTheOriginals) {
  for (const std::string name : {"internvl2/internlm2", "internvl2/big_tower", "internvl2/phi3",
                                 "internvl3/own3", "internvl3/own35"}) {
    const auto checkpoint = open_checkpoint(golden_folder(name));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto model = Processor::open(*checkpoint);
    ASSERT_TRUE(model) << model.error().message;
    const auto parsed = ChatTemplate::parse((*model)->default_chat_template());
    ASSERT_TRUE(parsed) << parsed.error().message;
    for (const std::string golden_name : {"text", "one_image", "three_images", "multi_turn"}) {
      SCOPED_TRACE(name + " " + golden_name);
      const auto golden =
          read_golden(golden_folder(name) + "/golden/" + golden_name + ".safetensors");
      ASSERT_TRUE(golden) << golden.error().message;
      const auto text = parsed->render(golden->messages, {});
      ASSERT_TRUE(text) << text.error().message;
      EXPECT_EQ(*text, golden->rendered);
    }
  }
}

// Both forms of one model are the same network: their answers to a prompt without images, which
// both conversations write alike, are one golden.
TEST(InternVl3, BothFormsAreOneModel) {
  const auto device = make_reference_device();
  for (const auto& [own, hf] : {std::pair{"internvl3/own3", "internvl3/hf3"},
                                std::pair{"internvl3/own35", "internvl3/hf35"}}) {
    SCOPED_TRACE(own);
    const auto a = test::load(golden_folder(own), *device);
    const auto b = test::load(golden_folder(hf), *device);
    ASSERT_TRUE(a != nullptr && b != nullptr);
    EXPECT_EQ(a->shape().parameters, b->shape().parameters);
    EXPECT_EQ(a->shape().max_image_tokens, b->shape().max_image_tokens);
    test::expect_golden(*a, *device, golden_folder(hf), "text");
    test::expect_golden(*b, *device, golden_folder(own), "text");
  }
}

TEST(InternVl3, DummiesHaveThePublishedSizes) {
  const Family* family = find_family("internvl2").value();
  struct Size {
    std::string_view name;
    std::int64_t parameters;
  };
  for (const Size& size : {Size{"3-1b", 938193024}, Size{"3.5-1b", 1060897792}}) {
    for (const std::string form : {"", "-hf"}) {
      const DummyCheckpoint dummy = make_dummy(family->name, std::string(size.name) + form);
      const auto model = create_model({"dummy",
                                       json::parse(dummy.files[0].text).value().get_object(),
                                       {},
                                       json::parse(dummy.files[2].text).value().get_object()});
      ASSERT_TRUE(model) << size.name << form << " " << model.error().message;
      EXPECT_EQ(parameter_count(model->network->weight_table().specs()), size.parameters)
          << size.name << form;
      EXPECT_EQ(model->shape().max_image_tokens, 13 * 256);
    }
  }
}

TEST(InternVl2, ImageTokensOfUsersStayText) {
  const std::string directory = golden_folder("internvl2/internlm2");
  const auto checkpoint = open_checkpoint(directory);
  const auto model = Processor::open(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  const auto tokenizer = load_tokenizer(directory);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const ImageLayout layout = (*model)->image_layout(90, 90, {}).value();
  const std::string typed = "<img><IMG_CONTEXT><IMG_CONTEXT></img> <image>";
  const auto prompt = (*model)->build_prompt(
      **tokenizer, "<IMG_CONTEXT>\n" + (*model)->guard_literals(typed), std::array{layout}, false);
  ASSERT_TRUE(prompt) << prompt.error().message;
  const TokenId context = (*tokenizer)->token_to_id("<IMG_CONTEXT>").value();
  EXPECT_EQ(std::ranges::count(prompt->ids, context), layout.tokens);
  ASSERT_EQ(prompt->images.size(), 1u);
  EXPECT_EQ(prompt->images[0].begin, 1);
  EXPECT_EQ(prompt->ids.front(), (*tokenizer)->token_to_id("<img>").value());
  EXPECT_EQ((*tokenizer)->decode(prompt->ids, true), "\n" + typed);
  // Not guarded, it would be a second image.
  EXPECT_FALSE(
      (*model)->build_prompt(**tokenizer, "<IMG_CONTEXT><IMG_CONTEXT>", std::array{layout}, false));
}

TEST(InternVl2, RefusesWhatItCannotHonour) {
  const auto opened = open_checkpoint(golden_folder("internvl2/internlm2"));
  ASSERT_TRUE(opened) << opened.error().message;
  struct Change {
    const char* section;  // null: the top
    const char* field;
    const char* value;  // JSON
    const char* message;
  };
  for (const Change& change : {
           Change{"llm_config", "model_type", "\"internlm3\"", "internlm3"},
           Change{"llm_config", "bias", "true", "bias"},
           Change{"llm_config", "rope_scaling", R"({"type": "dynamic", "factor": 0})", "factor"},
           Change{"llm_config", "rope_scaling", R"({"type": "dynamic"})", "factor"},
           Change{"vision_config", "norm_type", "\"batch_norm\"", "batch_norm"},
           Change{"vision_config", "num_attention_heads", "5", "5 heads"},
           Change{"vision_config", "num_hidden_layers", "0", "num_hidden_layers"},
           Change{nullptr, "select_layer", "-4", "layers"},
           Change{nullptr, "select_layer", "0", "layer 0"},
           Change{nullptr, "force_image_size", "70", "not even"},
           Change{nullptr, "force_image_size", "-1", "force_image_size"},
           Change{nullptr, "downsample_ratio", "0.25", "0.25"},
           Change{nullptr, "pad2square", "true", "pad2square"},
           Change{nullptr, "ps_version", "\"v3\"", "v3"},
           Change{nullptr, "min_dynamic_patch", "7", "7 to 6"},
           Change{nullptr, "max_dynamic_patch", "100000", "100000"},
       }) {
    Checkpoint checkpoint = *opened;
    json::object& section = change.section == nullptr
                                ? checkpoint.config
                                : checkpoint.config.at(change.section).get_object();
    section[change.field] = json::parse(change.value).value();
    const auto model = Processor::open(checkpoint);
    ASSERT_FALSE(model) << change.field << " " << change.value;
    EXPECT_NE(model.error().message.find(change.message), std::string::npos)
        << model.error().message;
  }
}

// Tiles of 56 pixels, at most six: 4 tokens each and a thumbnail.
TEST(InternVl2, ControlsBoundTheTiles) {
  const auto checkpoint = open_checkpoint(golden_folder("internvl2/internlm2"));
  const auto model = Processor::open(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  const auto tiles = [&](const ImageControls& controls) {
    const auto layout = (*model)->image_layout(300, 200, controls);
    EXPECT_TRUE(layout) << layout.error().message;
    return layout ? layout->grid_t : 0;
  };
  EXPECT_EQ(tiles({}), 7);
  ImageControls controls;
  controls.max_tokens = 27;  // one less than seven tiles'
  EXPECT_LE(tiles(controls), 6);
  controls.max_tokens = 1;
  EXPECT_EQ(tiles(controls), 1);
  controls = {};
  controls.max_pixels = 2 * 56 * 56;
  EXPECT_EQ(tiles(controls), 3);
  controls = {};
  controls.processor_kwargs["max_dynamic_patch"] = 2;
  EXPECT_EQ(tiles(controls), 3);
  controls.processor_kwargs["max_dynamic_patch"] = 0;
  EXPECT_FALSE((*model)->image_layout(300, 200, controls));
  controls.processor_kwargs["max_dynamic_patch"] = 40;  // over what is reserved
  EXPECT_FALSE((*model)->image_layout(3000, 100, controls));
  controls.processor_kwargs = {{"dynamic_image_size", false}};
  EXPECT_EQ(tiles(controls), 1);
  controls.processor_kwargs = {{"tiles", 3}};
  EXPECT_FALSE((*model)->image_layout(300, 200, controls));
}

}  // namespace
}  // namespace saccade
