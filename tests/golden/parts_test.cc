// A checkpoint's tower and its text, each loaded without the other, and the tower's fingerprint:
// what names an embedding in every process that makes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/solo_run.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::golden_folder;

std::unique_ptr<Model> load(const std::string& directory, Device& device, Parts parts,
                            DType compute = DType::kF32) {
  return test::load(directory, device, {.compute = compute, .kv = DType::kF32, .parts = parts});
}

std::string fingerprint(const std::string& directory, Parts parts = Parts::kAll,
                        DType compute = DType::kF32) {
  const auto device = make_cpu_device(1).value();
  const auto model = load(directory, *device, parts, compute);
  return model == nullptr ? "" : model->shape().tower_fingerprint;
}

// A copy of a golden checkpoint with the last byte of one tensor changed.
class Changed {
 public:
  Changed(const std::string& name, const std::string& tensor)
      : directory_(::testing::TempDir() + "/saccade_parts_changed") {
    fs::remove_all(directory_);
    fs::copy(golden_folder(name), directory_);
    for (const auto& entry : fs::directory_iterator(directory_)) {
      if (entry.path().extension() != ".safetensors") continue;
      const auto file = SafetensorsFile::open(entry.path());
      EXPECT_TRUE(file) << file.error().message;
      const SafetensorsEntry* found = file->find(tensor);
      if (found == nullptr) continue;
      std::fstream bytes(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      std::uint64_t header = 0;
      bytes.read(reinterpret_cast<char*>(&header), sizeof header);
      const auto at = static_cast<std::streamoff>(sizeof header + header + found->end - 1);
      bytes.seekg(at);
      const int old = bytes.get();
      bytes.seekp(at);
      bytes.put(static_cast<char>(old ^ 1));
      ++changed_;
    }
    EXPECT_EQ(changed_, 1) << tensor;
  }
  ~Changed() { fs::remove_all(directory_); }
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
  int changed_ = 0;
};

TEST(TowerFingerprint, FollowsWhatMakesAnEmbedding) {
  const std::string name = "qwen2_vl/odd_heads";
  const std::string directory = golden_folder(name);
  const std::string whole = fingerprint(directory);
  EXPECT_EQ(whole.size(), 64u);
  // Other processes, which hold other parts, name the same embeddings.
  EXPECT_EQ(fingerprint(directory, Parts::kVision), whole);
  EXPECT_EQ(fingerprint(directory, Parts::kText), whole);
  EXPECT_NE(fingerprint(directory, Parts::kAll, DType::kBf16), whole);
  EXPECT_NE(fingerprint(golden_folder("qwen2_vl/mixed_window")), whole);

  const auto file = SafetensorsFile::open(directory + "/model.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  std::string in_tower;
  std::string in_text;
  for (const SafetensorsEntry& entry : file->tensors()) {
    if (entry.name.find("visual") != std::string::npos) {
      if (entry.name.find("merger") != std::string::npos) in_tower = entry.name;
    } else {
      in_text = entry.name;
    }
  }
  EXPECT_NE(fingerprint(Changed(name, in_tower).directory()), whole) << in_tower;
  EXPECT_EQ(fingerprint(Changed(name, in_text).directory()), whole) << in_text;
}

TEST(TowerFingerprint, IsEmptyWithoutATower) {
  EXPECT_EQ(fingerprint(golden_folder("qwen2/odd_heads")), "");
}

// Embedding rows of the golden's first image.
std::vector<float> encode_golden(const Model& model, Device& device, const Golden& golden) {
  const auto images = test::prepare_golden_images(*model.processor, golden);
  EXPECT_TRUE(images) << images.error().message;
  const PreparedImage& image = images->front();
  EXPECT_TRUE(model.network->reserve(device, {.rows = 16,
                                              .sequences = 1,
                                              .logit_rows = 1,
                                              .image_patches = model.shape().max_image_patches,
                                              .length = 16}));
  std::vector<float> rows(
      static_cast<std::size_t>(image.layout.tokens * model.shape().embedding_width()));
  const View out(rows.data(), DType::kF32, image.layout.tokens, model.shape().embedding_width());
  const PreparedImage* const first = &image;
  Stream& stream = device.lane(Lane::kEncode);
  const auto run = model.network->begin_encode(stream, {&first, 1}, {&out, 1});
  while (true) {
    const Result<bool> complete = run->advance();
    EXPECT_TRUE(complete) << complete.error().message;
    if (!complete || *complete) break;
  }
  stream.synchronize();
  stream.retire();
  return rows;
}

TEST(Parts, TheTowerAloneMakesTheSameRows) {
  for (const std::string name :
       {"qwen3_vl/odd_heads", "qwen3_vl_moe/some_layers", "internvl2/internlm2", "gemma3/pooled",
        "glm4v/odd_heads", "minicpmv/slices"}) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto golden = read_golden(directory + "/golden/one_image.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto device = make_cpu_device(1).value();
    const auto whole = load(directory, *device, Parts::kAll);
    const auto tower = load(directory, *device, Parts::kVision);
    const auto text = load(directory, *device, Parts::kText);
    ASSERT_TRUE(whole && tower && text);
    EXPECT_EQ(encode_golden(*tower, *device, *golden), encode_golden(*whole, *device, *golden));
    EXPECT_EQ(tower->shape().weight_bytes + text->shape().weight_bytes,
              whole->shape().weight_bytes);
    EXPECT_LT(tower->network->scratch_bytes(), whole->network->scratch_bytes());
  }
}

TEST(Parts, TheTextAloneAnswersTheSame) {
  for (const std::string name :
       {"qwen3_vl/odd_heads", "qwen3_vl_moe/some_layers", "phi_3_vision/su"}) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder(name);
    const auto golden = read_golden(directory + "/golden/text.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto device = make_cpu_device(1).value();
    const auto text = load(directory, *device, Parts::kText);
    ASSERT_NE(text, nullptr);
    test::expect_golden(*text, *device, directory, "text");
  }
}

TEST(Parts, ATowerThatIsNotThereIsSaid) {
  const auto device = make_cpu_device(1).value();
  const auto checkpoint = open_checkpoint(golden_folder("qwen2/odd_heads"));
  ASSERT_TRUE(checkpoint);
  const auto model =
      load_model(*checkpoint, *device, {.compute = {}, .kv = {}, .parts = Parts::kVision});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(model.error().message, ::testing::HasSubstr("qwen2 has no vision tower"));
}

}  // namespace
}  // namespace saccade
