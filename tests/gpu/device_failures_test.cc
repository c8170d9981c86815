// A device that fails while the engine runs: a launch that is refused, an address that is none,
// memory that has ended. Everybody is told, once; nothing more is taken; everything can be
// destroyed.
#include <gmock/gmock.h>

#include <map>

#include "engine/local_engine.h"
#include "ops/cuda/device_failed.h"
#include "ops/cuda/emulator/emulated_device.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using emulator::EmulatedFault;
using test::GoldenRequests;
using test::settings_of;

struct Failure {
  EmulatedFault::Kind kind;
  std::int64_t after;
  const char* says;
};

class DeviceFailures : public ::testing::TestWithParam<Failure> {};

TEST_P(DeviceFailures, EverybodyIsToldAndTheEngineEnds) {
  const auto fault = std::make_shared<EmulatedFault>();
  GoldenRequests from("qwen2_5_vl/odd_heads", {"text", "one_image"},
                      make_emulated_cuda_device({.late = true, .seed = 5, .fault = fault}));
  const SteadyClock clock;
  auto engine = Engine::create(settings_of(64), from.network(), from.device(), clock);
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ((*engine)->settings().steps_in_flight, 2);
  std::map<RequestId, std::vector<std::string>> ends;
  const auto submit = [&](std::size_t which) {
    return (*engine)->submit(from.request(which), [&](RequestId id, Delta&& delta,
                                                      const RequestUsage&, const RequestTimes&) {
      if (delta.finish != FinishReason::kNone) ends[id].push_back(delta.error);
    });
  };
  constexpr std::size_t kRequests = 4;
  for (std::size_t i = 0; i < kRequests; ++i) ASSERT_TRUE(submit(i));
  fault->after = GetParam().after;
  fault->kind = GetParam().kind;
  std::string thrown;
  try {
    (*engine)->run();
  } catch (const cuda::DeviceFailed& failed) {
    thrown = failed.what();
  }
  EXPECT_THAT(thrown, ::testing::HasSubstr(GetParam().says));
  EXPECT_EQ(ends.size(), kRequests);
  for (const auto& [id, all] : ends)
    EXPECT_EQ(all, std::vector<std::string>{"the engine has stopped: the server ends"}) << id;
  const auto refused = submit(0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DeviceFailures,
    ::testing::Values(Failure{EmulatedFault::Kind::kRefusedLaunch, 0, "refused"},
                      Failure{EmulatedFault::Kind::kRefusedLaunch, 100, "refused"},
                      Failure{EmulatedFault::Kind::kBadAddress, 3, "illegal address"},
                      Failure{EmulatedFault::Kind::kBadAddress, 150, "illegal address"},
                      Failure{EmulatedFault::Kind::kNoMemory, 0, "bytes"}),
    [](const auto& each) {
      return fmt::format("kind{}_after{}", static_cast<int>(each.param.kind), each.param.after);
    });

}  // namespace
}  // namespace saccade
