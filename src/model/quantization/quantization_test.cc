#include "model/quantization/quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

using ::testing::HasSubstr;

Result<std::optional<Quantization>> parse(const std::string& section) {
  return parse_quantization(
      json::parse(R"({"quantization_config": )" + section + "}").value().get_object());
}

TEST(Quantization, ReadsWhatIsPublished) {
  struct Case {
    const char* section;
    const char* described;
  };
  for (
      const Case& each : {
          Case{R"({"bits": 4, "group_size": 128, "modules_to_not_convert": ["visual"],
                    "quant_method": "awq", "version": "gemm", "zero_point": true})",
               "AWQ, 4 bits, groups of 128"},
          Case{
              R"({"bits": 8, "group_size": -1, "sym": true, "desc_act": false, "quant_method": "gptq",
                    "dynamic": {"-:.*visual.*": {}}})",
              "GPTQ, 8 bits, one group a row"},
          Case{R"({"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                    "weight_block_size": [128, 64]})",
               "fp8 (e4m3), scales of 128 x 64, activations too"},
          Case{
              R"({"activation_scheme": "static", "ignored_layers": ["lm_head"], "quant_method": "fp8"})",
              "fp8 (e4m3), activations too"},
          Case{
              R"({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["re:visual.*"],
                    "kv_cache_scheme": null, "sparsity_config": {"format": "dense"},
                    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8,
                     "strategy": "channel", "symmetric": true, "type": "float"}}}})",
              "fp8 (e4m3)"},
          Case{R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                    "config_groups": {"g": {"input_activations": null, "weights": {"num_bits": 4,
                     "strategy": "group", "group_size": 128, "symmetric": false, "type": "int",
                     "actorder": "group"}}}})",
               "compressed-tensors, 4 bits, groups of 128"},
          Case{R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                    "config_groups": {"g": {"weights": {"num_bits": 8, "strategy": "channel",
                     "type": "int"}}}})",
               "compressed-tensors, 8 bits, one group a row"},
          Case{R"({"quant_method": "compressed-tensors", "format": "int-quantized",
                    "config_groups": {"g": {"weights": {"num_bits": 8, "strategy": "channel",
                     "type": "int"}, "input_activations": {"num_bits": 8, "type": "int",
                     "strategy": "token", "dynamic": true, "symmetric": true}}}})",
               "bytes, activations too"},
      }) {
    const auto read = parse(each.section);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_TRUE(*read);
    EXPECT_EQ(describe(**read), each.described);
  }
  EXPECT_TRUE(parse(R"({"quant_method": "gptq"})").value()->zeros_less_one);
  EXPECT_FALSE(
      parse(R"({"quant_method": "gptq", "checkpoint_format": "gptq_v2"})").value()->zeros_less_one);
  EXPECT_FALSE(parse_quantization({}).value());
  EXPECT_FALSE(parse("null").value());
  // Inside text_config, where some exporters leave it.
  const auto inner =
      json::parse(R"({"text_config": {"quantization_config": {"quant_method": "awq"}}})");
  EXPECT_TRUE(parse_quantization(inner.value().get_object()).value());
}

// What fp8 checkpoints state of their activations: rounded or not, and by whose scale.
TEST(Quantization, ActivationsOfFp8) {
  struct Case {
    std::string section;
    bool rounded;
    bool given;
  };
  const auto groups = [](const std::string& weights, const std::string& input) {
    const std::string weights_of = R"({"num_bits": 8, "type": "float", "symmetric": true, )";
    return R"({"quant_method": "compressed-tensors", "format": "float-quantized",
               "config_groups": {"group_0": {"weights": )" +
           weights_of + weights + R"(}, "input_activations": )" + input + "}}}";
  };
  const std::string channel = R"("strategy": "channel")";
  const std::string tensor = R"("strategy": "tensor")";
  const std::string block = R"("strategy": "block", "block_structure": [128, 128])";
  const auto input = [](const std::string& rest) {
    return R"({"num_bits": 8, "type": "float", "symmetric": true, )" + rest + "}";
  };
  for (const Case& each : std::vector<Case>{
           {R"({"quant_method": "fp8"})", true, false},
           {R"({"quant_method": "fp8", "activation_scheme": null})", true, false},
           {R"({"quant_method": "fp8", "activation_scheme": "dynamic",
                "weight_block_size": [128, 128]})",
            true, false},
           {R"({"quant_method": "fp8", "activation_scheme": "static"})", true, true},
           {groups(channel, input(R"("strategy": "token", "dynamic": true)")), true, false},
           {groups(tensor, input(R"("strategy": "tensor", "dynamic": true)")), true, false},
           {groups(tensor, input(R"("strategy": "tensor", "dynamic": false)")), true, true},
           {groups(tensor, input(R"("strategy": "tensor")")), true, true},
           {groups(block, input(R"("strategy": "group", "group_size": 128, "dynamic": true)")),
            true, false},
           {groups(block, input(R"("strategy": "group", "group_size": 64, "dynamic": true)")),
            false, false},
           {groups(block, input(R"("strategy": "token", "dynamic": true)")), false, false},
           {groups(channel, input(R"("strategy": "token", "dynamic": "local")")), false, false},
           {groups(channel,
                   R"({"num_bits": 8, "type": "int", "strategy": "token", "dynamic": true})"),
            false, false},
           {groups(channel, "null"), false, false},
       }) {
    const auto read = parse(each.section);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ((*read)->activations, each.rounded) << each.section;
    EXPECT_EQ((*read)->static_activations, each.given) << each.section;
  }
  // Of several groups, all have to.
  const auto mixed = parse(R"({"quant_method": "compressed-tensors", "format": "float-quantized",
      "config_groups": {
        "a": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
              "input_activations": {"num_bits": 8, "type": "float", "strategy": "token",
                                    "dynamic": true}},
        "b": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}})");
  ASSERT_TRUE(mixed) << mixed.error().message;
  EXPECT_FALSE((*mixed)->activations);
}

