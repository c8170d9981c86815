// What plain --quantization int8 and int4 choose, and what takes it back.
#include "serve/assembly/quantization_choice.h"

#include <gtest/gtest.h>

#include <map>

namespace saccade::serve {
namespace {

struct Chosen {
  LoadOptions options;
  std::string line;
};

Chosen choose(const std::string& quantization, const Device& device, bool weight_only = false) {
  ServeSettings settings;
  settings.quantization = quantization;
  settings.weight_only = weight_only;
  Chosen chosen;
  chosen.line = choose_fastest(settings, device, chosen.options);
  return chosen;
}

TEST(ChooseFastest, TheHeadAndActivationsBeforeFourBits) {
  for (const std::string_view isa :
       {"portable", "neon", "dotprod", "avx2", "avx512", "vnni", "bf16", "amx"}) {
    const auto made = make_cpu_device(1, isa);
    if (!made) continue;  // another processor's
    const Device* const device = made->get();
    const Chosen four_bits = choose("int4", *device);
    EXPECT_EQ(four_bits.options.head, DType::kI8) << isa;
    EXPECT_TRUE(four_bits.options.byte_activations) << isa;
    EXPECT_NE(four_bits.line.find("W4A8"), std::string::npos) << four_bits.line;
    const Chosen bytes = choose("int8", *device);
    EXPECT_EQ(bytes.options.head, DType::kI8) << isa;
    EXPECT_FALSE(bytes.options.byte_activations) << isa;
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
    EXPECT_FALSE(chosen.options.byte_activations);
  }
}

TEST(KeepBlocksSmall, WhereNothingElseWasSaid) {
  const auto device = make_cpu_device(1).value();
  const auto kept = [&](const ServeSettings& settings) {
    LoadOptions options;
    keep_blocks_small(settings, *device, options);
    EXPECT_EQ(options.byte_blocks, options.byte_activations);
    EXPECT_EQ(options.text_layers, std::nullopt);
    return options.byte_blocks;
  };
  ServeSettings settings;
  EXPECT_TRUE(kept(settings));
  for (const auto& [quantization, small] : std::map<std::string, bool>{
           {"none", true}, {"int8", false}, {"int4", false}, {"awq", false}}) {
    settings.quantization = quantization;
    EXPECT_EQ(kept(settings), small) << quantization;
  }
  settings.quantization.clear();
  settings.dequantize = true;
  EXPECT_FALSE(kept(settings));
  settings.dequantize = false;
  settings.weight_only = true;
  EXPECT_FALSE(kept(settings));
}

}  // namespace
}  // namespace saccade::serve
