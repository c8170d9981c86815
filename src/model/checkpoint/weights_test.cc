#include "model/checkpoint/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "model/blocks/blocks.h"
#include "model/checkpoint/weight_table.h"
#include "ops/formats/int8_limits.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A directory of its own, gone afterwards.
class WeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "/saccade_weights_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  // Every tensor filled with 0, 1, 2, ... as F32.
  void write(const std::string& file, const std::vector<SafetensorsPlan>& plan) {
    std::string data;
    for (const auto& tensor : plan) {
      std::int64_t count = 1;
      for (const std::int64_t extent : tensor.shape) count *= extent;
      if (tensor.dtype != DType::kF32) {
        data.append(static_cast<std::size_t>(count) * size_of(tensor.dtype), '\0');
        continue;
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<float>(i);
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
    }
    write_text(file, make_safetensors_header(plan, {}) + data);
  }
  void write_text(const std::string& file, const std::string& text) {
    std::ofstream(directory_ + "/" + file, std::ios::binary) << text;
  }
  Result<Weights> open(std::span<const NameAlias> aliases = {}) {
    return Weights::open(directory_, aliases);
  }
  std::string requirement(const std::vector<TensorSpec>& specs,
                          const std::vector<std::string>& ignored = {}) {
    auto weights = open();
    if (!weights) return weights.error().message;
    const auto met = weights->require(specs, ignored);
    return met ? "" : met.error().message;
  }

  std::string directory_;
};

TEST_F(WeightsTest, ExpertsAloneMayBeTurned) {
  write("model.safetensors", {{"a", DType::kF32, {2, 3, 5}}});
  EXPECT_EQ(requirement({{"a", {2, 5, 3}, TensorKind::kExperts}}), "");
  EXPECT_THAT(requirement({{"a", {2, 5, 3}}}), HasSubstr("a"));
  EXPECT_THAT(requirement({{"a", {2, 5, 4}, TensorKind::kExperts}}), HasSubstr("a"));
}

TEST_F(WeightsTest, NamesMissingUnexpectedAndMisshapenTensors) {
  write("model.safetensors", {{"a", DType::kF32, {2, 3}},
                              {"b", DType::kBf16, {4}},
                              {"layers.0.rotary_emb.inv_freq", DType::kF32, {8}}});
  const TensorSpec a{"a", {2, 3}};
  const TensorSpec b{"b", {4}};
  EXPECT_EQ(requirement({a, b}), "");
  EXPECT_THAT(requirement({a}), HasSubstr("does not use: b"));
  EXPECT_EQ(requirement({a}, {"b"}), "");
  EXPECT_THAT(requirement({a, b, {"c", {1}}, {"d", {1}}}), HasSubstr("lacks 2 of 4 tensors: c, d"));
  EXPECT_THAT(requirement({a, {"x.b", {4}}}),
              HasSubstr("lacks 1 of 2 tensors: x.b; and has unexpected b"));
  EXPECT_THAT(requirement({{"a", {3, 2}}, b}),
              HasSubstr("\"a\" is [2, 3], the configuration makes it [3, 2]"));
}

TEST_F(WeightsTest, RefusesTypesThatNoMatrixHas) {
  write("model.safetensors", {{"a", DType::kI8, {4}}});
  EXPECT_THAT(requirement({{"a", {4}}}), HasSubstr("\"a\" is I8"));
}

TEST_F(WeightsTest, ReadsBothNamings) {
  constexpr std::array kAliases = {NameAlias{"model.language_model.", "model."}};
  write("model.safetensors", {{"model.language_model.norm", DType::kF32, {3}}});
  auto weights = open(kAliases);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_TRUE(weights->require(std::vector<TensorSpec>{{"model.norm", {3}}}, {}));
  const View view = weights->take("model.norm");
  EXPECT_EQ(view.cols(), 3);
  EXPECT_EQ(view.row<float>(0)[2], 2.0f);

  write("model.safetensors",
        {{"model.language_model.norm", DType::kF32, {3}}, {"model.norm", DType::kF32, {3}}});
  EXPECT_THAT(open(kAliases).error().message, HasSubstr("is both in"));
}

