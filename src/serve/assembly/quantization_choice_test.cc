// What plain --quantization int8 and int4 choose, and what takes it back.
#include "serve/assembly/quantization_choice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace saccade::serve {
namespace {

struct Chosen {
  LoadOptions options;
  std::string line;
};

Chosen choose(const std::string& quantization, const Device& device, bool weight_only = false) {
  Chosen chosen;
  chosen.options.weight_only = weight_only;
  const auto config = json::parse(
      fmt::format(R"({{"quantization_config": {{"quant_method": "{}"}}}})", quantization));
  EXPECT_TRUE(choose_quantization(quantization, config->get_object(), chosen.options));
  chosen.line = choose_fastest(device, chosen.options);
  return chosen;
}

TEST(ChooseFastest, TheHeadAndActivationsBeforeFourBits) {
  for (const std::string_view isa :
       {"portable", "neon", "dotprod", "avx2", "avxvnni", "avx512", "vnni", "bf16", "amx"}) {
    const auto made = make_cpu_device(1, isa);
    if (!made) continue;  // another processor's
    const Device* const device = made->get();
    const Chosen four_bits = choose("int4", *device);
    EXPECT_EQ(four_bits.options.head, DType::kI8) << isa;
    EXPECT_EQ(four_bits.options.int8_rows, Int8Rows::kBeforeFourBits) << isa;
    EXPECT_NE(four_bits.line.find("W4A8"), std::string::npos) << four_bits.line;
    const Chosen bytes = choose("int8", *device);
    EXPECT_EQ(bytes.options.head, DType::kI8) << isa;
    EXPECT_EQ(bytes.options.int8_rows, Int8Rows::kStated) << isa;
    for (const std::string& line : {four_bits.line, bytes.line}) {
      for (const char* word : {"head in int8", "KL", "--weight-only", "--quantize-tower"})
        EXPECT_NE(line.find(word), std::string::npos) << line;
    }
    EXPECT_EQ(four_bits.options.tower_layers, std::nullopt);
  }
}

TEST(ChooseFastest, NothingThatWasNotAskedFor) {
  const auto device = make_cpu_device(1).value();
  for (const char* quantization : {"", "none", "awq", "compressed-tensors"}) {
    const Chosen chosen = choose(quantization, *device);
    EXPECT_EQ(chosen.line, "");
    EXPECT_EQ(chosen.options.head, std::nullopt);
  }
  for (const char* quantization : {"int8", "int4"}) {
    const Chosen chosen = choose(quantization, *device, true);
    EXPECT_EQ(chosen.line, "");
    EXPECT_EQ(chosen.options.head, std::nullopt);
    EXPECT_EQ(chosen.options.int8_rows, Int8Rows::kStated);
  }
}

TEST(KeepBlocksSmall, WhereNothingElseWasSaid) {
  const auto device = make_cpu_device(1).value();
  const auto kept = [&](LoadOptions options) {
    keep_blocks_small(*device, options);
    return options.int8_rows == Int8Rows::kBeforeBlocks;
  };
  EXPECT_TRUE(kept({}));
  for (const auto& [quantization, small] :
       std::map<std::string, bool>{{"none", true}, {"int8", false}, {"int4", false}})
    EXPECT_EQ(kept(choose(quantization, *device, false).options), small) << quantization;
  EXPECT_FALSE(kept({.dequantize = true}));
  EXPECT_FALSE(kept({.weight_only = true}));
}

}  // namespace
}  // namespace saccade::serve
