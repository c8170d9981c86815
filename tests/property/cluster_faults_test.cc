// Random requests and random faults, in virtual time: whatever encoders and networks do, each image
// ends once, in the rows it should have or in one error that is true, and nothing is left.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/log.h"
#include "tests/support/cluster_world.h"

namespace saccade::cluster::test {
namespace {

// Longer runs by hand: SACCADE_CLUSTER_SCHEDULES=1000000.
std::uint64_t schedules(std::uint64_t usual) {
  const char* const given = std::getenv("SACCADE_CLUSTER_SCHEDULES");
  return given == nullptr ? usual : std::strtoull(given, nullptr, 10);
}

struct Case {
  bool tower = true;
  bool poisoned = false;
};

ItemSettings settings_of(Rng& rng, const Case& of) {
  ItemSettings settings;
  settings.fallback = of.tower;
  settings.refuse_time = 3 * kSecond;
  if (rng.below(4) == 0) settings.receive_bytes = 64 * kRowBytes;  // rows wait for room
  if (rng.below(4) == 0) settings.hedge_burst = 0;
  if (of.poisoned) settings.verify_share = 1;
  return settings;
}

void fault(World& world, Rng& rng) {
  const int e = static_cast<int>(rng.below(world.encoders.size()));
  const int c = static_cast<int>(rng.below(world.consumers.size()));
  auto& process = world.encoders[static_cast<std::size_t>(e)];
  switch (rng.below(9)) {
    case 0:
      return world.kill(e);
    case 1:
      if (process) world.kill(e);
      return world.boot(e);  // the same address, another epoch
    case 2:
      return world.stop(e);
    case 3:
      return world.resume(e);
    case 4:
      return world.cut(c, e);
    case 5:
      if (process) process->breaks = !process->breaks;
      return;
    case 6:
      if (process) process->slowness = process->slowness > 1 ? 1 : 100;
      return;
    case 7:
      world.spoil_share = world.spoil_share > 0 ? 0 : 0.3;
      return;
    case 8:
      world.slow_network = !world.slow_network;
      return;
  }
}

void request(World& world, Rng& rng) {
  ConsumerProcess& consumer =
      *world.consumers[static_cast<std::size_t>(rng.below(world.consumers.size()))];
  if (rng.below(6) == 0 && !consumer.wanted.empty()) {
    auto any = consumer.wanted.begin();
    std::advance(any, rng.below(consumer.wanted.size()));
    return consumer.unwant(any->first);
  }
  // Few images, so that they meet; what an image is follows from its number.
  const std::uint64_t image = 1 + rng.below(12);
  consumer.want(image, 1 + static_cast<std::int64_t>(mix64(image) % 100),
                rng.below(3) == 0 ? static_cast<Nanos>(rng.below(4)) * kSecond : 0, image == 7);
}

void expect_nothing_left(World& world) {
  for (const auto& consumer : world.consumers) {
    EXPECT_TRUE(consumer->wanted.empty());
    EXPECT_EQ(consumer->table->items(), 0u);
    EXPECT_EQ(consumer->table->attempts(), 0u);
    EXPECT_EQ(consumer->table->receiving_bytes(), 0u);
    for (int e = 0; e < consumer->pool->size(); ++e) EXPECT_EQ(consumer->pool->open(e), 0);
  }
  for (const auto& encoder : world.encoders) {
    if (!encoder) continue;
    EXPECT_EQ(encoder->desk->calls(), 0u);
    EXPECT_EQ(encoder->desk->images(), 0u);
    EXPECT_EQ(encoder->desk->media_bytes(), 0u);
  }
}

void run_schedule(std::uint64_t seed, const Case& of) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  World world(seed, 1 + static_cast<int>(rng.below(3)), 1 + static_cast<int>(rng.below(2)),
              settings_of(rng, of), of.tower);
  if (of.poisoned) world.encoders.front()->poisoned = true;
  if (rng.below(4) == 0) world.run_until(10 * kMillisecond);  // else wanted before any is there
  const std::uint64_t events = 4 + rng.below(12);
  for (std::uint64_t i = 0; i < events; ++i) {
    if (!of.poisoned && rng.below(3) == 0) {
      fault(world, rng);
    } else {
      request(world, rng);
    }
    world.run_until(world.now() +
                    static_cast<Nanos>(rng.below(rng.below(4) == 0 ? 1'000'000 : 5'000)) *
                        kMicrosecond);
  }
  // Those that stand still go on, or their calls would wait for their leases.
  for (int e = 0; e < static_cast<int>(world.encoders.size()); ++e) world.resume(e);
  const auto waiting = [&] {
    for (const auto& consumer : world.consumers)
      if (!consumer->wanted.empty()) return true;
    for (const auto& encoder : world.encoders)
      if (encoder && (encoder->desk->calls() > 0 || encoder->desk->images() > 0)) return true;
    return false;
  };
  for (int i = 0; i < 400 && waiting(); ++i) world.run_until(world.now() + 250 * kMillisecond);
  world.run_until(world.now() + 2 * kSecond);  // what is still on its way
  world.forget_calls();
  expect_nothing_left(world);
  for (const auto& consumer : world.consumers) {
    const ItemStats& stats = consumer->table->stats();
    std::uint64_t ready = 0;
    for (const std::uint64_t n : stats.items) ready += n;
    EXPECT_EQ(ready, consumer->delivered);
    EXPECT_EQ(stats.wanted, ready + stats.failed + stats.unwanted);
    EXPECT_LE(seconds(consumer->longest), of.tower ? 35.0 : 60.0);
    if (!of.poisoned) {
      EXPECT_EQ(consumer->wrong, 0u);
      EXPECT_EQ(stats.mismatches, 0u);
    } else if (consumer->wrong > 0) {
      EXPECT_GT(stats.mismatches, 0u);
      EXPECT_EQ(consumer->pool->state(0), EncoderPool::State::kQuarantined);
    }
    for (const Error& error : consumer->errors) {
      if (of.tower) {
        EXPECT_EQ(error.code, ErrorCode::kUndecodable) << error.message;
      } else {
        EXPECT_TRUE(error.code == ErrorCode::kUndecodable || error.code == ErrorCode::kUnavailable)
            << error.message;
      }
    }
  }
}

void run_all(std::uint64_t first, std::uint64_t count, const Case& of) {
  log::set_level(log::Level::kError);
  ::testing::internal::CaptureStderr();  // of faults that are meant
  for (std::uint64_t i = 0; i < count && !::testing::Test::HasFailure(); ++i)
    run_schedule(first + i, of);
  ::testing::internal::GetCapturedStderr();
  log::set_level(log::Level::kInfo);
}

TEST(ClusterFaults, NoImageIsLostWhereATowerIs) { run_all(1, schedules(70'000), {}); }

TEST(ClusterFaults, WithoutATowerEachImageEndsInRowsOrOneError) {
  run_all(1'000'001, schedules(30'000), {.tower = false});
}

TEST(ClusterFaults, AnEncoderOfWrongRowsIsFoundAndLeft) {
  run_all(2'000'001, schedules(2'000), {.poisoned = true});
}

}  // namespace
}  // namespace saccade::cluster::test
