// What `saccade fit` expects of weights against what they take once they are loaded.
#include "model/weight_memory.h"

#include <gtest/gtest.h>

#include "ops/device.h"

namespace saccade {
namespace {

TEST(WeightMemory, IsWhatLoadedWeightsTake) {
  const std::string directory = SACCADE_SOURCE_DIR "/models/glimpse";
  const auto checkpoint = open_checkpoint(directory);
  if (!checkpoint) GTEST_SKIP() << checkpoint.error().message;
  const auto numbers = parameter_counts(*checkpoint);
  ASSERT_TRUE(numbers) << numbers.error().message;
  LoadOptions int8;
  int8.text_layers = DType::kI8;
  LoadOptions int4;
  int4.four_bit_text = true;
  LoadOptions all_int8 = int8;
  all_int8.head = all_int8.tower_layers = DType::kI8;
  for (const LoadOptions& options : {LoadOptions{}, int8, int4, all_int8}) {
    const auto device = make_cpu_device(1);
    ASSERT_TRUE(device) << device.error().message;
    const auto model = load_model(*checkpoint, **device, options);
    ASSERT_TRUE(model) << model.error().message;
    const auto taken = static_cast<double>(model->shape().weight_bytes);
    // Rows are padded to whole tiles, and this model's are short.
    EXPECT_NEAR(weight_bytes(*numbers, options) / taken, 1, 0.1);
  }
}

}  // namespace
}  // namespace saccade
