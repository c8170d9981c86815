#include "model/quantization/quantized_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Tensors that live as long as the test.
class Tensors {
 public:
  template <typename T>
  StoredTensor add(std::string_view dtype, std::vector<std::int64_t> shape, std::vector<T> values) {
    shapes_.push_back(std::move(shape));
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    // One byte in front: files do not align what they hold.
    bytes_.emplace_back(1);
    bytes_.back().insert(bytes_.back().end(), bytes, bytes + values.size() * sizeof(T));
    return {dtype, shapes_.back(), std::span<const std::byte>(bytes_.back()).subspan(1)};
  }
  StoredTensor zeros(std::string_view dtype, std::vector<std::int64_t> shape, std::size_t size) {
    std::size_t count = size;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return add(dtype, std::move(shape), std::vector<std::uint8_t>(count));
  }

 private:
  std::deque<std::vector<std::int64_t>> shapes_;
  std::deque<std::vector<std::byte>> bytes_;
};

std::vector<float> values_of(const StoredMatrix& matrix) {
  std::vector<float> values(static_cast<std::size_t>(matrix.out() * matrix.in()));
  StoredMatrixReader(matrix).read(0, matrix.out(), 0, matrix.in(), values.data(), matrix.in());
  return values;
}

// Nibbles 7 ... 0 of 0x86427531 hold outputs 7 5 3 1 6 4 2 0 in AWQ's order.
TEST(QuantizedMatrix, AwqInterleavesOutputs) {
  Tensors t;
  const auto matrix = join_parts(
      {.method = QuantMethod::kAwq, .group = 1},
      {.codes = t.add<std::uint32_t>("I32", {2, 1}, {0x86427531, 0x11111111}),
       .scales = t.add<float>("F32", {2, 8}, {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 10}),
       .zeros = t.add<std::uint32_t>("I32", {2, 1}, {0, 0x30000000}),
       .order = {}});
  ASSERT_TRUE(matrix) << matrix.error().message;
  EXPECT_THAT(values_of(*matrix), ElementsAre(1, 2, 2, 2, 3, 2, 4, 2, 5, 2, 6, 2, 7, 2, 8, -20));
  // Zeros lie in the same order: 1 to 8 here.
  const auto zeros = join_parts({.method = QuantMethod::kAwq, .group = 0},
                                {.codes = t.add<std::uint32_t>("I32", {1, 1}, {0x99999999}),
                                 .scales = t.add<float>("F32", {1, 8}, std::vector(8, 1.0f)),
                                 .zeros = t.add<std::uint32_t>("I32", {1, 1}, {0x86427531}),
                                 .order = {}});
  ASSERT_TRUE(zeros) << zeros.error().message;
  EXPECT_THAT(values_of(*zeros), ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
}

TEST(QuantizedMatrix, GptqZerosOfBothFormats) {
  Tensors t;
  // Inputs 0 ... 7 have codes 0 ... 7; outputs differ in their zeros alone: 0, 1, 2, ... 7. The
  // first format borrows: 0x76543210 - 0x11111111.
  const StoredTensor codes = t.add<std::uint32_t>("I32", {1, 8}, std::vector(8, 0x76543210u));
  const StoredTensor scales = t.add<float>("F32", {1, 8}, std::vector(8, 1.0f));
  for (const bool first : {true, false}) {
    const auto matrix = join_parts(
        {.method = QuantMethod::kGptq, .group = 0, .zeros_less_one = first},
        {.codes = codes,
         .scales = scales,
         .zeros = t.add<std::uint32_t>("I32", {1, 1}, {0x76543210u - (first ? 0x11111111u : 0)}),
         .order = {}});
    ASSERT_TRUE(matrix) << matrix.error().message;
    const std::vector<float> values = values_of(*matrix);
    for (std::size_t o = 0; o < 8; ++o)
      for (std::size_t i = 0; i < 8; ++i)
        EXPECT_EQ(values[o * 8 + i], static_cast<float>(i) - static_cast<float>(o)) << first;
  }
  // Says the first format, stores the second: symmetric zeros are 8, never 9.
  const auto sly = join_parts(
      {.method = QuantMethod::kGptq, .group = 0, .symmetric = true, .zeros_less_one = true},
      {.codes = codes,
       .scales = scales,
       .zeros = t.add<std::uint32_t>("I32", {1, 1}, {0x88888888}),
       .order = {}});
  EXPECT_EQ(values_of(*sly)[0], -8);
}

TEST(QuantizedMatrix, GptqInputsChooseTheirGroup) {
  Tensors t;
  const auto matrix =
      join_parts({.method = QuantMethod::kGptq, .bits = 8, .group = 2},
                 {.codes = t.add<std::uint32_t>("I32", {1, 4}, std::vector(4, 0xff030201u)),
                  .scales = t.add<float>("F32", {2, 4}, {1, 1, 1, 1, 10, 10, 10, 10}),
                  .zeros = t.add<std::uint32_t>("I32", {2, 1}, {0, 0x01010101}),
                  .order = t.add<std::int32_t>("I32", {4}, {1, 0, 0, 1})});
  ASSERT_TRUE(matrix) << matrix.error().message;
  const std::vector<float> values = values_of(*matrix);
  EXPECT_EQ((std::vector<float>{values.begin(), values.begin() + 4}),
            (std::vector<float>{0, 2, 3, 2540}));
}

TEST(QuantizedMatrix, Fp8EveryCode) {
  Tensors t;
  std::vector<std::uint8_t> codes(256);
  for (std::size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::uint8_t>(i);
  const auto matrix = join_parts({.method = QuantMethod::kFp8, .bits = 8},
                                 {.codes = t.add("F8_E4M3", {2, 128}, codes),
                                  .scales = t.add<float>("F32", {2, 1}, {1, 0.5}),
                                  .zeros = {},
                                  .order = {}});
  ASSERT_TRUE(matrix) << matrix.error().message;
  const std::vector<float> values = values_of(*matrix);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 0x1p-9f);  // the smallest
  EXPECT_EQ(values[8], 0x1p-6f);  // the smallest with a full mantissa
  EXPECT_EQ(values[0x38], 1);
  EXPECT_EQ(values[0x7e], 448);  // the largest
  EXPECT_TRUE(std::isnan(values[0x7f]));
  EXPECT_EQ(values[0xb8], -0.5f);
  EXPECT_EQ(values[0xfe], -224);
}

TEST(QuantizedMatrix, Fp8BlocksThatAreCutOff) {
  Tensors t;
  const auto matrix =
      join_parts({.method = QuantMethod::kFp8, .bits = 8, .block_out = 2, .block_in = 4},
                 {.codes = t.add("F8_E4M3", {3, 5}, std::vector<std::uint8_t>(15, 0x38)),
                  .scales = t.add<float>("F32", {2, 2}, {1, 2, 3, 4}),
                  .zeros = {},
                  .order = {}});
  ASSERT_TRUE(matrix) << matrix.error().message;
  EXPECT_THAT(values_of(*matrix), ElementsAre(1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 3, 3, 3, 3, 4));
}

// Scales of eight bits are powers of two, 2^-127 to 2^127; all ones is no number.
TEST(QuantizedMatrix, Fp8ScalesThatArePowersOfTwo) {
  Tensors t;
  const auto matrix =
      join_parts({.method = QuantMethod::kFp8, .bits = 8, .block_out = 1, .block_in = 4},
                 {.codes = t.add("F8_E4M3", {3, 5}, std::vector<std::uint8_t>(15, 0x38)),
                  .scales = t.add<std::uint8_t>("F8_E8M0", {3, 2}, {127, 128, 120, 0, 254, 255}),
                  .zeros = {},
                  .order = {}});
  ASSERT_TRUE(matrix) << matrix.error().message;
  const std::vector<float> values = values_of(*matrix);
  EXPECT_THAT((std::vector<float>{values.begin(), values.begin() + 14}),
              ElementsAre(1, 1, 1, 1, 2, 0x1p-7F, 0x1p-7F, 0x1p-7F, 0x1p-7F, 0x1p-127F, 0x1p127F,
                          0x1p127F, 0x1p127F, 0x1p127F));
  EXPECT_TRUE(std::isnan(values.back()));
}

// Tiles end inside the matrix, and every element is written.
TEST(QuantizedMatrix, TilesCoverEverything) {
  Tensors t;
  const std::int64_t in = 192 + 8;
  const std::int64_t out = 256 + 8;
  const auto matrix = join_parts(
      {.method = QuantMethod::kGptq, .group = 64},
      {.codes = t.add("I32", {in / 8, out},
                      std::vector(static_cast<std::size_t>(in / 8 * out), 0x99999999u)),
       .scales = t.add("F32", {4, out}, std::vector(static_cast<std::size_t>(4 * out), 0.5f)),
       .zeros = t.add("I32", {4, out / 8},
                      std::vector(static_cast<std::size_t>(4 * out / 8), 0x11111111u)),
       .order = {}});
  ASSERT_TRUE(matrix) << matrix.error().message;
  for (const float value : values_of(*matrix)) ASSERT_EQ(value, 4);
}

TEST(QuantizedMatrix, RefusesPartsThatDoNotFit) {
  Tensors t;
  const Quantization awq{.method = QuantMethod::kAwq, .group = 32};
  const Quantization gptq{.method = QuantMethod::kGptq, .group = 32};
  const Quantization fp8{.method = QuantMethod::kFp8, .bits = 8};
  const Quantization blocks{.method = QuantMethod::kFp8, .bits = 8, .block_out = 4, .block_in = 4};
  const auto words = [&](std::vector<std::int64_t> shape) { return t.zeros("I32", shape, 4); };
  const auto halves = [&](std::vector<std::int64_t> shape) { return t.zeros("F16", shape, 2); };
  const auto bytes = [&](std::vector<std::int64_t> shape) { return t.zeros("F8_E4M3", shape, 1); };
  static constexpr std::array<std::int64_t, 2> kHuge = {1, INT64_MAX};
  struct Case {
    Quantization quantization;
    QuantizedParts parts;
    const char* message;
  };
  const std::vector<Case> cases = {
      {awq, {words({64, 2}), {}, words({2, 2}), {}}, "scales is missing"},
      {awq, {words({64, 2}), halves({2, 16}), {}, {}}, "qzeros is missing"},
      {awq, {halves({64, 2}), halves({2, 16}), words({2, 2}), {}}, "qweight is F16"},
      {awq, {words({64, 2}), words({2, 16}), words({2, 2}), {}}, "scales is I32"},
      {awq, {words({64}), halves({2, 16}), words({2, 2}), {}}, "qweight is [64]"},
      {awq, {words({0, 2}), halves({0, 16}), words({0, 2}), {}}, "qweight is [0, 2]"},
      {awq,
       {{"I32", kHuge, {}}, halves({2, 16}), words({2, 2}), {}},
       "qweight is [1, 9223372036854775807]"},
      {awq, {words({48, 2}), halves({2, 16}), words({2, 2}), {}}, "no multiple of group_size 32"},
      {awq,
       {words({64, 2}), halves({1, 16}), words({2, 2}), {}},
       "scales is [1, 16], the others make it [2, 16]"},
      {awq, {words({64, 2}), halves({2, 16}), words({2, 16}), {}}, "qzeros is [2, 16]"},
      {gptq,
       {words({8, 12}), halves({2, 12}), words({2, 1}), {}},
       "12 outputs do not fill words of 8"},
      {gptq, {words({8, 16}), halves({2, 16}), words({2, 2}), words({63})}, "g_idx is [63]"},
      {gptq,
       {words({8, 16}), halves({2, 16}), words({2, 2}),
        t.add<std::int32_t>("I32", {64}, std::vector(64, 2))},
       "g_idx of input 0 is 2, there are 2 groups"},
      {gptq,
       {words({8, 16}), halves({2, 16}), words({2, 2}),
        t.add<std::int32_t>("I32", {64}, std::vector(64, -1))},
       "g_idx of input 0 is -1"},
      {gptq,
       {words({8, 16}), halves({2, 16}), words({2, 2}), t.zeros("I64", {64}, 8)},
       "g_idx is I64"},
      {fp8, {bytes({4, 8}), {}, {}, {}}, "its scale is missing"},
      {fp8, {bytes({4, 8}), t.zeros("F8_E5M2", {1}, 1), {}, {}}, "its scale is F8_E5M2"},
      {awq,
       {words({64, 2}), t.zeros("F8_E8M0", {2, 16}, 1), words({2, 2}), {}},
       "scales is F8_E8M0"},
      {fp8, {bytes({4, 8}), halves({8}), {}, {}}, "its scale is [8]"},
      {fp8, {bytes({4, 8}), halves({4, 2}), {}, {}}, "its scale is [4, 2]"},
      {fp8, {bytes({4, 8}), halves({0}), {}, {}}, "its scale is [0]"},
      {fp8, {bytes({4, 8}), halves({1, 1, 1}), {}, {}}, "its scale is [1, 1, 1]"},
      {blocks,
       {bytes({4, 8}), halves({1, 1}), {}, {}},
       "its scale is [1, 1], the others make it [1, 2]"},
      {fp8, {bytes({4, 8, 1}), halves({1}), {}, {}}, "weight is [4, 8, 1]"},
  };
  for (const Case& each : cases) {
    const auto matrix = join_parts(each.quantization, each.parts);
    ASSERT_FALSE(matrix) << each.message;
    EXPECT_THAT(matrix.error().message, HasSubstr(each.message));
  }
}

TEST(QuantizedModules, AreFoundByTheirNames) {
  Tensors t;
  std::map<std::string, StoredTensor, std::less<>> tensors;
  tensors["a.qweight"] = t.zeros("I32", {32, 1}, 4);
  tensors["a.qzeros"] = t.zeros("I32", {1, 1}, 4);
  tensors["a.scales"] = t.zeros("F16", {1, 8}, 2);
  tensors["a.bias"] = t.zeros("F16", {8}, 2);
  tensors["b.weight"] = t.zeros("F16", {8, 8}, 2);
  tensors["attn.k_scale"] = t.zeros("F32", {1}, 4);
  const auto found = find_quantized({.method = QuantMethod::kAwq, .group = 32}, tensors);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->modules.size(), 1u);
  EXPECT_EQ(found->modules.begin()->first, "a.weight");
  EXPECT_THAT(found->modules.begin()->second.tensors,
              ElementsAre("a.qweight", "a.scales", "a.qzeros"));
  EXPECT_THAT(found->unused, ElementsAre("attn.k_scale"));
  tensors.erase("a.scales");
  EXPECT_THAT(find_quantized({.method = QuantMethod::kAwq, .group = 32}, tensors).error().message,
              HasSubstr("module \"a\": scales is missing"));
}

