// Text-only families against transformers: every stage of every golden, on every backend, in both
// forms that configurations have.
#include <gtest/gtest.h>

#include "model/solo_run.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

using testing::golden_folder;

const std::vector<std::string> kCheckpoints = {"qwen2/odd_heads", "qwen2/mixed_window",
                                               "llama3/scaled", "llama3/plain", "gemma3/text"};
const std::vector<std::string> kCases = {"text", "multi_turn", "long"};

class TextGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(TextGolden, EveryStageAgrees) {
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

INSTANTIATE_TEST_SUITE_P(Backends, TextGolden, ::testing::ValuesIn(testing::backend_names()),
                         [](const auto& backend) { return backend.param; });

TEST(TextFamilies, BothFormsOfACheckpointAreOneModel) {
  const auto backend = make_reference_backend();
  for (const std::string& name : kCheckpoints) {
    SCOPED_TRACE(name);
    const std::string other = ::testing::TempDir() + "/saccade_other_text_form";
    ASSERT_NO_FATAL_FAILURE(testing::write_other_form(golden_folder(name), other));
    const auto model = testing::load(other, *backend);
    ASSERT_NE(model, nullptr);
    testing::expect_golden(*model, *backend, golden_folder(name), "text");
    std::filesystem::remove_all(other);
  }
}

TEST(TextFamilies, ChunksDoNotChangeTokens) {
  const auto backend = make_reference_backend();
  for (const std::string& name : kCheckpoints) {
    SCOPED_TRACE(name);
    const auto golden = read_golden(golden_folder(name) + "/golden/multi_turn.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto model = testing::load(golden_folder(name), *backend);
    ASSERT_NE(model, nullptr);
    for (const std::int64_t chunk : {1, 16, 50}) {
      auto run = SoloRun::create(*model, *backend, model->wrap_tokens(golden->ids).value(), {}, 8);
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
