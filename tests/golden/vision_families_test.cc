// Families with images against transformers: every stage of every golden, on every device, in both
// forms that checkpoints have.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/solo_run.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

using test::golden_folder;

const std::vector<std::string> kVisionCheckpoints = {"qwen2_vl/odd_heads",
                                                     "qwen2_vl/mixed_window",
                                                     "qwen2_5_vl/odd_heads",
                                                     "qwen2_5_vl/wide_window",
                                                     "llava_onevision/newlines",
                                                     "llava_onevision/scaled",
                                                     "internvl2/internlm2",
                                                     "internvl2/big_tower",
                                                     "internvl2/current",
                                                     "internvl2/phi3",
                                                     "internvl3/hf3",
                                                     "internvl3/own3",
                                                     "internvl3/hf35",
                                                     "internvl3/own35",
                                                     "paligemma/first",
                                                     "paligemma/second",
                                                     "phi_3_vision/su",
                                                     "phi_3_vision/longrope",
                                                     "smolvlm2/thirds",
                                                     "smolvlm2/halves",
                                                     "smolvlm2/fifths",
                                                     "qwen3_vl/odd_heads",
                                                     "qwen3_vl/wide_rows",
                                                     "qwen3_vl_moe/every_layer",
                                                     "qwen3_vl_moe/some_layers",
                                                     "qwen3_5_vl/odd_heads",
                                                     "qwen3_5_vl/wide_rows",
                                                     "gemma3/pooled",
                                                     "gemma3/classes",
                                                     "mistral3/squares",
                                                     "mistral3/ninths",
                                                     "pixtral/rows",
                                                     "pixtral/short",
                                                     "glm4v/odd_heads",
                                                     "glm4v/biased_tower",
                                                     "minicpmv/slices",
                                                     "minicpmv/plain",
                                                     "minicpmv/fine",
                                                     "mllama/quarters",
                                                     "mllama/thirds"};
const std::vector<std::string> kVisionGoldens = {"text", "one_image", "three_images", "multi_turn"};
// Of families that take videos; one of each on every device, all of them on one.
const std::vector<std::string> kVideoCheckpoints = {
    "qwen2_vl/odd_heads",       "qwen2_5_vl/wide_window", "qwen3_vl/odd_heads",
    "llava_onevision/newlines", "smolvlm2/thirds",        "internvl3/hf3",
    "glm4v/odd_heads",          "qwen3_5_vl/odd_heads",   "minicpmv/slices"};
const std::vector<std::string> kMoreVideoCheckpoints = {
    "qwen2_vl/mixed_window",  "qwen2_5_vl/odd_heads", "qwen3_vl/wide_rows",
    "llava_onevision/scaled", "smolvlm2/halves",      "smolvlm2/fifths",
    "internvl3/own3",         "internvl3/hf35",       "internvl3/own35",
    "glm4v/biased_tower",     "qwen3_5_vl/wide_rows", "minicpmv/plain",
    "minicpmv/fine"};
const std::vector<std::string> kVideoCases = {"video_one_frame", "video_odd", "video_even",
                                              "video_mixed", "video_turns"};

class VisionGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(VisionGolden, EveryStageAgrees) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  for (const std::string& name : kVisionCheckpoints) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto model = test::load(directory, *device);
    ASSERT_NE(model, nullptr);
    for (const std::string& golden : kVisionGoldens)
      test::expect_golden(*model, *device, directory, golden);
  }
}

// A prompt that begins with its image, where transformers and Meta's code are one.
TEST_P(VisionGolden, PromptsThatBeginWithTheirImageAgree) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  for (const char* name : {"mllama/quarters", "mllama/thirds"}) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto model = test::load(directory, *device);
    ASSERT_NE(model, nullptr);
    test::expect_golden(*model, *device, directory, "first");
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, VisionGolden, ::testing::ValuesIn(test::f32_device_names()),
                         [](const auto& device) { return device.param; });

void expect_videos(const std::vector<std::string>& checkpoints, Device& device) {
  for (const std::string& name : checkpoints) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto model = test::load(directory, device);
    ASSERT_NE(model, nullptr);
    for (const std::string& golden : kVideoCases)
      test::expect_golden(*model, device, directory, golden);
  }
}

TEST_P(VisionGolden, EveryStageOfVideosAgrees) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  expect_videos(kVideoCheckpoints, *device);
}

