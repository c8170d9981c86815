// A text model whose matrices are all of one quantised type, made here, of every such type: it
// answers as the checkpoint with the numbers that these blocks are, which gguf_test.cc has bit for
// bit from ggml's own package. Rows hold whole blocks of 256, as those of no other file here do.
#include <gtest/gtest.h>

#include <array>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "model/solo_run.h"
#include "ops/formats/block_codes.h"
#include "ops/readback.h"
#include "tests/golden/family_golden.h"
#include "tests/support/gguf_bytes.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kKvRows = 64;
constexpr std::int64_t kTypesVocab = 128;

struct Type {
  const char* name;
  std::uint32_t number;  // in a file
  std::size_t scale;     // where a block has it; minima stand behind it
  float middle;          // what minima are times the scale so that numbers have no mean; 0: none
  float unit;            // the scale of numbers that deviate by about one
};
const std::vector<Type> kTypes = {
    {"Q4_0", 2, 0, 0, 1 / 5.0F},        {"Q4_1", 3, 0, -7.5F, 1 / 5.0F},
    {"Q5_0", 6, 0, 0, 1 / 9.0F},        {"Q5_1", 7, 0, -15.5F, 1 / 9.0F},
    {"Q8_0", 8, 0, 0, 1 / 74.0F},       {"Q2_K", 10, 80, 1.5F, 1 / 8.0F},
    {"Q3_K", 11, 108, 0, 1 / 40.0F},    {"Q4_K", 12, 0, 7.5F, 1 / 150.0F},
    {"Q5_K", 13, 0, 15.5F, 1 / 300.0F}, {"Q6_K", 14, 208, 0, 1 / 1300.0F},
    {"IQ4_NL", 20, 0, 0, 1 / 70.0F},    {"IQ4_XS", 23, 0, 0, 1 / 1300.0F},
};

// Random blocks, and the numbers that they are.
struct Matrix {
  std::string blocks;
  std::vector<float> numbers;
};

Matrix matrix_of(const Type& type, std::int64_t rows, float deviation, std::mt19937& random) {
  const BlockFormat& format = block_format(*block_type(type.name));
  const auto count = static_cast<std::size_t>(rows * kWidth);
  const auto size = static_cast<std::size_t>(format.bytes);
  Matrix matrix{std::string(count / static_cast<std::size_t>(format.elements) * size, '\0'),
                std::vector<float>(count)};
  for (char& byte : matrix.blocks) byte = static_cast<char>(random() & 0xFFU);
  const float scale = deviation * type.unit;
  const std::array scales = {to_f16(scale), to_f16(scale * type.middle)};
  for (std::size_t at = type.scale; at < matrix.blocks.size(); at += size)
    std::memcpy(matrix.blocks.data() + at, scales.data(),
                (type.middle == 0 ? 1 : 2) * sizeof(scales[0]));
  dequantize_blocks(format.type, std::as_bytes(std::span(matrix.blocks)), matrix.numbers.data());
  return matrix;
}

class GgufTypes : public ::testing::TestWithParam<Type> {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / "saccade_gguf_type" / GetParam().name;
    fs::create_directories(folder_ / "checkpoint");
    metadata();
    json::object config = {{"architectures", {"Qwen2ForCausalLM"}},
                           {"model_type", "qwen2"},
                           {"hidden_size", kWidth},
                           {"intermediate_size", kWidth},
                           {"num_hidden_layers", 1},
                           {"num_attention_heads", kHeads},
                           {"num_key_value_heads", 1},
                           {"max_position_embeddings", 64},
                           {"rms_norm_eps", 1e-6},
                           {"rope_theta", 10000.0},
                           {"hidden_act", "silu"},
                           {"vocab_size", kTypesVocab},
                           {"eos_token_id", 1},
                           {"tie_word_embeddings", true}};
    std::ofstream(folder_ / "checkpoint/config.json") << boost::json::serialize(config);
    add_tensors();
    std::ofstream(folder_ / "model.gguf", std::ios::binary) << gguf_.bytes();
    std::ofstream(folder_ / "checkpoint/model.safetensors", std::ios::binary)
        << make_safetensors_header(plan_, {}) << numbers_;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Of one text, every token's.
  std::vector<float> logits(const std::string& place, const LoadOptions& options,
                            std::size_t* bytes = nullptr) {
    const auto device = make_cpu_device(kDeviceThreads).value();
    const auto model = test::load(place, *device, options);
    if (model == nullptr) return {};
    if (bytes != nullptr) *bytes = model->network->shape().weight_bytes;
    Prompt prompt;
    for (TokenId id = 0; id < 24; ++id) prompt.ids.push_back((id * 37 + 5) % kTypesVocab);
    prompt.positions.emplace_back(prompt.ids.size());
    std::iota(prompt.positions[0].begin(), prompt.positions[0].end(), 0);
    const auto run = SoloRun::create(*model->network, *device, std::move(prompt), {}, 1);
    EXPECT_TRUE(run) << run.error().message;
    if (!run) return {};
    Buffer staging;
    const View made = *readable(device->lane(Lane::kStep), (*run)->prefill(0, 24), staging);
    std::vector<float> values;
    for (std::int64_t row = 0; row < made.rows(); ++row)
      values.insert(values.end(), made.row<float>(row), made.row<float>(row) + made.cols());
    return values;
  }