// compressed-tensors calls a scale weight_scale, transformers weight_scale_inv where it is a
// block's.
TEST(QuantizedModules, ScalesOfFloatsHaveTwoNames) {
  for (const std::string scale : {"a.weight_scale", "a.weight_scale_inv"}) {
    Tensors t;
    std::map<std::string, StoredTensor, std::less<>> tensors;
    tensors["a.weight"] = t.zeros("F8_E4M3", {4, 8}, 1);
    tensors[scale] = t.zeros("F32", {1, 1}, 4);
    const auto found = find_quantized(
        {.method = QuantMethod::kFp8, .bits = 8, .block_out = 128, .block_in = 128}, tensors);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->modules.size(), 1u);
    EXPECT_THAT(found->modules.begin()->second.tensors, ElementsAre("a.weight", scale));
  }
}

// As transformers has the experts of a layer: a matrix each, with blocks of its own.
TEST(QuantizedModules, ExpertsThatAreStacked) {
  Tensors t;
  std::map<std::string, StoredTensor, std::less<>> tensors;
  const std::string name = "l.mlp.experts.down_proj";
  // 3 outputs by 5 inputs in blocks of 2 x 4: blocks are cut off within each expert.
  tensors[name] = t.add("F8_E4M3", {2, 3, 5}, std::vector<std::uint8_t>(30, 0x38));  // 1
  tensors[name + "_scale_inv"] = t.add<float>("F32", {2, 2, 2}, {1, 2, 4, 8, 16, 32, 64, 128});
  tensors[name + "_activation_scale"] = t.add<float>("F32", {2}, {0.5F, 0.25F});
  Quantization fp8{.method = QuantMethod::kFp8, .bits = 8, .block_out = 2, .block_in = 4};
  fp8.activations = true;
  for (const bool used : {true, false}) {
    fp8.static_activations = used;
    const auto found = find_quantized(fp8, tensors);
    ASSERT_TRUE(found) << found.error().message;
    const QuantizedModule& module = found->modules.at(name);
    ASSERT_EQ(module.experts.size(), 2u);
    EXPECT_THAT(values_of(module.matrix), ElementsAre(1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 4, 4, 4, 4, 8));
    EXPECT_THAT(values_of(module.experts[1]),
                ElementsAre(16, 16, 16, 16, 32, 16, 16, 16, 16, 32, 64, 64, 64, 64, 128));
    EXPECT_EQ(module.experts[1].input_scale, used ? 0.25F : 0);
    EXPECT_EQ(module.tensors.size(), used ? 3u : 2u);
    EXPECT_EQ(found->unused.size(), used ? 0u : 1u);
  }
  const auto refusal = [&](const std::string& tensor, const StoredTensor& changed) {
    auto other = tensors;
    other[tensor] = changed;
    return find_quantized(fp8, other).error().message;
  };
  EXPECT_THAT(refusal(name + "_scale_inv", t.zeros("F32", {3, 2, 2}, 4)),
              HasSubstr("is [3, 2, 2], there are 2 experts"));
  EXPECT_THAT(refusal(name + "_scale_inv", t.zeros("F32", {2, 1, 2}, 4)),
              HasSubstr("experts \"" + name + "\": its scale is [1, 2]"));
  EXPECT_THAT(refusal(name, t.zeros("F8_E4M3", {0, 3, 5}, 1)), HasSubstr("it is [0, 3, 5]"));
  EXPECT_THAT(refusal(name, t.zeros("F8_E4M3", {65537, 1, 1}, 1)),
              HasSubstr("it is [65537, 1, 1], 1 to 65536 experts are read"));
  tensors.erase(name + "_scale_inv");
  EXPECT_THAT(find_quantized(fp8, tensors).error().message, HasSubstr("its scale is missing"));
}