TEST(VisionFamilies, EveryStageOfVideosOfOtherCheckpointsAgrees) {
  expect_videos(kMoreVideoCheckpoints, *test::make_device("portable"));
}

TEST(VisionFamilies, BothFormsOfACheckpointAreOneModel) {
  const auto device = make_reference_device();
  for (const std::string& name : kVisionCheckpoints) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    if (!std::filesystem::exists(directory + "/other_form")) continue;  // tensors differ, not names
    const std::string other = ::testing::TempDir() + "/saccade_other_vision_form";
    ASSERT_NO_FATAL_FAILURE(test::write_other_form(directory, other));
    const auto model = test::load(other, *device);
    ASSERT_NE(model, nullptr);
    test::expect_golden(*model, *device, directory, "one_image");
    std::filesystem::remove_all(other);
  }
}

// Chunks of a prompt, however small, lead to the same tokens.
TEST(VisionFamilies, ChunksDoNotChangeTokens) {
  const auto device = make_reference_device();
  for (const std::string& name : kVisionCheckpoints) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto tokenizer = load_tokenizer(directory);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto golden = read_golden(directory + "/golden/three_images.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto model = test::load(directory, *device);
    ASSERT_NE(model, nullptr);
    const auto images = test::prepare_golden_images(*model->processor, *golden);
    ASSERT_TRUE(images) << images.error().message;
    std::vector<ImageLayout> layouts;
    for (const auto& image : *images) layouts.push_back(image.layout);
    for (const std::int64_t chunk : {7, 16, 64}) {
      auto prompt = model->processor->build_prompt(**tokenizer, golden->rendered, layouts, false);
      ASSERT_TRUE(prompt) << prompt.error().message;
      auto run = SoloRun::create(*model->network, *device, *std::move(prompt), *images, 8);
      ASSERT_TRUE(run) << run.error().message;
      (*run)->prefill(chunk);
      EXPECT_EQ((*run)->greedy(8),
                std::vector<TokenId>(golden->greedy.begin(), golden->greedy.begin() + 8))
          << chunk;
    }
  }
}

// LongRoPE: what grows over the short length turns by long_factor from its first token on, as a
// reference without a cache has it. With short_factor for both, tokens up to there stay the same.
TEST(VisionFamilies, Phi3TurnsByOtherFactorsOverTheBoundary) {
  const auto device = make_reference_device();
  const std::string directory = golden_folder("phi_3_vision/longrope");
  const auto tokenizer = load_tokenizer(directory);
  const auto golden = read_golden(directory + "/golden/text.safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  auto checkpoint = open_checkpoint(directory);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  json::object& rope = checkpoint->config.at("rope_scaling").get_object();
  rope["long_factor"] = rope.at("short_factor");
  auto model = load_model(*checkpoint, *device, {.compute = DType::kF32, .kv = {}});
  ASSERT_TRUE(model) << model.error().message;
  auto prompt = model->processor->build_prompt(**tokenizer, golden->rendered, {}, false);
  ASSERT_TRUE(prompt) << prompt.error().message;
  const std::int64_t last_short =
      model->shape().short_length - static_cast<std::int64_t>(prompt->ids.size());
  ASSERT_GT(last_short, 0);
  ASSERT_LT(last_short, 62);
  auto run = SoloRun::create(*model->network, *device, *std::move(prompt), {}, 64);
  ASSERT_TRUE(run) << run.error().message;
  (*run)->prefill();
  const std::vector<TokenId> tokens = (*run)->greedy(64);
  const auto boundary = static_cast<std::ptrdiff_t>(last_short) + 1;
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + boundary, golden->greedy.begin()));
  EXPECT_FALSE(
      std::equal(tokens.begin() + boundary, tokens.end(), golden->greedy.begin() + boundary));
}

