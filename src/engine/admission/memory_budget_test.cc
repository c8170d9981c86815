#include "engine/admission/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kGib = std::int64_t{1} << 30;

TEST(MemoryBudget, IsWhatTheShareLeaves) {
  const DeviceMemory use = {.total = 100 * kGib,
                            .free = 70 * kGib,
                            .scratch = 4 * kGib,
                            .images = 3 * kGib,
                            .sampling = 2 * kGib,
                            .adapters = 2 * kGib,
                            .graphs = kGib,
                            .lists = kGib};
  EXPECT_EQ(*kv_bytes_of(0.75, use, 1), 32 * kGib);
  EXPECT_EQ(*kv_bytes_of(1, use, 1), 57 * kGib);
  EXPECT_EQ(*kv_bytes_of(0.5, use, 7 * kGib), 7 * kGib);
}

TEST(MemoryBudget, SaysWhoHasTheMemory) {
  const DeviceMemory use = {.total = 80 * kGib,
                            .free = 8 * kGib,
                            .scratch = 2 * kGib,
                            .images = kGib,
                            .sampling = kGib / 2};
  const auto none = kv_bytes_of(0.875, use, kGib);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kExhausted);
  for (const char* words :
       {"gpu_memory_utilization 0.875", "80.00 GiB is 70.00", "72.00 GiB are taken",
        "activations 2.00", "images 1.00", "sampling 0.50", "-5.50 GiB", "1.000 GiB is the least"})
    EXPECT_THAT(none.error().message, HasSubstr(words));
  EXPECT_FALSE(kv_bytes_of(0.9, {.total = kGib, .free = kGib}, kGib));
}

}  // namespace
}  // namespace saccade
