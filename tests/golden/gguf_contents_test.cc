// What of a GGUF is put back in order, left out or refused, in files made field by field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "model/gguf/gguf_header.h"
#include "model/gguf/gguf_tokenizer.h"
#include "ops/formats/block_codes.h"
#include "tests/golden/family_golden.h"
#include "tests/support/gguf_bytes.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::golden_folder;
using ::testing::HasSubstr;

// Value heads of a delta net in blocks: whole blocks move, and what moves within a block becomes
// numbers.
TEST(GgufContents, ColumnsOfValueHeadsAreInOrder) {
  constexpr std::int64_t kHeads = 4;  // of two key heads: stored as 0, 2, 1, 3
  constexpr std::array<std::int64_t, kHeads> kStored = {0, 2, 1, 3};
  for (const auto& [type, number, head] : {std::tuple{BlockType::kQ80, 8U, std::int64_t{32}},
                                           {BlockType::kQ4K, 12U, std::int64_t{64}}}) {
    const BlockFormat& format = block_format(type);
    SCOPED_TRACE(format.name);
    const std::int64_t width = kHeads * head;
    std::string data(static_cast<std::size_t>(width / format.elements * format.bytes * 2), '\0');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(1 + i % 50);
    std::vector<float> stored(static_cast<std::size_t>(2 * width));
    dequantize_blocks(type, std::as_bytes(std::span(data)), stored.data());
    TestGguf file;
    file.text("general.architecture", "qwen35");
    file.number<std::uint32_t>("qwen35.ssm.group_count", 4, 2);
    file.number<std::uint32_t>("qwen35.ssm.time_step_rank", 4, kHeads);
    file.tensor("blk.0.ssm_out.weight", {2, width}, number, data);
    const std::string place = ::testing::TempDir() + "/saccade_gguf_heads.gguf";
    std::ofstream(place, std::ios::binary) << file.bytes();
    auto weights = Weights::open(place, {});
    ASSERT_TRUE(weights) << weights.error().message;
    const View values = weights->take("model.layers.0.linear_attn.out_proj.weight");
    ASSERT_EQ(values.dtype(), DType::kF32);
    fs::remove(place);
    for (std::int64_t i = 0; i < 2 * width; ++i) {
      const std::int64_t from =
          i / width * width + kStored[static_cast<std::size_t>(i % width / head)] * head + i % head;
      ASSERT_EQ(values.row<float>(i / width)[i % width], stored[static_cast<std::size_t>(from)])
          << i;
    }
  }
}

