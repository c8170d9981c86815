// The suite of the ops on a GPU: its heap is pinned memory, which kernels can read.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "ops/cuda/pinned_heap.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const auto started = saccade::cuda::start_pinned_heap(); !started) {
    std::printf("skipped: %s\n", started.error().message.c_str());
    return 77;
  }
  const int failed = RUN_ALL_TESTS();
  // The driver takes the heap with it: nothing of it is destroyed after that.
  std::fflush(nullptr);
  std::_Exit(failed);
}