// A scale of activations belongs to its matrix where the checkpoint says that it is used, and is
// one of those that serve nothing elsewhere.
TEST(QuantizedModules, ScalesOfActivations) {
  Tensors t;
  std::map<std::string, StoredTensor, std::less<>> tensors;
  tensors["a.weight"] = t.zeros("F8_E4M3", {4, 8}, 1);
  tensors["a.weight_scale"] = t.zeros("F32", {}, 4);
  tensors["a.input_scale"] = t.add<float>("F32", {1}, {0.25F});
  tensors["b.weight"] = tensors["a.weight"];
  tensors["b.weight_scale"] = tensors["a.weight_scale"];
  tensors["c.input_scale"] = tensors["a.input_scale"];
  Quantization fp8{.method = QuantMethod::kFp8, .bits = 8};
  fp8.activations = true;
  for (const bool used : {true, false}) {
    fp8.static_activations = used;
    const auto found = find_quantized(fp8, tensors);
    ASSERT_TRUE(found) << found.error().message;
    const StoredMatrix& a = found->modules.at("a.weight").matrix;
    EXPECT_TRUE(a.rounds_activations);
    EXPECT_EQ(a.input_scale, used ? 0.25F : 0);
    EXPECT_EQ(found->modules.at("b.weight").matrix.input_scale, 0);
    EXPECT_EQ(found->modules.at("a.weight").tensors.size(), used ? 3u : 2u);
    EXPECT_EQ(found->unused.size(), used ? 1u : 2u);
  }
  // One that scales nothing counts as none; one that is no number is refused.
  fp8.static_activations = true;
  for (const float none : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    tensors["a.input_scale"] = t.add<float>("F32", {}, {none});
    EXPECT_EQ(find_quantized(fp8, tensors)->modules.at("a.weight").matrix.input_scale, 0);
  }
  tensors["a.input_scale"] = t.add<std::uint16_t>("BF16", {1, 1}, {0x3f80});
  EXPECT_EQ(find_quantized(fp8, tensors)->modules.at("a.weight").matrix.input_scale, 1);
  tensors["a.input_scale"] = t.zeros("F32", {2}, 4);
  EXPECT_THAT(find_quantized(fp8, tensors).error().message, HasSubstr("input_scale is [2]"));
  tensors["a.input_scale"] = t.zeros("I32", {}, 4);
  EXPECT_THAT(find_quantized(fp8, tensors).error().message, HasSubstr("input_scale is I32"));
}