TEST(Quantization, RefusesByNameWhatIsNotRead) {
  struct Case {
    const char* section;
    const char* message;
  };
  for (const Case& each : {
           Case{R"("awq")", "an object is required"},
           Case{R"({"bits": 4})", "without quant_method"},
           Case{R"({"quant_method": 4})", "quant_method"},
           Case{R"({"quant_method": "bitsandbytes", "load_in_4bit": true})",
                "bitsandbytes is not read"},
           Case{R"({"quant_method": "gguf"})",
                "GGUF is not read; give the original checkpoint, or"},
           Case{R"({"quant_method": "marlin"})", "Marlin"},
           Case{R"({"quant_method": "hqq"})", "\"hqq\""},
           Case{R"({"quant_method": "awq", "version": "gemv"})", "version \"gemv\""},
           Case{R"({"quant_method": "awq", "version": "marlin"})", "version \"marlin\""},
           Case{R"({"quant_method": "awq", "bits": 3})", "bits 3"},
           Case{R"({"quant_method": "awq", "zero_point": false})", "zero_point"},
           Case{R"({"quant_method": "awq", "group_size": 0})", "group_size is 0"},
           Case{R"({"quant_method": "awq", "group_size": -128})", "group_size is -128"},
           Case{R"({"quant_method": "awq", "group_size": 9000000000})", "group_size"},
           Case{R"({"quant_method": "awq", "group_size": "128"})", "group_size"},
           Case{R"({"quant_method": "gptq", "bits": 3})", "bits 3"},
           Case{R"({"quant_method": "gptq", "bits": 0})", "bits 0"},
           Case{R"({"quant_method": "gptq", "is_marlin_format": true})", "marlin"},
           Case{R"({"quant_method": "gptq", "checkpoint_format": "bitblas"})", "bitblas"},
           Case{R"({"quant_method": "gptq", "pack_dtype": "int64"})", "int64"},
           Case{R"({"quant_method": "gptq", "dynamic": {"+:.*down.*": {"bits": 8}}})", "dynamic"},
           Case{R"({"quant_method": "fp8", "fmt": "e5m2"})", "e5m2"},
           Case{R"({"quant_method": "fp8", "activation_scheme": "half"})", "scheme \"half\""},
           Case{R"({"quant_method": "fp8", "weight_block_size": [128]})", "two lengths"},
           Case{R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", "two lengths"},
           Case{R"({"quant_method": "fp8", "weight_block_size": 128})", "two lengths"},
           Case{R"({"quant_method": "compressed-tensors", "format": "marlin-24"})",
                "format \"marlin-24\""},
           Case{R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                    "config_groups": {"g": {"weights": {"num_bits": 3, "type": "int"}}}})",
                "int of 3 bits"},
           Case{R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                    "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int",
                     "strategy": "tensor"}}}})",
                "strategy \"tensor\""},
           Case{R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                    "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int",
                     "strategy": "channel"}}, "h": {"weights": {"num_bits": 8, "type": "int",
                     "strategy": "channel"}}}})",
                "config_groups that differ"},
           Case{R"({"quant_method": "compressed-tensors", "format": "int-quantized",
                    "config_groups": {"g": {"weights": {"num_bits": 8, "strategy": "channel",
                     "type": "int"}, "input_activations": {"num_bits": 8, "type": "int",
                     "strategy": "tensor", "dynamic": false, "symmetric": true}}}})",
                "static int activations of 8 bits by tensor"},
           Case{R"({"quant_method": "compressed-tensors", "format": "float-quantized"})",
                "config_groups"},
           Case{R"({"quant_method": "compressed-tensors", "format": "float-quantized",
                    "config_groups": {"g": 1}})",
                "no weights"},
           Case{R"({"quant_method": "compressed-tensors", "format": "naive-quantized",
                    "config_groups": {"g": {"weights": {"num_bits": 8, "type": "int"}}}})",
                "int of 8 bits"},
           Case{R"({"quant_method": "compressed-tensors", "format": "float-quantized",
                    "config_groups": {"g": {"weights": {"type": "float", "strategy": "group"}}}})",
                "strategy \"group\""},
           Case{R"({"quant_method": "compressed-tensors", "format": "float-quantized",
                    "sparsity_config": {"format": "sparse-24-bitmask"}})",
                "sparse-24-bitmask"},
       }) {
    const auto read = parse(each.section);
    ASSERT_FALSE(read) << each.section;
    EXPECT_THAT(read.error().message, HasSubstr(each.message)) << each.section;
  }
}

}  // namespace
}  // namespace saccade
