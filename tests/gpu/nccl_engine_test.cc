// The engine over ranks that are emulated GPUs and add up through NCCL's interface: late streams,
// two steps in flight, and sums that fail.
#include <gmock/gmock.h>

#include "engine/local_engine.h"
#include "ops/team/team_device.h"
#include "tests/golden/golden_requests.h"
#include "tests/gpu/nccl_ranks.h"

namespace saccade {
namespace {

using test::expect_goldens;
using test::fake_nccl;
using test::FakeNccl;
using test::GoldenRequests;
using test::NcclRanks;
using test::settings_of;

class NcclEngine : public NcclRanks {
 protected:
  std::unique_ptr<TeamDevice> make_team(int ranks, std::chrono::milliseconds patience = {}) {
    const Result<void> made = make(ranks);
    EXPECT_TRUE(made) << made.error().message;
    return std::make_unique<TeamDevice>(std::move(devices), std::move(collectives), patience);
  }
};

TEST_F(NcclEngine, TwoGpusGiveTheReferencesTokens) {
  GoldenRequests from("qwen2_5_vl/odd_heads", {"text", "one_image"}, make_team(2));
  EngineSettings settings = settings_of(64);
  settings.steps_in_flight = 2;
  const EngineStats stats = expect_goldens(from, settings, 1, 2);
  EXPECT_GT(stats.prefix_cache_hits, 0u);
  EXPECT_EQ(stats.images_encoded, 1u);
  EXPECT_GT(std::ssize(fake_nccl().calls), 100);
}

// A sum fails in the stream, after the host has left the forward, or never comes: nobody is given
// what came of it.
TEST_F(NcclEngine, AFailedSumEndsTheEngineWithItsReason) {
  const std::string fails = "the sum over 2 GPUs failed on rank 1";
  for (const auto& [fault, words] :
       {std::pair{FakeNccl::Fault::kRefused, fails},
        {FakeNccl::Fault::kFailsLater, fails},
        {FakeNccl::Fault::kHangs, "2 ranks did not come back from a call within 4 s"}}) {
    fake_nccl().reset();
    fake_nccl().enqueue = emulator::enqueue_later;
    const std::chrono::seconds patience(fault == FakeNccl::Fault::kHangs ? 4 : 0);
    GoldenRequests from("qwen2_5_vl/odd_heads", {"text"}, make_team(2, patience));
    const SteadyClock clock;
    auto engine = Engine::create(settings_of(64), from.network(), from.device(), clock);
    ASSERT_TRUE(engine) << engine.error().message;
    fake_nccl().fault = fault;
    fake_nccl().fault_rank = 1;
    fake_nccl().fault_call = 41;
    std::vector<std::string> ends;
    for (int i = 0; i < 3; ++i) {
      const auto sink = [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
        if (delta.finish != FinishReason::kNone) ends.push_back(delta.error);
      };
      ASSERT_TRUE((*engine)->submit(from.request(0), sink));
    }
    std::string thrown;
    try {
      (*engine)->run();
    } catch (const RanksFailed& failed) {
      thrown = failed.what();
    }
    EXPECT_THAT(thrown, ::testing::HasSubstr(words));
    EXPECT_EQ(ends, std::vector<std::string>(3, "the engine has stopped: the server ends"));
  }
}

}  // namespace
}  // namespace saccade