// transformers calls the scale of activations activation_scale.
TEST(QuantizedModules, ScalesOfActivationsAsTransformersNamesThem) {
  Tensors t;
  std::map<std::string, StoredTensor, std::less<>> tensors;
  tensors["a.weight"] = t.zeros("F8_E4M3", {4, 8}, 1);
  tensors["a.weight_scale_inv"] = t.add<float>("F32", {}, {0.5F});
  tensors["a.activation_scale"] = t.add<float>("F32", {}, {0.25F});
  Quantization fp8{.method = QuantMethod::kFp8, .bits = 8};
  fp8.activations = true;
  for (const bool used : {true, false}) {
    fp8.static_activations = used;
    const auto found = find_quantized(fp8, tensors);
    ASSERT_TRUE(found) << found.error().message;
    const QuantizedModule& a = found->modules.at("a.weight");
    EXPECT_EQ(a.matrix.input_scale, used ? 0.25F : 0);
    EXPECT_EQ(a.tensors.size() + found->unused.size(), 3u);
    EXPECT_EQ(found->unused.size(), used ? 0u : 1u);
  }
}

// compressed-tensors: rows are filled up to whole words, zeros are words of outputs.
TEST(QuantizedMatrix, PackedRows) {
  Tensors t;
  const Quantization asymmetric = {.method = QuantMethod::kPacked, .bits = 4, .group = 2};
  QuantizedParts parts = {.codes = t.add<std::uint32_t>("I32", {2, 1}, {0x321, 0x654}),
                          .scales = t.add<float>("F32", {2, 2}, {1, 10, 2, 20}),
                          .zeros = t.add<std::uint32_t>("I32", {1, 2}, {0x41, 0x52}),
                          .order = {},
                          .shape = t.add<std::int64_t>("I64", {2}, {2, 3})};
  const auto matrix = join_parts(asymmetric, parts);
  ASSERT_TRUE(matrix) << matrix.error().message;
  EXPECT_THAT(values_of(*matrix), ElementsAre(0, 1, 10, 0, 2, 20));
  parts.order = t.add<std::int32_t>("I32", {3}, {1, 0, 0});
  EXPECT_THAT(values_of(*join_parts(asymmetric, parts)), ElementsAre(-10, 1, 2, -20, 2, 4));

  Quantization symmetric = asymmetric;
  symmetric.symmetric = true;
  parts.zeros = parts.order = {};
  EXPECT_THAT(values_of(*join_parts(symmetric, parts)), ElementsAre(-7, -6, -50, -8, -6, -40));

  const auto error = [&](const Quantization& how) {
    return join_parts(how, parts).error().message;
  };
  EXPECT_THAT(error(asymmetric), HasSubstr("weight_zero_point is missing"));
  parts.shape = t.add<std::int64_t>("I64", {2}, {2, 9});
  EXPECT_THAT(error(symmetric), HasSubstr("weight_shape says 2 x 9"));
  parts.shape = {};
  EXPECT_THAT(error(symmetric), HasSubstr("weight_shape is missing"));
}