// What a file of Qwen3.5 has besides its layers.
TEST(GgufContents, LayersThatGuessAheadAreLeftOut) {
  constexpr std::uint32_t kInt = 4;
  constexpr std::uint32_t kF32 = 0;
  TestGguf file;
  file.text("general.architecture", "qwen35");
  file.number<std::uint32_t>("qwen35.block_count", kInt, 2);
  file.number<std::uint32_t>("qwen35.nextn_predict_layers", kInt, 1);
  for (const char* const name : {"blk.0.attn_q.weight", "blk.1.attn_q.weight",
                                 "blk.1.nextn.eh_proj.weight", "output_extra.weight"})
    file.tensor(name, {1, 1}, kF32, "abcd");
  const std::string place = ::testing::TempDir() + "/saccade_gguf_ahead.gguf";
  std::ofstream(place, std::ios::binary) << file.bytes();
  const auto weights = Weights::open(place, {});
  fs::remove(place);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_TRUE(weights->has("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_TRUE(weights->has("output_extra.weight"));
  for (const char* const name : {"model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight",
                                 "blk.1.nextn.eh_proj.weight"})
    EXPECT_FALSE(weights->has(name)) << name;
}

// Square ones, whose shape does not tell: a GGUF's have outputs first, whatever their name.
TEST(GgufContents, SquareExpertsHaveTheirOutputsFirst) {
  constexpr std::uint32_t kF32 = 0;
  std::vector<float> numbers(8);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  TestGguf file;
  file.text("general.architecture", "qwen3vlmoe");
  file.number<std::uint32_t>("qwen3vlmoe.block_count", 4, 1);
  file.tensor("blk.0.ffn_down_exps.weight", {2, 2, 2}, kF32,
              {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)});
  TestGguf projector;
  projector.text("general.architecture", "clip");
  projector.text("clip.projector_type", "qwen3vl_merger");
  const std::string place = ::testing::TempDir() + "/saccade_gguf_square.gguf";
  const std::string tower = ::testing::TempDir() + "/saccade_gguf_square_mmproj.gguf";
  std::ofstream(place, std::ios::binary) << file.bytes();
  std::ofstream(tower, std::ios::binary) << projector.bytes();
  auto weights = Weights::open(place + "," + tower, {});
  ASSERT_TRUE(weights) << weights.error().message;
  const std::string name = "model.language_model.layers.0.mlp.experts.down_proj";
  ASSERT_TRUE(weights->has(name));
  const std::vector<StoredMatrix> experts = weights->take_experts(name, 2, 2);
  ASSERT_EQ(experts.size(), 2U);
  for (std::size_t e = 0; e < 2; ++e) {
    std::array<float, 4> read = {};
    StoredMatrixReader(experts[e]).read(0, 2, 0, 2, read.data(), 2);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(read[i], numbers[4 * e + i]) << e << " " << i;
  }
  fs::remove(place);
  fs::remove(tower);
}

// downsample_mode 4x: its converter leaves out what the checkpoint has.
TEST(GgufContents, OfMiniCpmvFourPatchesBecomeOneTwice) {
  TestGguf projector;
  projector.text("general.architecture", "clip");
  projector.text("clip.projector_type", "minicpmv4_6");
  for (const char* const name :
       {"clip.vision.block_count", "clip.vision.embedding_length",
        "clip.vision.attention.head_count", "clip.vision.feed_forward_length",
        "clip.vision.patch_size", "clip.vision.projector.scale_factor"})
    projector.number<std::uint32_t>(name, 4, 2);
  const std::string place = ::testing::TempDir() + "/saccade_gguf_4x.gguf";
  std::ofstream(place, std::ios::binary) << projector.bytes();
  const auto checkpoint = open_checkpoint(golden_folder("gguf/minicpmv") + "/model.gguf," + place);
  fs::remove(place);
  ASSERT_FALSE(checkpoint);
  EXPECT_THAT(checkpoint.error().message,
              HasSubstr("scale_factor is 2 (downsample_mode 4x); 4 is read"));
}

// Qwen2's pattern, but for marks, which are a part of words.
TEST(GgufContents, MarksOfQwen35AreInTheirWords) {
  TestGguf other;
  other.text("tokenizer.ggml.model", "gpt2");
  other.text("tokenizer.ggml.pre", "qwen35");
  other.texts("tokenizer.ggml.tokens", {"a", "b"});
  other.texts("tokenizer.ggml.merges", {"a b"});
  const std::string made = other.bytes();
  const auto header = parse_gguf(std::as_bytes(std::span(made)));
  ASSERT_TRUE(header) << header.error().message;
  const auto texts = read_gguf_tokenizer(header->metadata);
  ASSERT_TRUE(texts) << texts.error().message;
  EXPECT_THAT(texts->at("tokenizer.json"), HasSubstr(R"([\\p{L}\\p{M}]+)"));
}

// Other models of llama.cpp's converter for LLaVA, which writes one projector's name for all.
TEST(GgufContents, OfLlavaOnlyOneVisionIsRead) {
  const std::string place = ::testing::TempDir() + "/saccade_gguf_llava.gguf";
  const auto error = [&](const TestGguf& projector) {
    std::ofstream(place, std::ios::binary) << projector.bytes();
    const auto checkpoint =
        open_checkpoint(golden_folder("gguf/llava_onevision") + "/model.gguf," + place);
    fs::remove(place);
    return checkpoint ? std::string("no error") : checkpoint.error().message;
  };
  constexpr std::uint32_t kF32 = 0;
  TestGguf first;
  first.text("general.architecture", "clip");
  first.text("clip.projector_type", "mlp");
  first.tensor("v.class_embd", {1}, kF32, "abcd");
  EXPECT_THAT(error(first), HasSubstr("of LLaVA OneVision is read"));
  TestGguf flat;
  flat.text("general.architecture", "clip");
  flat.text("clip.projector_type", "mlp");
  flat.text("clip.vision.mm_patch_merge_type", "flat");
  flat.tensor("model.image_newline", {1}, kF32, "abcd");
  EXPECT_THAT(error(flat),
              HasSubstr("clip.vision.mm_patch_merge_type is \"flat\"; spatial_unpad is read"));
}

TEST(GgufContents, LengthsOfTowersAreBounded) {
  const std::string place = ::testing::TempDir() + "/saccade_gguf_lengths.gguf";
  constexpr std::uint32_t kInt64 = 11;
  using Lengths = std::vector<std::pair<std::string_view, std::int64_t>>;
  const Lengths usual = {{"block_count", 2},          {"embedding_length", 32},
                         {"attention.head_count", 2}, {"feed_forward_length", 64},
                         {"image_size", 28},          {"patch_size", 14}};
  for (const auto& [family, type] :
       {std::pair{"gemma3", "gemma3"}, {"smolvlm2", "idefics3"}, {"minicpmv", "minicpmv4_6"}}) {
    SCOPED_TRACE(family);
    for (const auto& [wrong, value] : Lengths{{"block_count", 1025},
                                              {"embedding_length", 0},
                                              {"embedding_length", (1 << 20) + 1},
                                              {"attention.head_count", 0},
                                              {"attention.head_count", std::int64_t{1} << 62},
                                              {"feed_forward_length", std::int64_t{1} << 62},
                                              {"image_size", std::int64_t{1} << 62},
                                              {"image_size", -1},
                                              {"patch_size", 0},
                                              {"patch_size", std::int64_t{1} << 62}}) {
      TestGguf projector;
      projector.text("general.architecture", "clip");
      projector.text("clip.projector_type", type);
      for (const auto& [key, length] : usual)
        projector.number(fmt::format("clip.vision.{}", key), kInt64, key == wrong ? value : length);
      std::ofstream(place, std::ios::binary) << projector.bytes();
      const auto checkpoint =
          open_checkpoint(golden_folder(fmt::format("gguf/{}", family)) + "/model.gguf," + place);
      fs::remove(place);
      ASSERT_FALSE(checkpoint);
      EXPECT_THAT(checkpoint.error().message,
                  HasSubstr(fmt::format("clip.vision.{} is {}, ", wrong, value)));
    }
  }
}

// llama.cpp would turn these elements alone, so that the tokens would differ without a word.
TEST(GgufContents, APartOfAHeadThatTurnsIsRefused) {
  constexpr std::string_view kKey = "llama.rope.dimension_count";
  std::ifstream from(golden_folder("gguf/llama3_scaled") + "/model.gguf", std::ios::binary);
  std::string file((std::istreambuf_iterator<char>(from)), {});
  const std::size_t value = file.find(kKey) + kKey.size() + sizeof(std::uint32_t);
  ASSERT_EQ(file[value], 24);
  const std::string place = ::testing::TempDir() + "/saccade_gguf_turned.gguf";
  for (const char turned : {24, 12, 48, 0}) {
    file[value] = turned;
    std::ofstream(place, std::ios::binary) << file;
    const auto checkpoint = open_checkpoint(place);
    EXPECT_EQ(checkpoint.has_value(), turned == 24);
    if (checkpoint) continue;
    EXPECT_THAT(
        checkpoint.error().message,
        HasSubstr(fmt::format("llama.rope.dimension_count is {:d}, a head has 24", turned)));
  }
  fs::remove(place);
}

}  // namespace
}  // namespace saccade
