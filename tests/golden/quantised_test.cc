// Quantised checkpoints in every format that is read, against transformers with the matrices that
// the stored integers mean (tools/goldens/quantised.py): every stage of every golden, on every
// device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::golden_folder;

struct Quantised {
  std::string name;
  std::vector<std::string> goldens;
};
const std::vector<Quantised> kQuantisedCheckpoints = {
    {"quantised/awq_vision", {"text", "one_image"}}, {"quantised/awq_row", {"text", "long"}},
    {"quantised/gptq_order", {"text", "long"}},      {"quantised/gptq_v2", {"text", "long"}},
    {"quantised/fp8_tensor", {"text", "long"}},      {"quantised/fp8_block", {"text", "one_image"}},
    {"quantised/fp8_channel", {"text", "long"}},     {"quantised/packed_group", {"text", "long"}},
    {"quantised/packed_row", {"text", "long"}},      {"quantised/int_channel", {"text", "long"}}};

class QuantisedGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantisedGolden, EveryStageAgrees) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  for (const Quantised& checkpoint : kQuantisedCheckpoints) {
    SCOPED_TRACE(checkpoint.name);
    const std::string directory = golden_folder(checkpoint.name);
    const auto model = test::load(directory, *device);
    ASSERT_NE(model, nullptr);
    for (const std::string& golden : checkpoint.goldens)
      test::expect_golden(*model, *device, directory, golden);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, QuantisedGolden, ::testing::ValuesIn(test::device_names()),
                         [](const auto& device) { return device.param; });

// A checkpoint beside the golden one with its first shard's bytes changed.
std::string load_error(const std::string& name, const std::string& from, const std::string& to) {
  const std::string directory = ::testing::TempDir() + "/saccade_quantised_changed";
  fs::remove_all(directory);
  fs::copy(golden_folder(name), directory);
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
      text.replace(at, from.size(), to);
    std::ofstream(entry.path(), std::ios::binary) << text;
  }
  const auto device = make_reference_device();
  const auto checkpoint = open_checkpoint(directory);
  const auto model = load_model(*checkpoint, *device, {});
  fs::remove_all(directory);
  return model ? "" : model.error().message;
}

TEST(QuantisedCheckpoints, WhatDoesNotFitIsNamed) {
  using ::testing::HasSubstr;
  EXPECT_EQ(load_error("quantised/gptq_order", "\"bits\": 4", "\"bits\": 4"), "");
  EXPECT_THAT(load_error("quantised/gptq_order", "\"bits\": 4", "\"bits\": 8"),
              HasSubstr("module \"model.layers.0.mlp.down_proj\""));
  EXPECT_THAT(load_error("quantised/gptq_order", "\"group_size\": 32", "\"group_size\": 16"),
              HasSubstr("scales is"));
  EXPECT_THAT(load_error("quantised/gptq_order", "o_proj.g_idx", "o_proj.h_idx"),
              HasSubstr("does not use"));
  EXPECT_THAT(load_error("quantised/gptq_order", "quantization_config", "quantisation_config"),
              HasSubstr("lacks"));
  EXPECT_THAT(load_error("quantised/fp8_tensor", "o_proj.weight_scale", "o_proj.weight_skale"),
              HasSubstr("its scale is missing"));
  EXPECT_THAT(load_error("quantised/fp8_tensor", "F8_E4M3", "F8_E5M2"),
              HasSubstr("F8_E5M2; BF16, F16 and F32 are read"));
  EXPECT_THAT(load_error("quantised/awq_row", "\"bits\": 4", "\"bits\": 3"), HasSubstr("bits 3"));
}

// bf16 weights: rounded once, after the products.
TEST(QuantisedCheckpoints, LoadInBf16) {
  const auto device = test::make_device("portable");
  for (const Quantised& checkpoint : kQuantisedCheckpoints) {
    const auto model =
        test::load(golden_folder(checkpoint.name), *device, {.compute = DType::kBf16, .kv = {}});
    ASSERT_NE(model, nullptr);
    const auto wide = test::load(golden_folder(checkpoint.name), *device);
    EXPECT_LT(model->shape().weight_bytes, wide->shape().weight_bytes);
  }
}

}  // namespace
}  // namespace saccade