// Of several sizes that a configuration has, the scales say which one a matrix has.
TEST(QuantizedMatrix, PackedGroupsOfSeveralSizes) {
  Tensors t;
  QuantizedParts parts = {.codes = t.add<std::uint32_t>("I32", {1, 1}, {0x99999999}),
                          .scales = t.add<float>("F32", {1, 2}, {1, 10}),
                          .zeros = {},
                          .order = {},
                          .shape = t.add<std::int64_t>("I64", {2}, {1, 8})};
  Quantization sizes = {.method = QuantMethod::kPacked, .bits = 4, .group = -1};
  sizes.symmetric = true;
  const auto matrix = join_parts(sizes, parts);
  ASSERT_TRUE(matrix) << matrix.error().message;
  EXPECT_EQ(matrix->group, 4);
  EXPECT_THAT(values_of(*matrix), ElementsAre(1, 1, 1, 1, 10, 10, 10, 10));
  parts.scales = t.add<float>("F32", {1, 3}, {1, 10, 100});
  EXPECT_THAT(join_parts(sizes, parts).error().message, HasSubstr("weight_scale is [1, 3]: 8"));
  // 6 inputs in two groups of 3 would be 6 in one of 4 and a part.
  parts.scales = t.add<float>("F32", {1, 2}, {1, 10});
  parts.shape = t.add<std::int64_t>("I64", {2}, {1, 6});
  EXPECT_THAT(join_parts(sizes, parts).error().message, HasSubstr("weight_scale is [1, 2]: 6"));
  parts.scales = t.add<float>("F32", {1, 1}, {3});
  EXPECT_THAT(values_of(*join_parts(sizes, parts)), ElementsAre(3, 3, 3, 3, 3, 3));
}

// Bytes with a scale each output; with activations that are to be bytes too.
TEST(QuantizedMatrix, SignedBytes) {
  Tensors t;
  const QuantizedParts parts = {.codes = t.add<std::int8_t>("I8", {2, 2}, {-128, 127, 1, -1}),
                                .scales = t.add<float>("F32", {2, 1}, {0.5F, 3}),
                                .zeros = {},
                                .order = {}};
  const auto matrix =
      join_parts({.method = QuantMethod::kInt8, .bits = 8, .group = 0, .activations = true}, parts);
  ASSERT_TRUE(matrix) << matrix.error().message;
  EXPECT_THAT(values_of(*matrix), ElementsAre(-64, 63.5F, 3, -3));
  EXPECT_TRUE(matrix->rounds_activations);
  EXPECT_TRUE(has_byte_rows(*matrix));
}

}  // namespace
}  // namespace saccade