TEST_F(WeightsTest, ReadsShardsAndHoldsThemToTheIndex) {
  write("model-1.safetensors", {{"a", DType::kF32, {2}}});
  write("model-2.safetensors", {{"b", DType::kF32, {2}}});
  write_text("model.safetensors.index.json",
             R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  EXPECT_EQ(requirement({{"a", {2}}, {"b", {2}}}), "");
  write_text("model.safetensors.index.json",
             R"({"weight_map":{"a":"model-2.safetensors","b":"model-2.safetensors"}})");
  EXPECT_THAT(open().error().message, HasSubstr("places tensor \"a\" in model-2.safetensors"));
  write_text("model.safetensors.index.json", R"({"weight_map":{"a":"../model-1.safetensors"}})");
  EXPECT_THAT(open().error().message, HasSubstr("../model-1.safetensors"));
  write_text("model.safetensors.index.json", R"({"weight_map":{"a":"model-3.safetensors"}})");
  EXPECT_EQ(open().error().code, ErrorCode::kNotFound);
}

TEST_F(WeightsTest, AlignsWhatTheFileDoesNot) {
  // A header one byte too long, as some writers make it.
  std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  while ((8 + header.size()) % 4 != 1) header += ' ';
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  const float values[] = {1.5f, 2.5f};
  file += header + std::string(reinterpret_cast<const char*>(values), sizeof values);
  write_text("model.safetensors", file);
  auto weights = open();
  ASSERT_TRUE(weights) << weights.error().message;
  ASSERT_TRUE(weights->require(std::vector<TensorSpec>{{"a", {2}}}, {}));
  EXPECT_EQ(weights->take("a").row<float>(0)[1], 2.5f);
  weights->release("a");
}

TEST_F(WeightsTest, TableStacksAndReorders) {
  write("model.safetensors", {{"q.weight", DType::kF32, {2, 3}},
                              {"k.weight", DType::kF32, {1, 3}},
                              {"q.bias", DType::kF32, {2}},
                              {"k.bias", DType::kF32, {1}},
                              {"g.weight", DType::kF32, {4, 2}},
                              {"conv.weight", DType::kF32, {2, 1, 2, 2}}});
  const auto device = make_reference_device();
  Linear qk;
  Linear grouped;
  Linear conv;
  WeightTable table;
  table.stacked(qk, {{"q", 2}, {"k", 1}}, 3, Bias::kYes);
  table.stacked(grouped, {{"g", 4, {{1, 2}, {3, 4}, {0, 1}, {2, 3}}}}, 2, Bias::kNo);
  table.patches(conv, "conv", {2, 1, 2, 2}, Bias::kNo);
  auto weights = open();
  ASSERT_TRUE(weights) << weights.error().message;
  const auto bytes = table.load(*weights, *device, DType::kF32);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_GE(*bytes, (9 + 3 + 8 + 8) * sizeof(float));

  const auto product = [&](const Linear& linear, std::vector<float> x) {
    std::vector<float> y(static_cast<std::size_t>(linear.weight->out()));
    const View in(x.data(), DType::kF32, 1, static_cast<std::int64_t>(x.size()));
    apply_linear(device->lane(Lane::kStep), linear, in,
                 View(y.data(), DType::kF32, 1, linear.weight->out()));
    return y;
  };
  EXPECT_EQ(product(qk, {1, 0, 0}), (std::vector<float>{0, 3 + 1, 0}));
  EXPECT_EQ(product(grouped, {1, 0}), (std::vector<float>{2, 6, 0, 4}));
  EXPECT_EQ(product(conv, {0, 0, 0, 1}), (std::vector<float>{3, 7}));
}

// Sums of more products could leave the range of 32 bits.
TEST_F(WeightsTest, TooManyInputsForInt8AreRefused) {
  constexpr std::int64_t kInputs = kMaxInt8Inputs + 1;
  write("model.safetensors", {{"wide.weight", DType::kF32, {1, kInputs}}});
  const auto device = make_reference_device();
  Linear wide;
  WeightTable table;
  table.linear(wide, "wide", 1, kInputs, Bias::kNo, MatrixRole::kTextLayer);
  WeightTypes types = DType::kF32;
  types.text_layers = DType::kI8;
  auto weights = open();
  ASSERT_TRUE(weights) << weights.error().message;
  const auto bytes = table.load(*weights, *device, types);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(bytes.error().message,
            "tensor \"wide.weight\" has 131073 inputs, products of int8 have 131072 at most");
  auto as_numbers = open();
  ASSERT_TRUE(as_numbers) << as_numbers.error().message;
  EXPECT_TRUE(table.load(*as_numbers, *device, DType::kF32));
}

// Current transformers names a layer's experts as one tensor, outputs by inputs; tables of families
// whose files have them one by one read them all the same.
TEST_F(WeightsTest, ExpertsOfATableMayBeStacked) {
  const auto device = make_reference_device();
  for (const std::int64_t hidden : {2, 6}) {  // 6: as many inputs as outputs
    write("model.safetensors", {{"l.mlp.experts.gate_up_proj", DType::kF32, {2, 6, hidden}},
                                {"l.mlp.experts.down_proj", DType::kF32, {2, hidden, 3}}});
    std::array<Linear, 2> gate_up;
    std::array<Linear, 2> down;
    WeightTable table;
    for (std::size_t e = 0; e < 2; ++e) {
      const std::string expert = fmt::format("l.mlp.experts.{}.", e);
      table.stacked(gate_up[e],
                    {{expert + "gate_proj", 3, {{1, 3}}}, {expert + "up_proj", 3, {{1, 3}}}},
                    hidden, Bias::kNo, MatrixRole::kTextLayer);
      table.stacked(down[e], {{expert + "down_proj", hidden, {}, {1, 3}}}, 3, Bias::kNo,
                    MatrixRole::kTextLayer);
    }
    auto weights = open();
    ASSERT_TRUE(weights) << weights.error().message;
    const auto bytes = table.load(*weights, *device, DType::kF32);
    ASSERT_TRUE(bytes) << bytes.error().message;
    const auto product = [&](const Linear& linear) {  // of the first input
      std::vector<float> x(static_cast<std::size_t>(linear.weight->in()));
      std::vector<float> y(static_cast<std::size_t>(linear.weight->out()));
      x[0] = 1;
      apply_linear(device->lane(Lane::kStep), linear, View(x.data(), DType::kF32, 1, std::ssize(x)),
                   View(y.data(), DType::kF32, 1, std::ssize(y)));
      return y;
    };
    const auto h = static_cast<float>(hidden);
    EXPECT_EQ(product(gate_up[0]), (std::vector<float>{h, 2 * h, 4 * h, 5 * h}));
    EXPECT_EQ(product(gate_up[1]), (std::vector<float>{7 * h, 8 * h, 10 * h, 11 * h}));
    std::vector<float> second;
    for (std::int64_t row = 0; row < hidden; ++row)
      second.push_back(static_cast<float>((hidden + row) * 3 + 1));
    EXPECT_EQ(product(down[1]), second);
  }
}

// Loading says how far it is and what comes next: here in a log, since stderr is no terminal.
TEST_F(WeightsTest, LoadingSaysHowFarItIs) {
  const auto device = make_reference_device();
  for (const bool rounds : {false, true}) {
    write("model.safetensors", {{"a", DType::kF32, {3, 10}}, {"b", DType::kF32, {1, 10}}});
    const auto slow = [](const WeightTable::Tensors&, Device&, DType) -> Result<std::size_t> {
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));
      return std::size_t{0};
    };
    const auto quick = [](const WeightTable::Tensors&, Device&, DType) -> Result<std::size_t> {
      return std::size_t{0};
    };
    WeightTable table;
    table.row({{"a", {3, 10}}}, slow);
    table.row({{"b", {1, 10}}}, quick);
    auto weights = open();
    ASSERT_TRUE(weights) << weights.error().message;
    WeightTypes types = DType::kF32;
    types.four_bit_text = rounds;
    ::testing::internal::CaptureStderr();
    const auto loaded = table.load(*weights, *device, types);
    const std::string said = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_THAT(said, HasSubstr(rounds ? "loading and rounding to int4: 75 %, 0.00 GB"
                                       : "loading: 75 %, 0.00 GB"));
    EXPECT_THAT(said, HasSubstr(", next b\n"));
    EXPECT_EQ(std::ranges::count(said, '\n'), 1);
  }
}

