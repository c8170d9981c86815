// Scratch that is made again, as an engine does once it knows its KV cache.
#include "model/blocks/scratch.h"

#include <gtest/gtest.h>

#include "ops/cuda/emulator/emulated_device.h"

namespace saccade {
namespace {

TEST(Scratch, NeedsNoRoomForBothWhenItIsMadeAgain) {
  const auto device = make_emulated_cuda_device({.total_bytes = 64 << 20});
  Scratch scratch;
  View view;
  for (int round = 0; round < 2; ++round) {
    scratch.add(view, DType::kBf16, 40 << 10, 512);
    const auto made = scratch.allocate(*device);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(view.rows(), 40 << 10);
  }
}

}  // namespace
}  // namespace saccade
