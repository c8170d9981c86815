// Tensor names and shapes that were read off published modelling code, where no index is at hand:
// tensors.txt of the shared data, "NAME with {i} | formula | [shape] | xCOUNT".
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "model/dummies/dummy_sizes.h"
#include "model/families.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

const std::string kPublishedTensors = SACCADE_SOURCE_DIR "/../shared/data/published/";

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::vector<std::int64_t> shape_of(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '[' || c == ']' || c == ','; }, ' ');
  std::istringstream in(text);
  std::vector<std::int64_t> shape;
  for (std::int64_t extent = 0; in >> extent;) shape.push_back(extent);
  return shape;
}

Shapes read_tensors(const std::string& path) {
  std::ifstream file(path);
  Shapes shapes;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> columns;
    std::istringstream in(line);
    for (std::string column; std::getline(in, column, '|');) columns.push_back(trimmed(column));
    EXPECT_EQ(columns.size(), 4u) << line;
    if (columns.size() != 4) continue;
    const int count = std::stoi(columns[3].substr(1));
    for (int i = 0; i < count; ++i) {
      std::string name = columns[0];
      if (const std::size_t at = name.find("{i}"); at != std::string::npos)
        name.replace(at, 3, std::to_string(i));
      shapes[name] = shape_of(columns[2]);
    }
  }
  return shapes;
}

struct ModelOfTensors {
  std::string folder;
  std::string family;
  std::int64_t parameters;
  std::int64_t max_tokens;  // of an image
};

class PublishedTensors : public ::testing::TestWithParam<ModelOfTensors> {};

TEST_P(PublishedTensors, AreTheTables) {
  const std::string directory = kPublishedTensors + GetParam().folder;
  if (!fs::exists(directory + "/tensors.txt")) GTEST_SKIP() << directory << " is absent";
  const auto checkpoint = open_checkpoint(directory);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = create_model(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->shape().family, GetParam().family);
  EXPECT_EQ(model->shape().max_image_tokens, GetParam().max_tokens);
  const WeightTable table = model->network->weight_table();
  Shapes wanted;
  for (const TensorSpec& spec : table.specs()) wanted[spec.name] = spec.shape;
  const Shapes published = read_tensors(directory + "/tensors.txt");
  EXPECT_EQ(wanted.size(), published.size());
  for (const auto& [name, shape] : published) {
    const auto found = wanted.find(name);
    if (found == wanted.end()) {
      ADD_FAILURE() << "the table lacks " << name;
    } else {
      EXPECT_EQ(found->second, shape) << name;
    }
  }
  EXPECT_EQ(parameter_count(table.specs()), GetParam().parameters);
}

// 1B: without the head, which is tied.
INSTANTIATE_TEST_SUITE_P(
    Checkpoints, PublishedTensors,
    ::testing::Values(ModelOfTensors{"OpenGVLab--InternVL2-1B", "internvl2", 802276096, 3328},
                      ModelOfTensors{"OpenGVLab--InternVL2-2B", "internvl2", 2205754368, 3328},
                      ModelOfTensors{"OpenGVLab--InternVL2-8B", "internvl2", 8075365376, 3328},
                      ModelOfTensors{"OpenGVLab--InternVL2-26B", "internvl2", 25514186112, 3328}),
    [](const auto& model) {
      std::string name = model.param.folder;
      std::ranges::replace_if(
          name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
      return name;
    });

// The sizes of make-dummy are the published ones.
TEST(InternVl2Dummies, HaveThePublishedSizes) {
  const Family* family = find_family("internvl2").value();
  const std::map<std::string_view, std::int64_t> sizes = {
      {"1b", 802276096}, {"2b", 2205754368}, {"8b", 8075365376}, {"26b", 25514186112}};
  for (const auto& [size, parameters] : sizes) {
    const DummyCheckpoint dummy = make_dummy(family->name, size);
    Checkpoint checkpoint;
    checkpoint.config = json::parse(dummy.files.front().text).value().get_object();
    const auto model = create_model(checkpoint);
    ASSERT_TRUE(model) << size << " " << model.error().message;
    EXPECT_EQ(parameter_count(model->network->weight_table().specs()), parameters) << size;
  }
}

TEST(Gemma3Dummies, HaveThePublishedSizes) {
  const Family* family = find_family("gemma-3").value();
  const std::map<std::string_view, std::int64_t> sizes = {{"270m", 268098176},
                                                          {"1b", 999885952},
                                                          {"4b", 4300079472},
                                                          {"12b", 12187325040},
                                                          {"27b", 27432406640}};
  for (const auto& [size, parameters] : sizes) {
    const DummyCheckpoint dummy = make_dummy(family->name, size);
    Checkpoint checkpoint;
    checkpoint.config = json::parse(dummy.files.front().text).value().get_object();
    const auto model = create_model(checkpoint);
    ASSERT_TRUE(model) << size << " " << model.error().message;
    EXPECT_EQ(parameter_count(model->network->weight_table().specs()), parameters) << size;
  }
}

}  // namespace
}  // namespace saccade
