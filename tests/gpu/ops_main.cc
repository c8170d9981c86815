// The suites of the ops and of the kernels on a GPU: their heap is pinned memory, which kernels can
// read, and a launch is over when it returns.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "ops/cuda/gpu_runtime.h"
#include "tests/gpu/pinned_heap.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const auto started = saccade::cuda::start_pinned_heap(); !started) {
    std::printf("skipped: %s\n", started.error().message.c_str());
    return 77;
  }
  saccade::cuda::wait_after_launches();
  // A copy of this process would have its memory and not its GPU.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int failed = RUN_ALL_TESTS();
  // The driver takes the heap with it: nothing of it is destroyed after that.
  std::fflush(nullptr);
  std::_Exit(failed);
}