// Stacked experts of E4M3 and the same numbers in bf16 become the same weights, whether a family's
// table has experts stacked or one by one.
TEST_F(WeightsTest, StackedExpertsOfE4m3AreTheirNumbers) {
  constexpr std::int64_t kStacked = 3;
  constexpr std::int64_t kOut = 6;
  constexpr std::int64_t kIn = 5;
  constexpr std::int64_t kBlock = 4;  // 2 x 2 of an expert, cut off on both sides
  const std::string name = "l.mlp.experts.gate_up_proj";
  std::string codes;
  std::string scales;
  std::string numbers;
  const auto put = [](std::string& into, auto value) {
    into.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto scale_of = [](std::int64_t block) {
    return std::ldexp(1.0F, static_cast<int>(block) - 5);
  };
  for (std::int64_t i = 0; i < kStacked * 4; ++i) put(scales, scale_of(i));
  for (std::int64_t e = 0; e < kStacked; ++e) {
    for (std::int64_t o = 0; o < kOut; ++o) {
      for (std::int64_t i = 0; i < kIn; ++i) {
        // Of a sign, four bits of exponent and three of mantissa; none is a NaN or below the least
        // normal number.
        const auto code =
            static_cast<std::uint8_t>(8 + (e * 89 + o * 23 + i * 7) % 110 + (i % 2) * 128);
        put(codes, code);
        const float value =
            (code >= 128 ? -1.0F : 1.0F) *
            std::ldexp(1.0F + static_cast<float>(code & 7) / 8, ((code >> 3) & 15) - 7);
        put(numbers, to_bf16(value * scale_of(e * 4 + o / kBlock * 2 + i / kBlock)));
      }
    }
  }
  const auto header = [](const std::string& text) {
    std::string padded = text;
    padded.resize((padded.size() + 7) / 8 * 8, ' ');
    std::string head;
    const std::uint64_t size = padded.size();
    head.append(reinterpret_cast<const char*>(&size), sizeof size);
    return head + padded;
  };
  const std::string e4m3 =
      header(fmt::format(
          R"({{"{0}":{{"dtype":"F8_E4M3","shape":[3,6,5],"data_offsets":[0,90]}},)"
          R"("{0}_scale_inv":{{"dtype":"F32","shape":[3,2,2],"data_offsets":[90,138]}}}})",
          name)) +
      codes + scales;
  const std::vector<SafetensorsPlan> plan = {{name, DType::kBf16, {3, 6, 5}}};
  const std::string bf16 = make_safetensors_header(plan, {}) + numbers;
  Quantization fp8{.method = QuantMethod::kFp8, .bits = 8, .block_out = kBlock, .block_in = kBlock};
  const auto device = make_reference_device();

  // Of all experts, the rows of gate and then of up.
  const auto loaded = [&](const std::string& file, bool one_by_one) {
    write_text("model.safetensors", file);
    auto weights = Weights::open(directory_, {}, fp8);
    std::vector<float> all;
    std::array<Linear, kStacked> linears;
    WeightTable table;
    for (std::size_t e = 0; e < kStacked && one_by_one; ++e) {
      const std::string expert = fmt::format("l.mlp.experts.{}.", e);
      table.stacked(linears[e], {{expert + "gate_proj", 3}, {expert + "up_proj", 3}}, kIn,
                    Bias::kNo, MatrixRole::kTextLayer);
    }
    if (!one_by_one)
      table.row({{name, {kStacked, kIn, kOut}, TensorKind::kExperts}},
                [&](const WeightTable::Tensors& tensors, Device& on,
                    DType compute) -> Result<std::size_t> {
                  for (std::size_t e = 0; e < kStacked; ++e)
                    linears[e].weight = on.pack({&tensors.matrices[e], 1}, compute);
                  return std::size_t{0};
                });
    const auto bytes = table.load(*weights, *device, DType::kF32);
    EXPECT_TRUE(bytes) << bytes.error().message;
    if (!bytes) return all;
    for (const Linear& linear : linears) {
      for (std::int64_t i = 0; i < kIn; ++i) {
        std::vector<float> x(kIn);
        std::vector<float> y(kOut);
        x[static_cast<std::size_t>(i)] = 1;
        apply_linear(device->lane(Lane::kStep), linear, View(x.data(), DType::kF32, 1, kIn),
                     View(y.data(), DType::kF32, 1, kOut));
        all.insert(all.end(), y.begin(), y.end());
      }
    }
    return all;
  };
  const std::vector<float> expected = loaded(bf16, false);
  EXPECT_EQ(loaded(bf16, true), expected);
  EXPECT_EQ(loaded(e4m3, false), expected);
  EXPECT_EQ(loaded(e4m3, true), expected);

  const auto weights = Weights::open(directory_, {}, fp8);
  EXPECT_EQ(weights->quantized().matrices, 3U);
  EXPECT_EQ(weights->quantized().weights, 90);
  // Codes do not turn.
  const TensorSpec turned{name, {3, kOut, kIn}, TensorKind::kExperts};
  EXPECT_THAT(weights->require({&turned, 1}, {}).error().message,
              HasSubstr("of F8_E4M3 for experts of 6 inputs"));
}

}  // namespace
}  // namespace saccade
