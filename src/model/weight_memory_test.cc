#include "model/weight_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "model/dummies/dummy_sizes.h"

namespace saccade {
namespace {

ParameterCounts parameters_of(std::string_view family, std::string_view size) {
  const auto found = find_family(family);
  const auto checkpoint = published_checkpoint(**found, size);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  const auto parameters = parameter_counts(*checkpoint);
  EXPECT_TRUE(parameters) << parameters.error().message;
  return *parameters;
}

// The counts that the hub shows of these checkpoints.
TEST(WeightMemory, PublishedSizesHaveTheirPublishedNumbers) {
  EXPECT_EQ(parameters_of("qwen2-vl", "2b").all(), 2'208'985'600);
  EXPECT_EQ(parameters_of("qwen2-vl", "7b").all(), 8'291'375'616);
  EXPECT_EQ(parameters_of("qwen2.5-vl", "3b").all(), 3'754'622'976);
  EXPECT_EQ(parameters_of("qwen3", "0.6b").all(), 596'049'920);
  EXPECT_EQ(parameters_of("llama-3", "8b").all(), 8'030'261'248);
}

TEST(WeightMemory, EverySizeOfEveryFamilyIsCounted) {
  for (const Family* family : families()) {
    if (family->create == nullptr) continue;
    for (const std::string_view size : dummy_sizes(family->name)) {
      SCOPED_TRACE(std::string(family->name) + " " + std::string(size));
      const ParameterCounts parameters = parameters_of(family->name, size);
      EXPECT_GT(parameters.text, 0);
      EXPECT_GT(parameters.head, 0);
    }
  }
}

TEST(WeightMemory, ATokenReadsItsExpertsAlone) {
  const ParameterCounts parameters = parameters_of("qwen3-moe", "30b-a3b");
  EXPECT_EQ(parameters.active, 8.0 / 128);
  EXPECT_GT(parameters.experts, parameters.text * 10);
  // "A3B": 3.3 billion of 30.5, embedding aside.
  EXPECT_NEAR(token_bytes(parameters, {}), 2 * 3.0e9, 2 * 0.3e9);
  LoadOptions int8;
  int8.text_layers = DType::kI8;
  EXPECT_NEAR(weight_bytes(parameters, int8) / weight_bytes(parameters, {}), 0.51, 0.01);
}

// Medians of servers with one request at a time, and the read bandwidth that `fit` found beside
// them (benchmarks/results/fit.md): 2 cores of Zen 5.
TEST(WeightMemory, ATokenTakesWhatServersTook) {
  struct Measured {
    std::string_view family;
    std::string_view size;
    LoadOptions options;
    double bandwidth;  // bytes a second
    double tokens;     // a second
  };
  const LoadOptions int8{.text_layers = DType::kI8, .head = DType::kI8};
  const LoadOptions int4{.head = DType::kI8, .four_bit_text = true};
  for (const Measured& m : {Measured{"smolvlm2", "500m", {}, 50.4e9, 54.7},
                            Measured{"smolvlm2", "500m", int8, 70.5e9, 127},
                            Measured{"smolvlm2", "500m", int4, 74.2e9, 175},
                            Measured{"qwen2-vl", "2b", {}, 75.0e9, 21.0},
                            Measured{"qwen2-vl", "2b", int8, 74.9e9, 42.3},
                            Measured{"qwen2-vl", "2b", int4, 74.6e9, 54.9},
                            Measured{"qwen2.5-vl", "3b", {}, 73.7e9, 10.7},
                            Measured{"qwen2.5-vl", "3b", int8, 49.2e9, 12.0},
                            Measured{"qwen2.5-vl", "3b", int4, 52.5e9, 19.7}}) {
    SCOPED_TRACE(fmt::format("{} {}, {} tok/s", m.family, m.size, m.tokens));
    const ParameterCounts parameters = parameters_of(m.family, m.size);
    EXPECT_NEAR(1 / token_seconds(parameters, m.options, m.bandwidth) / m.tokens, 1, 0.2);
  }
}

}  // namespace
}  // namespace saccade