  fs::path folder_;

 private:
  void metadata() {
    constexpr std::uint32_t kInt = 4;
    constexpr std::uint32_t kFloat = 6;
    gguf_.text("general.architecture", "qwen2");
    for (const auto& [key, value] :
         std::map<const char*, std::uint32_t>{{"qwen2.context_length", 64},
                                              {"qwen2.embedding_length", kWidth},
                                              {"qwen2.feed_forward_length", kWidth},
                                              {"qwen2.block_count", 1},
                                              {"qwen2.attention.head_count", kHeads},
                                              {"qwen2.attention.head_count_kv", 1},
                                              {"tokenizer.ggml.eos_token_id", 1}})
      gguf_.number<std::uint32_t>(key, kInt, value);
    gguf_.number<float>("qwen2.attention.layer_norm_rms_epsilon", kFloat, 1e-6F);
    gguf_.number<float>("qwen2.rope.freq_base", kFloat, 10000.0F);
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < kTypesVocab; ++i) names.push_back("t" + std::to_string(i));
    gguf_.text("tokenizer.ggml.model", "gpt2");
    gguf_.text("tokenizer.ggml.pre", "qwen2");
    gguf_.texts("tokenizer.ggml.tokens", {names.begin(), names.end()});
    gguf_.texts("tokenizer.ggml.merges", {});
  }

  void add_tensors() {
    std::mt19937 random(3);
    const float gain = 1 / std::sqrt(static_cast<float>(kWidth));
    const auto matrix = [&](const char* name, const std::string& to, std::int64_t rows,
                            float deviation) {
      const Matrix made = matrix_of(GetParam(), rows, deviation, random);
      gguf_.tensor(std::string(name) + ".weight", {rows, kWidth}, GetParam().number, made.blocks);
      checkpoint(to + ".weight", {rows, kWidth}, made.numbers);
    };
    const auto vector = [&](const std::string& name, const std::string& to, std::int64_t length,
                            float value) {
      const std::vector<float> numbers(static_cast<std::size_t>(length), value);
      gguf_.tensor(name, {length}, 0, bytes_of(numbers));
      checkpoint(to, {length}, numbers);
    };
    const std::string layer = "model.layers.0.";
    matrix("token_embd", "model.embed_tokens", kTypesVocab, 1);
    vector("output_norm.weight", "model.norm.weight", kWidth, gain);
    vector("blk.0.attn_norm.weight", layer + "input_layernorm.weight", kWidth, 1);
    vector("blk.0.ffn_norm.weight", layer + "post_attention_layernorm.weight", kWidth, 1);
    for (const auto& [from, to, rows] :
         {std::tuple{"q", "q_proj", kWidth}, {"k", "k_proj", kKvRows}, {"v", "v_proj", kKvRows}}) {
      matrix(fmt::format("blk.0.attn_{}", from).c_str(), layer + "self_attn." + to, rows, gain);
      vector(fmt::format("blk.0.attn_{}.bias", from), layer + "self_attn." + to + ".bias", rows,
             0.1F);
    }
    matrix("blk.0.attn_output", layer + "self_attn.o_proj", kWidth, gain);
    matrix("blk.0.ffn_gate", layer + "mlp.gate_proj", kWidth, gain);
    matrix("blk.0.ffn_up", layer + "mlp.up_proj", kWidth, gain);
    matrix("blk.0.ffn_down", layer + "mlp.down_proj", kWidth, gain);
  }

  static std::string bytes_of(const std::vector<float>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
  }
  void checkpoint(const std::string& name, std::vector<std::int64_t> shape,
                  const std::vector<float>& numbers) {
    plan_.push_back({name, DType::kF32, std::move(shape)});
    numbers_ += bytes_of(numbers);
  }

  TestGguf gguf_;
  std::vector<SafetensorsPlan> plan_;
  std::string numbers_;
};

TEST_P(GgufTypes, AnswersAsItsNumbers) {
  LoadOptions numbers{.compute = DType::kF32, .kv = {}};
  const std::vector<float> wanted = logits(folder_ / "checkpoint", numbers);
  ASSERT_FALSE(wanted.empty());
  double largest = 0;
  for (const float logit : wanted) {
    ASSERT_TRUE(std::isfinite(logit));
    largest = std::max(largest, std::abs(static_cast<double>(logit)));
  }
  EXPECT_GT(largest, 1);
  numbers.dequantize = true;
  std::size_t all = 0;
  EXPECT_EQ(logits(folder_ / "model.gguf", numbers, &all), wanted);

  LoadOptions served{.compute = DType::kF32, .kv = {}};
  served.int8_rows = Int8Rows::kBeforeBlocks;
  std::size_t kept = 0;
  const std::vector<float> near = logits(folder_ / "model.gguf", served, &kept);
  ASSERT_EQ(near.size(), wanted.size());
  double lost = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    lost = std::max(lost, std::abs(static_cast<double>(near[i]) - wanted[i]));
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, 0.1 * largest);
  EXPECT_LT(kept, all);
}

INSTANTIATE_TEST_SUITE_P(All, GgufTypes, ::testing::ValuesIn(kTypes),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace saccade
