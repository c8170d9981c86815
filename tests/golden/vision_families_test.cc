// Families with images against transformers: every stage of every golden, on every backend, in both
// forms that checkpoints have.
#include <gtest/gtest.h>

#include "model/solo_run.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

using testing::golden_folder;

const std::vector<std::string> kCheckpoints = {
    "qwen2_vl/odd_heads",     "qwen2_vl/mixed_window",    "qwen2_5_vl/odd_heads",
    "qwen2_5_vl/wide_window", "llava_onevision/newlines", "llava_onevision/scaled",
    "internvl2/internlm2",    "internvl2/big_tower",      "internvl2/current",
    "paligemma/first",        "paligemma/second"};
const std::vector<std::string> kCases = {"text", "one_image", "three_images", "multi_turn"};

class VisionGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(VisionGolden, EveryStageAgrees) {
  const auto backend = testing::make_backend(GetParam());
  if (backend == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  for (const std::string& name : kCheckpoints) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto model = testing::load(directory, *backend);
    ASSERT_NE(model, nullptr);
    for (const std::string& golden : kCases)
      testing::expect_golden(*model, *backend, directory, golden);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, VisionGolden, ::testing::ValuesIn(testing::backend_names()),
                         [](const auto& backend) { return backend.param; });

TEST(VisionFamilies, BothFormsOfACheckpointAreOneModel) {
  const auto backend = make_reference_backend();
  for (const std::string& name : kCheckpoints) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    if (!std::filesystem::exists(directory + "/other_form")) continue;  // tensors differ, not names
    const std::string other = ::testing::TempDir() + "/saccade_other_vision_form";
    ASSERT_NO_FATAL_FAILURE(testing::write_other_form(directory, other));
    const auto model = testing::load(other, *backend);
    ASSERT_NE(model, nullptr);
    testing::expect_golden(*model, *backend, directory, "one_image");
    std::filesystem::remove_all(other);
  }
}

// Chunks of a prompt, however small, lead to the same tokens.
TEST(VisionFamilies, ChunksDoNotChangeTokens) {
  const auto backend = make_reference_backend();
  for (const std::string& name : kCheckpoints) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto tokenizer = load_tokenizer(directory);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto golden = read_golden(directory + "/golden/three_images.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto model = testing::load(directory, *backend);
    ASSERT_NE(model, nullptr);
    const auto images = prepare_golden_images(*model, *golden);
    ASSERT_TRUE(images) << images.error().message;
    std::vector<ImageLayout> layouts;
    for (const auto& image : *images) layouts.push_back(image.layout);
    for (const std::int64_t chunk : {7, 16, 64}) {
      auto prompt = model->build_prompt(**tokenizer, golden->rendered, layouts, false);
      ASSERT_TRUE(prompt) << prompt.error().message;
      auto run = SoloRun::create(*model, *backend, *std::move(prompt), *images, 8);
      ASSERT_TRUE(run) << run.error().message;
      (*run)->prefill(chunk);
      EXPECT_EQ((*run)->greedy(8),
                std::vector<TokenId>(golden->greedy.begin(), golden->greedy.begin() + 8))
          << chunk;
    }
  }
}

// A prefix that attends both ways is what PaliGemma's goldens are about: with a causal mask its
// logits are others.
TEST(VisionFamilies, PaligemmaIsNotCausalInItsPrompt) {
  const auto backend = make_reference_backend();
  for (const std::string name : {"paligemma/first", "paligemma/second"}) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto tokenizer = load_tokenizer(directory);
    const auto golden = read_golden(directory + "/golden/one_image.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto model = testing::load(directory, *backend);
    ASSERT_NE(model, nullptr);
    const auto images = prepare_golden_images(*model, *golden);
    ASSERT_TRUE(images) << images.error().message;
    const std::vector<ImageLayout> layouts = {images->front().layout};
    for (const bool causal : {false, true}) {
      auto prompt = model->build_prompt(**tokenizer, golden->rendered, layouts, false);
      ASSERT_TRUE(prompt) << prompt.error().message;
      EXPECT_EQ(prompt->bidirectional_prefix, static_cast<std::int64_t>(prompt->ids.size()));
      if (causal) prompt->bidirectional_prefix = 0;
      auto run = SoloRun::create(*model, *backend, *std::move(prompt), *images, 64);
      ASSERT_TRUE(run) << run.error().message;
      (*run)->prefill();
      EXPECT_EQ((*run)->greedy(64) == golden->greedy, !causal);
    }
  }
}

}  // namespace
}  // namespace saccade
