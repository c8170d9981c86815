#include "model/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace saccade {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/saccade_checkpoint_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
    ::unsetenv("HF_HUB_CACHE");
    ::setenv("HF_HOME", root_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("HF_HOME");
    fs::remove_all(root_);
  }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << text;
  }
  std::string root_;
};

TEST_F(CheckpointTest, ResolvesTheHubCache) {
  write("hub/models--Org--Name.1/refs/main", "abc123\n");
  write("hub/models--Org--Name.1/snapshots/abc123/config.json", "{}");
  EXPECT_EQ(resolve_checkpoint("Org/Name.1").value(),
            root_ + "/hub/models--Org--Name.1/snapshots/abc123");
  ::setenv("HF_HUB_CACHE", (root_ + "/hub").c_str(), 1);
  EXPECT_TRUE(resolve_checkpoint("Org/Name.1"));
  ::unsetenv("HF_HUB_CACHE");
  EXPECT_EQ(resolve_checkpoint(root_).value(), root_);

  const auto missing = resolve_checkpoint("Org/Other");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("saccade model pull Org/Other"));
  write("hub/models--Org--Evil/refs/main", "../../../../etc");
  EXPECT_FALSE(resolve_checkpoint("Org/Evil"));
  for (const char* name : {"nowhere", "/no/such/dir", "a/b/c", "../x", "a/..", "a/b c", ""})
    EXPECT_FALSE(resolve_checkpoint(name)) << name;
}

TEST_F(CheckpointTest, RefusesOtherFormatsByName) {
  for (const char* name : {"x/pytorch_model.bin", "m.safetensors"}) {
    const auto resolved = resolve_checkpoint(name);
    ASSERT_FALSE(resolved);
    EXPECT_EQ(resolved.error().code, ErrorCode::kUnsupported) << name;
    EXPECT_THAT(resolved.error().message, HasSubstr(name));
    EXPECT_THAT(resolved.error().message, HasSubstr("saccade model pull"));
  }
  write("config.json", "{}");
  write("pytorch_model.bin", "x");
  EXPECT_THAT(find_weight_files(root_).error().message, HasSubstr("pytorch_model.bin"));
  fs::remove(root_ + "/pytorch_model.bin");
  fs::remove(root_ + "/config.json");
  EXPECT_THAT(resolve_checkpoint("none.gguf").error().message,
              HasSubstr("there is no file none.gguf"));
  write("qwen2-vl-q4.gguf", "x");
  EXPECT_THAT(open_checkpoint(root_).error().message, HasSubstr("GGUF's mark takes 4 bytes"));
  fs::remove(root_ + "/qwen2-vl-q4.gguf");
  EXPECT_THAT(open_checkpoint(root_).error().message, HasSubstr("no config.json"));
}

TEST_F(CheckpointTest, ReadsSmallFilesAndTheEndOfText) {
  write("config.json", R"({"eos_token_id": 7, "text_config": {"eos_token_id": 9}})");
  auto checkpoint = open_checkpoint(root_);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(eos_tokens(*checkpoint).value(), ElementsAre(7));
  write("generation_config.json", R"({"eos_token_id": [1, 2]})");
  write("processor_config.json", R"({"image_processor": {"patch_size": 14}})");
  checkpoint = open_checkpoint(root_);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(eos_tokens(*checkpoint).value(), ElementsAre(1, 2));
  EXPECT_TRUE(checkpoint->preprocessor.contains("patch_size"));
  write("generation_config.json", R"({"eos_token_id": ["x"]})");
  EXPECT_FALSE(eos_tokens(open_checkpoint(root_).value()));
  write("config.json", "[1]");
  EXPECT_THAT(open_checkpoint(root_).error().message, HasSubstr("config.json"));
}

}  // namespace
}  // namespace saccade