// Images stand where their numbers say; users cannot write a tag.
TEST(VisionFamilies, Phi3TagsAreNumbered) {
  const std::string directory = golden_folder("phi_3_vision/su");
  const auto tokenizer = load_tokenizer(directory);
  const auto model = Processor::open(*open_checkpoint(directory)).value();
  const std::vector<ImageLayout> layouts = {model->image_layout(56, 56, {}).value(),
                                            model->image_layout(56, 20, {}).value()};
  const auto build = [&](const std::string& text) {
    return model->build_prompt(**tokenizer, text, layouts, false);
  };
  const auto prompt = build("a<|image_2|>b<|image_1|>\n");
  ASSERT_TRUE(prompt) << prompt.error().message;
  ASSERT_EQ(prompt->images.size(), 2u);
  EXPECT_EQ(prompt->images[0].index, 1);
  EXPECT_EQ(prompt->images[0].tokens, layouts[1].tokens);
  EXPECT_EQ(prompt->images[1].index, 0);
  EXPECT_EQ(std::ranges::count(prompt->ids, 1), 3) << "each text begins with <s>";
  for (const char* wrong :
       {"<|image_1|>", "<|image_1|><|image_1|>", "<|image_1|><|image_3|>", "<|image_0|><|image_1|>",
        "<|image_1|><|image_2|><|image_3|>", "<|image_1|><|image_99999999999|>"})
    EXPECT_FALSE(build(wrong)) << wrong;
  const std::string literal = model->guard_literals("<|image_1|> and <|image_2|>");
  EXPECT_TRUE(build("<|image_1|><|image_2|>" + literal));
  const auto text = model->build_prompt(**tokenizer, literal, {}, false);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_TRUE(text->images.empty());
}

// Qwen3-VL writes a video as its groups of frames, each after its time. What a user writes is none.
TEST(VisionFamilies, Qwen3VlWritesTimesOfVideosAlone) {
  const std::string directory = golden_folder("qwen3_vl/odd_heads");
  const auto tokenizer = load_tokenizer(directory);
  const auto model = Processor::open(*open_checkpoint(directory)).value();
  const std::string video = "<|vision_start|><|video_pad|><|vision_end|>";
  const auto build = [&](const std::string& text, const std::vector<ImageLayout>& media) {
    return model->build_prompt(**tokenizer, text, media, false);
  };
  VideoControls controls;
  controls.frames = 3;
  const std::vector<ImageLayout> one = {model->video_layout(64, 40, controls).value()};
  const auto prompt = build(model->guard_literals(video) + video + "What happens?", one);
  ASSERT_TRUE(prompt) << prompt.error().message;
  ASSERT_EQ(prompt->images.size(), 2u);
  EXPECT_EQ(prompt->images[1].index, 1);
  EXPECT_GT(prompt->images[1].begin, prompt->images[0].begin + prompt->images[0].tokens);
  for (const auto& wrong : {build(video + video, one), build("none", one), build(video, {}),
                            build(model->guard_literals(video), one), build("<|video_pad|>", one),
                            build(video + "<|video_pad|>", one)}) {
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, ErrorCode::kInvalid);
    EXPECT_NE(wrong.error().message.find("video"), std::string::npos) << wrong.error().message;
  }
  EXPECT_TRUE(build(model->guard_literals(video), {}));
}

// Families whose frames are tiles: an input and a span a frame, wherever an image stands; of the
// rows of LLaVA's frames, the newline's is in the prompt once. What a user writes is no video.
TEST(VisionFamilies, FramesOfTilesAreSpansOfTheirOwn) {
  for (const std::string name : {"llava_onevision/newlines", "smolvlm2/thirds", "internvl3/hf3"}) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto tokenizer = load_tokenizer(directory);
    const auto model = Processor::open(*open_checkpoint(directory)).value();
    const std::string video = "<video>";
    const auto build = [&](const std::string& text, const std::vector<ImageLayout>& media) {
      return model->build_prompt(**tokenizer, text, media, false);
    };
    VideoControls controls;
    controls.frames = 3;
    const ImageLayout layout = model->video_layout(64, 40, controls).value();
    EXPECT_EQ(layout.grid_t, 3);
    const std::vector<ImageLayout> media = {layout, model->image_layout(30, 30, {}).value()};
    const auto prompt =
        build(model->image_placeholder(0) + model->guard_literals(video) + video + "What?", media);
    ASSERT_TRUE(prompt) << prompt.error().message;
    std::int64_t tokens = 0;
    int next = 0;
    for (const ImageSpan& span : prompt->images) {
      if (span.index == 3) continue;  // the image, which was listed last and stands first
      EXPECT_EQ(span.index, next++);
      EXPECT_LE(span.tokens, group_layout(layout, 1).tokens);
      tokens += span.tokens;
    }
    EXPECT_EQ(next, 3);
    EXPECT_EQ(tokens, layout.tokens);
    EXPECT_EQ(prompt->images.front().index, 3);
    const std::vector<ImageLayout> one = {layout};
    for (const auto& wrong : {build(video + video, one), build("none", one), build(video, {}),
                              build(model->guard_literals(video), one)}) {
      ASSERT_FALSE(wrong);
      EXPECT_EQ(wrong.error().code, ErrorCode::kInvalid);
      EXPECT_NE(wrong.error().message.find("video"), std::string::npos) << wrong.error().message;
    }
    EXPECT_TRUE(build(model->guard_literals(video), {}));
    controls.total_pixels = 1000;
    const auto refused = model->video_layout(64, 40, controls);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("total_pixels is 1000"), std::string::npos);
  }
}

