// What the command line says of a dataset, as prompts.
#include "bench/datasets/dataset_choice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

// One row of the pictures that the model card measures, with its question before or after them.
std::vector<ContentPart> parts_of_a_row(bool images_first) {
  const fs::path file = fs::temp_directory_path() / "saccade-dataset-choice.jsonl";
  std::ofstream(file) << R"({"prompt": "which?", "image_files": ["000-read.png", "001-read.png"]})";
  const auto text = make_word_source();
  DatasetContext context;
  context.text = text.get();
  context.num_prompts = 1;
  DataChoice choice;
  choice.name = "custom";
  choice.path = file;
  choice.image_folder = SACCADE_SOURCE_DIR "/data/glimpse";
  choice.images_first = images_first;
  auto dataset = load_dataset(choice, {}, nullptr, context, "vllm");
  fs::remove(file);
  EXPECT_TRUE(dataset.has_value()) << dataset.error().message;
  return dataset ? dataset->prompts.at(0).messages.at(0).parts : std::vector<ContentPart>();
}

TEST(DatasetChoice, ImagesComeAfterTheTextUnlessAskedFirst) {
  const auto usual = parts_of_a_row(false);
  ASSERT_EQ(usual.size(), 3u);
  EXPECT_EQ(usual[0].text, "which?");
  const auto turned = parts_of_a_row(true);
  ASSERT_EQ(turned.size(), 3u);
  ASSERT_EQ(turned[2].text, "which?");
  // Among themselves they keep their order.
  EXPECT_EQ(turned[0].image->sha256, usual[1].image->sha256);
  EXPECT_EQ(turned[1].image->sha256, usual[2].image->sha256);
  EXPECT_NE(turned[0].image->sha256, turned[1].image->sha256);
}

}  // namespace
}  // namespace saccade::bench
