// Ranks on emulated GPUs that add up with the stand-in for NCCL.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "ops/cuda/emulator/emulated_device.h"
#include "ops/cuda/libraries/nccl_collective.h"
#include "tests/gpu/fakes/fake_nccl.h"

namespace saccade::test {

// The settings of the instance that everybody opens.
inline test::FakeNccl& fake_nccl() {
  static const cuda::OpenedLibrary library = *cuda::OpenedLibrary::open(SACCADE_FAKE_NCCL);
  return reinterpret_cast<test::FakeNcclSettings>(library.symbol(test::kFakeNcclSettings))();
}

class NcclRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_nccl().reset();
    fake_nccl().enqueue = emulator::enqueue_later;
    log::set_level(log::Level::kError);
  }
  // Whatever happened, nothing is left, and nobody added what others did not.
  void TearDown() override {
    collectives.clear();
    devices.clear();
    EXPECT_EQ(fake_nccl().communicators, 0) << "communicators are left";
    EXPECT_EQ(fake_nccl().mismatches, 0);
    EXPECT_FALSE(fake_nccl().blocking);
  }

  Result<void> make(int ranks, DType activations = DType::kF32,
                    std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    collectives.clear();
    devices.clear();
    std::vector<cuda::CudaDevice*> all;
    for (int rank = 0; rank < ranks; ++rank) {
      devices.push_back(make_emulated_cuda_device(
          {.late = true, .seed = static_cast<std::uint64_t>(rank + 3)}, activations));
      all.push_back(static_cast<cuda::CudaDevice*>(devices.back().get()));
    }
    TRY(const auto library, cuda::find_nccl(SACCADE_FAKE_NCCL));
    TRY(collectives, cuda::make_nccl_collectives(library, all, patience));
    return {};
  }
  // body(rank) on a thread each.
  template <typename Body>
  void on_ranks(const Body& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(devices.size()); ++rank)
      threads.emplace_back([&body, rank] { body(rank); });
    for (std::thread& thread : threads) thread.join();
  }
  Device& device(int rank) { return *devices[static_cast<std::size_t>(rank)]; }
  Collective& collective(int rank) { return *collectives[static_cast<std::size_t>(rank)]; }

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Collective>> collectives;
};

}  // namespace saccade::test
