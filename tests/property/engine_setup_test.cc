// What an engine takes of a device's memory when it is not told.
#include "engine/engine_setup.h"

#include <gtest/gtest.h>

#include "ops/forwarding_device.h"
#include "tests/support/fake_model.h"

namespace saccade {
namespace {

const SteadyClock kClock;

// Says how much memory is free, and of how much if it is its own, and has what the reference has.
class MeteredDevice : public ForwardingDevice {
 public:
  explicit MeteredDevice(std::int64_t free, std::int64_t total = 0,
                         std::unique_ptr<Device> inner = make_reference_device())
      : ForwardingDevice(*inner), free_(free), total_(total), inner_(std::move(inner)) {}
  std::int64_t free_bytes() const override { return free_; }
  std::int64_t total_bytes() const override { return total_; }

 private:
  std::int64_t free_;
  std::int64_t total_;
  std::unique_ptr<Device> inner_;
};

// The pool takes its share of what is left beside the model's scratch and the store of embeddings,
// by what the device says is free.
TEST(EngineSetup, KvPoolComesAfterScratch) {
  constexpr std::int64_t kFree = std::int64_t{4} << 30;
  const auto pool_bytes = [&](std::int64_t scratch, std::int64_t store) {
    FakeModelOptions options;
    options.max_position = 1 << 20;
    options.layers.assign(64, {LayerKind::kFull, 0, 4, 64});  // more than any pool here holds
    options.scratch_bytes = static_cast<std::size_t>(scratch);
    FakeModel model(options);
    MeteredDevice device(kFree);
    EngineSettings settings;
    settings.encoder_cache_bytes = static_cast<std::size_t>(store);
    const auto parts = set_up_engine(settings, model, device, kClock);
    EXPECT_TRUE(parts.has_value()) << parts.error().message;
    return parts ? static_cast<std::int64_t>(parts->settings.kv_cache_bytes) : 0;
  };
  const std::int64_t alone = pool_bytes(0, 1 << 20);
  EXPECT_LE(alone, kFree);
  EXPECT_GT(alone, kFree / 4);
  for (const std::int64_t taken : {std::int64_t{1} << 30, std::int64_t{3} << 30}) {
    const std::int64_t beside = pool_bytes(taken, 1 << 20);
    EXPECT_LE(beside + taken, kFree);
    EXPECT_NEAR(static_cast<double>(alone - beside), static_cast<double>(taken) / 2, 1 << 22);
  }
  EXPECT_LT(pool_bytes(0, 1 << 30), alone);
}

// Of a device's own memory all that the utilisation leaves: what is taken already, by whomever,
// counts, and so does what the engine makes later.
TEST(EngineSetup, KvPoolIsWhatTheUtilisationLeaves) {
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  const auto set_up = [&](double utilisation, std::int64_t free, std::int64_t scratch) {
    FakeModelOptions options;
    options.max_position = 1 << 20;
    options.layers.assign(64, {LayerKind::kFull, 0, 4, 64});
    options.scratch_bytes = static_cast<std::size_t>(scratch);
    FakeModel model(options);
    MeteredDevice device(free, 4 * kGib);
    EngineSettings settings;
    settings.encoder_cache_bytes = 1 << 20;
    settings.device_memory_utilization = utilisation;
    auto parts = set_up_engine(settings, model, device, kClock);
    return parts ? Result<std::int64_t>(static_cast<std::int64_t>(parts->settings.kv_cache_bytes))
                 : Result<std::int64_t>(fail(std::move(parts).error()));
  };
  const auto all = set_up(1, 4 * kGib, 0);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_GT(*all, 3 * kGib);
  EXPECT_LT(*all, 4 * kGib);
  const std::int64_t half = *all - *set_up(0.5, 4 * kGib, 0);
  EXPECT_NEAR(static_cast<double>(half), 2.0 * kGib, 1 << 20);
  EXPECT_EQ(*all - *set_up(1, 3 * kGib, 0), kGib);
  EXPECT_EQ(*all - *set_up(1, 4 * kGib, kGib), kGib);
  const auto none = set_up(0.5, 2 * kGib, 0);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("2.00 GiB are taken"), std::string::npos)
      << none.error().message;
  for (const double wrong : {0.0, -1.0, 1.01})
    EXPECT_NE(set_up(wrong, 4 * kGib, 0).error().message.find("gpu_memory_utilization"),
              std::string::npos);
}

// Where the utilisation leaves more than would ever be used, that is what the pool has, unless
// prefixes are kept; of codes it is their bytes and those of their scales.
TEST(EngineSetup, KvPoolOfCodesIsAsMuchSmaller) {
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  const auto pool_bytes = [&](DType cache, bool prefixes = false) -> std::int64_t {
    FakeModelOptions options;
    options.layers.assign(4, {LayerKind::kFull, 0, 2, 64});
    options.cache = cache;
    FakeModel model(options);
    MeteredDevice device(4 * kGib, 4 * kGib);
    EngineSettings settings;
    settings.encoder_cache_bytes = 1 << 20;
    settings.prefix_caching = prefixes;
    const auto parts = set_up_engine(settings, model, device, kClock);
    EXPECT_TRUE(parts.has_value()) << parts.error().message;
    return parts ? static_cast<std::int64_t>(parts->settings.kv_cache_bytes) : 0;
  };
  const std::int64_t numbers = pool_bytes(DType::kF32);
  EXPECT_GT(numbers, 0);
  for (const DType cache : {DType::kI8, DType::kE4m3})
    EXPECT_EQ(pool_bytes(cache) * 64 * 4, numbers * (64 + 4)) << name_of(cache);
  EXPECT_GT(pool_bytes(DType::kF32, true), 2 * kGib);
  EXPECT_GT(2 * kGib, numbers);
}

// The next step is planned while one runs where something else than the host computes it; what was
// said goes before it.
TEST(EngineSetup, TwoStepsAreInFlightWhereTheDeviceComputesBesideTheHost) {
  struct Beside final : MeteredDevice {
    using MeteredDevice::MeteredDevice;
    Space space() const override { return Space::kDevice; }
  };
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  const auto steps = [&](auto device, int said) {
    FakeModel model({});
    EngineSettings settings;
    settings.encoder_cache_bytes = 1 << 20;
    settings.steps_in_flight = said;
    const auto parts = set_up_engine(settings, model, device, kClock);
    EXPECT_TRUE(parts.has_value()) << parts.error().message;
    return parts ? parts->settings.steps_in_flight : 0;
  };
  EXPECT_EQ(steps(MeteredDevice(kGib), 0), 1);
  EXPECT_EQ(steps(MeteredDevice(kGib), 2), 2);
  EXPECT_EQ(steps(Beside(kGib), 0), 2);
  EXPECT_EQ(steps(Beside(kGib), 1), 1);
}

}  // namespace
}  // namespace saccade