// Frames of a file wait as tiles: they are not resized as if they had come as such.
TEST(VisionFamilies, FramesThatAreTilesAlreadyAreNotResizedAgain) {
  const auto model = Processor::open(*open_checkpoint(golden_folder("smolvlm2/thirds"))).value();
  VideoControls controls;
  controls.frames = 1;
  const ImageLayout as_sent = model->video_layout(42, 42, controls).value();
  EXPECT_EQ(as_sent.first_width, 126);
  controls.resized = true;
  const ImageLayout again = model->video_layout(42, 42, controls).value();
  EXPECT_EQ(again.first_width, 0);
  EXPECT_NE(again.key, as_sent.key);
  EXPECT_EQ(model->video_layout(43, 42, controls)->first_width, 126);
  controls.frame.processor_kwargs = json::parse(R"({"size": {"longest_edge": 84}})")->get_object();
  EXPECT_EQ(model->video_layout(43, 42, controls)->first_width, 84);
}

// A prefix that attends both ways is what PaliGemma's goldens are about: with a causal mask its
// logits are others.
TEST(VisionFamilies, PaligemmaIsNotCausalInItsPrompt) {
  const auto device = make_reference_device();
  for (const std::string name : {"paligemma/first", "paligemma/second"}) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto tokenizer = load_tokenizer(directory);
    const auto golden = read_golden(directory + "/golden/one_image.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto model = test::load(directory, *device);
    ASSERT_NE(model, nullptr);
    const auto images = test::prepare_golden_images(*model->processor, *golden);
    ASSERT_TRUE(images) << images.error().message;
    const std::vector<ImageLayout> layouts = {images->front().layout};
    for (const bool causal : {false, true}) {
      auto prompt = model->processor->build_prompt(**tokenizer, golden->rendered, layouts, false);
      ASSERT_TRUE(prompt) << prompt.error().message;
      EXPECT_EQ(prompt->bidirectional_prefix, static_cast<std::int64_t>(prompt->ids.size()));
      if (causal) prompt->bidirectional_prefix = 0;
      auto run = SoloRun::create(*model->network, *device, *std::move(prompt), *images, 64);
      ASSERT_TRUE(run) << run.error().message;
      (*run)->prefill();
      EXPECT_EQ((*run)->greedy(64) == golden->greedy, !causal);
    }
  }
}

// An image of Gemma 3 sees all of itself, and what is around it does not see ahead: with a causal
// mask, and with images that two steps cut, tokens are others.
TEST(VisionFamilies, Gemma3SeesImagesWhole) {
  const auto device = make_reference_device();
  for (const std::string name : {"gemma3/pooled", "gemma3/classes"}) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto tokenizer = load_tokenizer(directory);
    const auto golden = read_golden(directory + "/golden/three_images.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto model = test::load(directory, *device);
    ASSERT_NE(model, nullptr);
    const auto images = test::prepare_golden_images(*model->processor, *golden);
    ASSERT_TRUE(images) << images.error().message;
    std::vector<ImageLayout> layouts;
    for (const auto& image : *images) layouts.push_back(image.layout);
    for (const bool causal : {false, true}) {
      auto prompt = model->processor->build_prompt(**tokenizer, golden->rendered, layouts, false);
      ASSERT_TRUE(prompt) << prompt.error().message;
      ASSERT_EQ(prompt->both_ways.size(), prompt->images.size());
      for (std::size_t i = 0; i < prompt->images.size(); ++i) {
        EXPECT_EQ(prompt->both_ways[i].begin, prompt->images[i].begin);
        EXPECT_EQ(prompt->both_ways[i].end, prompt->images[i].begin + prompt->images[i].tokens);
      }
      EXPECT_EQ(prompt->bidirectional_prefix, 0);
      if (causal) prompt->both_ways.clear();
      auto run = SoloRun::create(*model->network, *device, *std::move(prompt), *images, 64);
      ASSERT_TRUE(run) << run.error().message;
      (*run)->prefill();
      EXPECT_EQ((*run)->greedy(64) == golden->greedy, !causal);
    }
  }
}

