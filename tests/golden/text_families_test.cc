// Text-only families against transformers: every stage of every golden, on every device, in both
// forms that configurations have.
#include <gtest/gtest.h>

#include "model/solo_run.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

using test::golden_folder;

const std::vector<std::string> kTextCheckpoints = {
    "qwen2/odd_heads",   "qwen2/mixed_window", "llama3/scaled",         "llama3/plain",
    "qwen3/odd_heads",   "qwen3/stretched",    "qwen3_moe/every_layer", "qwen3_moe/some_layers",
    "qwen3_5/odd_heads", "qwen3_5/stretched",  "gemma3/text",           "mistral/wide_heads",
    "mistral/windowed"};
const std::vector<std::string> kTextGoldens = {"text", "multi_turn", "long"};

class TextGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(TextGolden, EveryStageAgrees) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  for (const std::string& name : kTextCheckpoints) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto model = test::load(directory, *device);
    ASSERT_NE(model, nullptr);
    for (const std::string& golden : kTextGoldens)
      test::expect_golden(*model, *device, directory, golden);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TextGolden, ::testing::ValuesIn(test::f32_device_names()),
                         [](const auto& device) { return device.param; });

TEST(TextFamilies, BothFormsOfACheckpointAreOneModel) {
  const auto device = make_reference_device();
  for (const std::string& name : kTextCheckpoints) {
    SCOPED_TRACE(name);
    const std::string other = ::testing::TempDir() + "/saccade_other_text_form";
    ASSERT_NO_FATAL_FAILURE(test::write_other_form(golden_folder(name), other));
    const auto model = test::load(other, *device);
    ASSERT_NE(model, nullptr);
    test::expect_golden(*model, *device, golden_folder(name), "text");
    std::filesystem::remove_all(other);
  }
}

TEST(TextFamilies, ChunksDoNotChangeTokens) {
  const auto device = make_reference_device();
  for (const std::string& name : kTextCheckpoints) {
    SCOPED_TRACE(name);
    const auto golden = read_golden(golden_folder(name) + "/golden/multi_turn.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto model = test::load(golden_folder(name), *device);
    ASSERT_NE(model, nullptr);
    for (const std::int64_t chunk : {1, 16, 50}) {
      auto run = SoloRun::create(*model->network, *device,
                                 model->processor->wrap_tokens(golden->ids).value(), {}, 8);
      ASSERT_TRUE(run) << run.error().message;
      (*run)->prefill(chunk);
      EXPECT_EQ((*run)->greedy(8),
                std::vector<TokenId>(golden->greedy.begin(), golden->greedy.begin() + 8))
          << chunk;
    }
  }
}

}  // namespace
}  // namespace saccade
