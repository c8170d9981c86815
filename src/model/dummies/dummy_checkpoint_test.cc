#include "model/dummies/dummy_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "model/dummies/dummy_sizes.h"
#include "model/families.h"
#include "model/solo_run.h"
#include "text/templates/chat_template.h"
#include "text/tokenizer.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class DummyCheckpointTest : public ::testing::TestWithParam<const Family*> {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "/saccade_dummy_" + std::string(GetParam()->name);
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string directory_;
};

void expect_answer(const std::string& directory, Device& device) {
  const auto checkpoint = open_checkpoint(directory);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = load_model(*checkpoint, device);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->shape().cache_dtype, DType::kBf16);
  const auto tokenizer = load_tokenizer(directory);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_LE((*tokenizer)->vocab_size(), model->shape().vocab + model->shape().placeholders);
  auto prompt = model->processor->build_prompt(**tokenizer, "Describe the eye. ", {}, false);
  ASSERT_TRUE(prompt) << prompt.error().message;
  auto run = SoloRun::create(*model->network, device, *std::move(prompt), {}, 2);
  ASSERT_TRUE(run) << run.error().message;
  const View logits = (*run)->prefill();
  for (std::int64_t i = 0; i < logits.cols(); ++i)
    ASSERT_TRUE(std::isfinite(logits.row<float>(0)[i]));
}

void expect_embedding(const std::string& directory, Device& device) {
  const auto checkpoint = open_checkpoint(directory);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto encoder = load_encoder(*checkpoint, device);
  ASSERT_TRUE(encoder) << encoder.error().message;
  const auto tokenizer = load_tokenizer(directory);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_LE((*tokenizer)->vocab_size(), (*encoder)->shape().vocab);
  const auto ids = (*encoder)->tokenize(**tokenizer, "Describe the eye.");
  ASSERT_GT(ids.size(), 3U);
  ASSERT_TRUE((*encoder)->reserve(device, 64, 1));
  const std::int64_t dimensions = (*encoder)->shape().dimensions;
  const Buffer memory = *device.allocate(static_cast<std::size_t>(dimensions) * sizeof(float));
  const View out = memory.view(DType::kF32, 1, dimensions);
  const std::vector<std::int32_t> begins = {0, static_cast<std::int32_t>(ids.size())};
  (*encoder)->forward(device.lane(Lane::kStep), ids, begins, out);
  double square = 0;
  for (const float value : std::span(out.row<float>(0), static_cast<std::size_t>(dimensions)))
    square += double{value} * value;
  EXPECT_NEAR(square, 1, 1e-5);
}

// Every family's tiny checkpoint loads, tokenises and answers: with finite logits, or with an
// embedding of length 1.
TEST_P(DummyCheckpointTest, TinyLoadsAndAnswers) {
  DummyOptions options{.directory = directory_, .seed = 3, .shard_bytes = 400'000, .progress = {}};
  std::size_t done = 0;  // what was said last; to the end at last
  std::size_t all = 0;
  options.progress = [&](std::size_t written, std::size_t total) {
    EXPECT_GT(written, done);
    EXPECT_TRUE(all == 0 || all == total);
    done = written;
    all = total;
  };
  const auto written = write_dummy_checkpoint(*GetParam(), "tiny", options);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(done, all);
  EXPECT_GT(all, 0U);
  options.progress = {};
  const std::string first_shard = read(find_weight_files(directory_).value().paths.front());

  const auto device = make_reference_device();
  const auto check = GetParam()->create_encoder != nullptr ? expect_embedding : expect_answer;
  ASSERT_NO_FATAL_FAILURE(check(directory_, *device));

  ASSERT_TRUE(write_dummy_checkpoint(*GetParam(), "tiny", options));
  EXPECT_EQ(read(find_weight_files(directory_).value().paths.front()), first_shard);
  options.seed = 4;
  ASSERT_TRUE(write_dummy_checkpoint(*GetParam(), "tiny", options));
  EXPECT_NE(read(find_weight_files(directory_).value().paths.front()), first_shard);
}

TEST_P(DummyCheckpointTest, EverySizeHasAConfiguration) {
  for (const std::string_view size : dummy_sizes(GetParam()->name)) {
    if (size != "tiny") continue;  // full vocabularies take seconds each under sanitizers
    const auto written = write_dummy_checkpoint(
        *GetParam(), size, {.directory = directory_, .config_only = true, .progress = {}});
    EXPECT_TRUE(written) << written.error().message;
    EXPECT_FALSE(fs::exists(directory_ + "/model.safetensors"));
  }
  for (const std::string_view size : dummy_sizes(GetParam()->name)) {
    const DummyCheckpoint dummy = make_dummy(GetParam()->name, size);
    Checkpoint checkpoint = {
        "dummy", json::parse(dummy.files[0].text).value().get_object(), {}, {}};
    for (const DummyFile& file : dummy.files)
      if (file.name == "preprocessor_config.json")
        checkpoint.preprocessor = json::parse(file.text).value().get_object();
    if (GetParam()->create_encoder != nullptr) {
      const auto encoder = create_encoder(checkpoint);
      EXPECT_TRUE(encoder) << size << ": " << encoder.error().message;
      continue;
    }
    const auto model = create_model(checkpoint);
    EXPECT_TRUE(model) << size << ": " << model.error().message;
  }
  const auto unknown =
      write_dummy_checkpoint(*GetParam(), "9z", {.directory = directory_, .progress = {}});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("tiny"));
}

INSTANTIATE_TEST_SUITE_P(Families, DummyCheckpointTest,
                         ::testing::ValuesIn(families().begin(), families().end()),
                         [](const auto& family) {
                           std::string name(family.param->name);
                           std::ranges::replace_if(
                               name,
                               [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace saccade