// A row of an image is a span of embeddings; what stands after it takes none, and no user can write
// it.
TEST(VisionFamilies, PixtralBreaksItsRows) {
  const std::string directory = golden_folder("mistral3/squares");
  const auto tokenizer = load_tokenizer(directory);
  const auto model = Processor::open(*open_checkpoint(directory)).value();
  const std::string literal = model->guard_literals("[IMG][IMG_BREAK][IMG_END]");
  const std::vector<ImageLayout> two = {model->image_layout(112, 56, {}).value(),
                                        model->image_layout(20, 90, {}).value()};
  const auto prompt = model->build_prompt(**tokenizer, "a[IMG]" + literal + "[IMG]b", two, false);
  ASSERT_TRUE(prompt) << prompt.error().message;
  ASSERT_EQ(prompt->images.size(), 2u + 4u);
  const auto id = [&](const char* token) { return *(*tokenizer)->token_to_id(token); };
  std::int64_t image_tokens = 0;
  for (std::size_t i = 0; i < prompt->images.size(); ++i) {
    SCOPED_TRACE(i);
    const ImageSpan& span = prompt->images[i];
    const int image = i < 2 ? 0 : 1;
    const auto row = static_cast<std::int64_t>(i) - 2 * image;
    EXPECT_EQ(span.index, image);
    EXPECT_EQ(span.tokens, image == 0 ? 4 : 1);
    EXPECT_EQ(span.first_row, row * span.tokens);
    for (std::int64_t t = 0; t < span.tokens; ++t)
      EXPECT_EQ(prompt->ids[static_cast<std::size_t>(span.begin + t)], id("[IMG]"));
    const bool last = i == 1 || i == 5;
    EXPECT_EQ(prompt->ids[static_cast<std::size_t>(span.begin + span.tokens)],
              id(last ? "[IMG_END]" : "[IMG_BREAK]"));
    image_tokens += span.tokens;
  }
  EXPECT_EQ(std::ranges::count(prompt->ids, id("[IMG]")), image_tokens);
  EXPECT_EQ(std::ranges::count(prompt->ids, id("[IMG_BREAK]")), 1 + 3);
  EXPECT_EQ(std::ranges::count(prompt->ids, id("[IMG_END]")), 2);
  EXPECT_FALSE(model->build_prompt(**tokenizer, "[IMG]", two, false));
  EXPECT_FALSE(model->build_prompt(**tokenizer, "[IMG][IMG][IMG]", two, false));
  const auto text = model->build_prompt(**tokenizer, literal, {}, false);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_TRUE(text->images.empty());
}

// What the processor writes around an image is not what a user can write.
TEST(VisionFamilies, Gemma3KeepsLiteralsText) {
  const std::string directory = golden_folder("gemma3/pooled");
  const auto tokenizer = load_tokenizer(directory);
  const auto model = Processor::open(*open_checkpoint(directory)).value();
  const std::string literal =
      model->guard_literals("<start_of_image><image_soft_token><end_of_image>");
  const std::vector<ImageLayout> one = {model->image_layout(56, 20, {}).value()};
  const auto text = model->build_prompt(**tokenizer, literal, {}, false);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_TRUE(text->images.empty());
  for (const char* special : {"<start_of_image>", "<image_soft_token>", "<end_of_image>"})
    EXPECT_EQ(std::ranges::count(text->ids, *(*tokenizer)->token_to_id(special)), 0) << special;
  const auto prompt = model->build_prompt(**tokenizer, literal + "<start_of_image>", one, false);
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(prompt->images.size(), 1u);
  EXPECT_FALSE(model->build_prompt(**tokenizer, literal, one, false));
}

}  // namespace
}  // namespace saccade
