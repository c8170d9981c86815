// A table of weights loaded through a PackedCache: the same bytes, and nothing of the matrices is
// read once they are held.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/rng.h"
#include "model/checkpoint/packed_cache.h"
#include "model/checkpoint/weight_table.h"
#include "ops/formats/packed_form.h"
#include "tests/support/temporary_directory.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kWidth = 96;
constexpr std::int64_t kInner = 160;
constexpr std::int64_t kVocab = 70;
constexpr std::int64_t kExperts = 3;

// A model's destinations: stacked, tied, transposed, biased, by expert, of text and of a tower.
struct PackedModel {
  Linear qkv;
  Linear out;
  Linear tower;
  Linear turned;
  Linear head;
  std::vector<Linear> experts = std::vector<Linear>(kExperts);
  EmbeddingTable embedding;
  VectorWeight norm;

  WeightTable table() {
    WeightTable table;
    table.tied(head, embedding, "embed", "head", kVocab, kWidth);
    table.stacked(qkv, {{"q", kWidth, {{8, 16}, {0, 8}, {16, kWidth}}, {}}, {"k", 32}, {"v", 32}},
                  kWidth, Bias::kYes, MatrixRole::kTextLayer);
    table.linear(out, "out", kWidth, kInner, Bias::kNo, MatrixRole::kTextLayer);
    table.linear(tower, "tower", kInner, kWidth, Bias::kYes, MatrixRole::kTowerLayer);
    table.transposed(turned, "turned", kInner, kWidth);
    table.norm(norm, "norm", kWidth);
    for (std::size_t e = 0; e < experts.size(); ++e)
      table.linear(experts[e], fmt::format("l.mlp.experts.{}.down_proj", e), kWidth, kInner,
                   Bias::kNo, MatrixRole::kTextLayer);
    return table;
  }
  std::vector<const Linear*> matrices() const {
    std::vector<const Linear*> all = {&qkv, &out, &tower, &turned, &head};
    for (const Linear& expert : experts) all.push_back(&expert);
    return all;
  }
};

class PackedLoad : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "model");
    const std::vector<SafetensorsPlan> plan = {
        {"embed.weight", DType::kBf16, {kVocab, kWidth}},
        {"q.weight", DType::kBf16, {kWidth, kWidth}},
        {"k.weight", DType::kBf16, {32, kWidth}},
        {"v.weight", DType::kF32, {32, kWidth}},
        {"q.bias", DType::kBf16, {kWidth}},
        {"k.bias", DType::kBf16, {32}},
        {"v.bias", DType::kF32, {32}},
        {"out.weight", DType::kBf16, {kWidth, kInner}},
        {"tower.weight", DType::kF32, {kInner, kWidth}},
        {"tower.bias", DType::kF32, {kInner}},
        {"turned", DType::kF32, {kWidth, kInner}},
        {"norm", DType::kF32, {kWidth}},
        {"l.mlp.experts.down_proj", DType::kBf16, {kExperts, kWidth, kInner}},
    };
    header_ = make_safetensors_header(plan, {});
    Rng rng(5);
    for (const SafetensorsPlan& tensor : plan) {
      std::int64_t count = 1;
      for (const std::int64_t extent : tensor.shape) count *= extent;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<float>(rng.uniform()) - 0.5F;
        const Bf16 half = to_bf16(value);
        if (tensor.dtype == DType::kF32)
          data_.append(reinterpret_cast<const char*>(&value), sizeof(value));
        else
          data_.append(reinterpret_cast<const char*>(&half), sizeof(half));
      }
    }
    write(data_);
  }

  void write(const std::string& data) {
    std::ofstream(folder_ / "model" / "model.safetensors", std::ios::binary) << header_ << data;
  }
  // The forms of all matrices; `cache`: null for none.
  std::vector<std::string> load(PackedModel& model, const WeightTypes& types, PackedCache* cache,
                                std::size_t& bytes) {
    auto weights = Weights::open((folder_ / "model").string(), {});
    EXPECT_TRUE(weights) << weights.error().message;
    const auto loaded = model.table().load(*weights, *device_, types, cache);
    EXPECT_TRUE(loaded) << loaded.error().message;
    bytes = loaded.value_or(0);
    std::vector<std::string> forms;
    for (const Linear* matrix : model.matrices()) {
      const PackedForm form =
          dynamic_cast<const RestoresPacked&>(*device_).form_of(*matrix->weight);
      std::string& text = forms.emplace_back(fmt::format("{} {}", form.out, form.in));
      for (const std::int64_t word : form.layout) text += fmt::format(" {}", word);
      for (const auto piece : form.pieces)
        text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    return forms;
  }

  const test::TemporaryDirectory temporary_;
  fs::path folder_ = temporary_.path();
  std::string header_;
  std::string data_;
  std::unique_ptr<Device> device_ = make_cpu_device(2).value();
};

TEST_F(PackedLoad, IsTheLoadWithoutAndReadsNoMatrix) {
  WeightTypes bytes = DType::kBf16;
  bytes.text_layers = bytes.head = DType::kI8;
  WeightTypes codes = DType::kBf16;
  codes.four_bit_text = true;
  WeightTypes w4a8 = codes;
  w4a8.int8_rows = Int8Rows::kBeforeFourBits;
  w4a8.head = DType::kI8;
  WeightTypes tower = DType::kBf16;
  tower.tower_layers = DType::kI8;
  const std::vector<WeightTypes> all = {DType::kF32, DType::kBf16, bytes, codes, w4a8, tower};
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const std::string key = fmt::format("{}", i);
    PackedModel plain;
    std::size_t want_bytes = 0;
    const auto want = load(plain, all[i], nullptr, want_bytes);
    for (const bool held : {false, true}) {
      if (held) write(std::string(data_.size(), '\0'));
      auto cache = PackedCache::open((folder_ / "cache").string(), key, *device_);
      ASSERT_EQ(cache->holds(), held);
      PackedModel model;
      std::size_t got_bytes = 0;
      EXPECT_EQ(load(model, all[i], cache.get(), got_bytes), want);
      EXPECT_EQ(got_bytes, want_bytes);
      EXPECT_TRUE(cache->finish());
    }
    write(data_);
  }
}

// Rounding that the file was not made for: what is held is found out, and all is made.
TEST_F(PackedLoad, TypesThatTheKeyForgotAreFoundOut) {
  WeightTypes codes = DType::kBf16;
  codes.four_bit_text = true;
  const auto open = [&] { return PackedCache::open((folder_ / "cache").string(), "", *device_); };
  std::size_t bytes = 0;
  {
    PackedModel model;
    auto cache = open();
    load(model, DType::kBf16, cache.get(), bytes);
    EXPECT_TRUE(cache->finish());
  }
  PackedModel plain;
  const auto want = load(plain, codes, nullptr, bytes);
  PackedModel model;
  auto cache = open();
  ASSERT_TRUE(cache->holds());
  auto weights = Weights::open((folder_ / "model").string(), {});
  ASSERT_TRUE(weights);
  ASSERT_TRUE(model.table().load(*weights, *device_, codes, cache.get()));
  EXPECT_FALSE(cache->finish());
  EXPECT_EQ(load(model, codes, cache.get(), bytes), want);
  EXPECT_TRUE(cache->finish());
}

}  // namespace
}  // namespace saccade
