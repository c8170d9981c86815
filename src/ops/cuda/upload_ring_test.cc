#include "ops/cuda/upload_ring.h"

#include <gtest/gtest.h>

#include "ops/cuda/emulator/emulated_stream.h"

namespace saccade::cuda {
namespace {

constexpr std::size_t kKib = 1024;

// Memory is given back when there is no room for more beside it, and no sooner: that would wait for
// the whole device in the middle of a step.
TEST(UploadRing, KeepsWhatItHasWhileThereIsRoom) {
  constexpr std::int64_t kTotal = std::int64_t{1} << 30;
  const auto runtime = emulator::make_emulated_runtime({.late = false, .total_bytes = kTotal});
  const cudaStream_t stream = runtime->make_stream(0);
  {
    UploadRing ring(*runtime, stream, 1536 * kKib);
    const auto use = [&](std::size_t bytes) {
      ring.take(bytes);
      ring.send();
      ring.release();
      return static_cast<std::size_t>(kTotal - runtime->free_bytes()) / kKib;
    };
    EXPECT_EQ(use(10 * kKib), 64u);
    EXPECT_EQ(use(200 * kKib), 64u + 256u);
    EXPECT_EQ(use(1000 * kKib), 64u + 256u + 1024u);
    EXPECT_EQ(use(60 * kKib), 64u + 256u + 1024u);
    EXPECT_EQ(use(250 * kKib), 64u + 256u + 1024u);
    EXPECT_EQ(use(1500 * kKib), 2048u) << "there is no room for both";
  }
  runtime->destroy(stream);
}

TEST(UploadRing, WhatItHoldsIsEnoughForAsManyPieces) {
  constexpr std::int64_t kTotal = std::int64_t{1} << 30;
  const auto runtime = emulator::make_emulated_runtime({.late = true, .total_bytes = kTotal});
  const cudaStream_t stream = runtime->make_stream(0);
  {
    UploadRing ring(*runtime, stream, std::size_t{64} << 20);
    ring.hold(1000 * kKib, 3);
    const std::int64_t left = runtime->free_bytes();
    EXPECT_EQ(static_cast<std::size_t>(kTotal - left), 3 * 1024 * kKib);
    for (int round = 0; round < 4; ++round) {
      for (const std::size_t bytes : {10 * kKib, 1000 * kKib, 1020 * kKib}) {
        ring.take(bytes);
        ring.send();
        ring.release();
      }
      EXPECT_EQ(runtime->free_bytes(), left);
      runtime->synchronize(stream);
    }
  }
  runtime->destroy(stream);
}

}  // namespace
}  // namespace saccade::cuda
