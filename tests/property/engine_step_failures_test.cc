// A step that throws, as one does where memory ends: everybody is told, once, and nothing more is
// taken.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/local_engine.h"
#include "tests/support/fake_model.h"

namespace saccade {
namespace {

TEST(StepFailures, EverybodyIsToldAndNothingMoreIsTaken) {
  log::set_level(log::Level::kError);
  std::int64_t forwards = 0;
  FakeModelOptions options;
  options.on_forward = [&](const Batch&) {
    if (++forwards == 4) throw std::bad_alloc();
  };
  FakeModel model(options);
  const std::unique_ptr<Device> device = make_reference_device();
  VirtualClock clock;
  for (const int steps_in_flight : {1, 2}) {
    SCOPED_TRACE(steps_in_flight);
    forwards = 0;
    EngineSettings settings;
    settings.kv_cache_bytes = 4 << 20;
    settings.max_model_len = 500;
    settings.max_sequences = 3;
    settings.steps_in_flight = steps_in_flight;
    const auto engine = Engine::create(settings, model, *device, clock);
    ASSERT_TRUE(engine) << engine.error().message;

    std::map<RequestId, std::vector<FinishReason>> ends;
    int told = 0;
    const auto submit = [&](std::int64_t max_tokens) {
      Request request = fake_request(std::vector<TokenId>(20, 7), {}, max_tokens);
      request.sampling.ignore_eos = true;
      return (*engine)->submit(std::move(request), [&](RequestId id, Delta&& delta,
                                                       const RequestUsage&, const RequestTimes&) {
        if (delta.finish == FinishReason::kNone) return;
        ends[id].push_back(delta.finish);
        if (delta.finish == FinishReason::kError) {
          EXPECT_EQ(delta.error_code, ErrorCode::kUnavailable);
          ++told;
        }
      });
    };
    ASSERT_TRUE(submit(1));                               // has ended before
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(submit(40));  // of which three run
    EXPECT_THROW((*engine)->run(), std::bad_alloc);
    EXPECT_EQ(ends.size(), 6u);
    for (const auto& [id, all] : ends) EXPECT_EQ(all.size(), 1u) << id;
    EXPECT_EQ(told, 5);
    const auto refused = submit(1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  }
}

}  // namespace
}  // namespace saccade
