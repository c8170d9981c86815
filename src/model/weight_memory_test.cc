#include "model/weight_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "model/dummies/dummy_sizes.h"

namespace saccade {
namespace {

WeightNumbers numbers_of(std::string_view family, std::string_view size) {
  const auto found = find_family(family);
  const auto checkpoint = published_checkpoint(**found, size);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  const auto numbers = weight_numbers(*checkpoint);
  EXPECT_TRUE(numbers) << numbers.error().message;
  return *numbers;
}

// The counts that the hub shows of these checkpoints.
TEST(WeightMemory, PublishedSizesHaveTheirPublishedNumbers) {
  EXPECT_EQ(numbers_of("qwen2-vl", "2b").all(), 2'208'985'600);
  EXPECT_EQ(numbers_of("qwen2-vl", "7b").all(), 8'291'375'616);
  EXPECT_EQ(numbers_of("qwen2.5-vl", "3b").all(), 3'754'622'976);
  EXPECT_EQ(numbers_of("qwen3", "0.6b").all(), 596'049'920);
  EXPECT_EQ(numbers_of("llama-3", "8b").all(), 8'030'261'248);
}

TEST(WeightMemory, EverySizeOfEveryFamilyIsCounted) {
  for (const Family* family : families()) {
    if (family->create == nullptr) continue;
    for (const std::string_view size : dummy_sizes(family->name)) {
      SCOPED_TRACE(std::string(family->name) + " " + std::string(size));
      const WeightNumbers numbers = numbers_of(family->name, size);
      EXPECT_GT(numbers.text, 0);
      EXPECT_GT(numbers.head, 0);
    }
  }
}

TEST(WeightMemory, ATokenReadsItsExpertsAlone) {
  const WeightNumbers numbers = numbers_of("qwen3-moe", "30b-a3b");
  EXPECT_EQ(numbers.active, 8.0 / 128);
  EXPECT_GT(numbers.experts, numbers.text * 10);
  // "A3B": 3.3 billion of 30.5, embedding aside.
  EXPECT_NEAR(token_bytes(numbers, {}), 2 * 3.0e9, 2 * 0.3e9);
  LoadOptions int8;
  int8.text_layers = DType::kI8;
  EXPECT_NEAR(weight_bytes(numbers, int8) / weight_bytes(numbers, {}), 0.51, 0.01);
}

}  // namespace
}  // namespace saccade
