#include "memory/page_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace saccade {
namespace {

LayerSpec attention(CacheKind kind, std::int64_t heads, std::int64_t dim, std::int64_t window = 0) {
  return {kind, window, heads, dim, 0, 2, 0};
}

std::vector<LayerSpec> repeat(std::initializer_list<std::pair<int, LayerSpec>> parts) {
  std::vector<LayerSpec> layers;
  for (const auto& [count, spec] : parts) layers.insert(layers.end(), count, spec);
  return layers;
}

PagePlan plan_of(const std::vector<LayerSpec>& layers, KvPolicy policy = KvPolicy::kJenga,
                 std::int64_t state_interval = 0) {
  PagePlanSettings settings;
  settings.policy = policy;
  settings.state_interval = state_interval;
  auto plan = make_page_plan(layers, settings);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return plan ? *plan : PagePlan();
}

// Gemma-3-27B: 52 window layers of 1024 and 10 full ones, 16 KV heads of 128.
std::vector<LayerSpec> gemma3() {
  return repeat({{52, attention(CacheKind::kSlidingWindow, 16, 128, 1024)},
                 {10, attention(CacheKind::kFull, 16, 128)}});
}

TEST(PagePlan, OneKindIsOnePage) {
  const PagePlan plan = plan_of(repeat({{28, attention(CacheKind::kFull, 2, 128)}}));
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].tables, 1);
  EXPECT_EQ(plan.groups[0].ratio, 1);
  EXPECT_EQ(plan.large_bytes, 28 * 16 * 2 * 2 * 128 * 2);
  EXPECT_EQ(plan.places[27].offset, 27 * 16 * 2 * 2 * 128 * 2);
}

TEST(PagePlan, EqualPagesTakeTheGreatestCommonWidth) {
  const PagePlan plan = plan_of(gemma3());
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].tables, 26);
  EXPECT_EQ(plan.groups[1].tables, 5);
  EXPECT_EQ(plan.tables, 31);
  EXPECT_EQ(plan.first_table(1), 26);
  EXPECT_EQ(plan.large_bytes, 2 * 16 * 2 * 16 * 128 * 2);
  EXPECT_EQ(plan.groups[0].ratio, 1);
  EXPECT_EQ(plan.groups[0].page_bytes, plan.groups[0].used_bytes);
  // The last full layer: second of the two in the fifth table of its group.
  EXPECT_EQ(plan.places[61].table, 4);
  EXPECT_EQ(plan.places[61].offset, 16 * 2 * 16 * 128 * 2);
}

TEST(PagePlan, MaxPagePadsToTheLargestGroup) {
  // Llama-3.2-11B-Vision: 32 self-attention and 8 cross-attention layers.
  const PagePlan plan = plan_of(repeat({{32, attention(CacheKind::kFull, 8, 128)},
                                        {8, attention(CacheKind::kCrossAttention, 8, 128)}}),
                                KvPolicy::kMaxPage);
  EXPECT_EQ(plan.groups[1].page_bytes, plan.groups[0].page_bytes);
  EXPECT_EQ(plan.groups[1].used_bytes * 4, plan.groups[1].page_bytes);
  EXPECT_EQ(plan.groups[1].tables, 1);
}

TEST(PagePlan, DifferentPagesTakeTheLeastCommonMultiple) {
  const PagePlan plan = plan_of(repeat({{2, attention(CacheKind::kFull, 3, 64)},
                                        {3, attention(CacheKind::kSlidingWindow, 1, 64, 128)}}));
  // Group pages 6 and 3 layer-heads wide.
  EXPECT_EQ(plan.groups[0].ratio, 1);
  EXPECT_EQ(plan.groups[1].ratio, 2);
  EXPECT_EQ(plan.large_bytes, plan.groups[0].page_bytes);
  // 4 and 6 wide: neither divides the other, and nothing is padded.
  const PagePlan apart = plan_of(repeat({{2, attention(CacheKind::kFull, 2, 64)},
                                         {2, attention(CacheKind::kSlidingWindow, 3, 64, 128)}}));
  EXPECT_EQ(apart.groups[0].ratio, 3);
  EXPECT_EQ(apart.groups[1].ratio, 2);
  for (const GroupPlan& group : apart.groups) EXPECT_EQ(group.page_bytes, group.used_bytes);
}

// A page is dropped with the window of its group: layers that look further back need their own.
TEST(PagePlan, WindowsOfDifferentLengthAreApart) {
  const PagePlan plan = plan_of(repeat({{2, attention(CacheKind::kSlidingWindow, 2, 64, 128)},
                                        {1, attention(CacheKind::kSlidingWindow, 2, 64, 512)},
                                        {2, attention(CacheKind::kSlidingWindow, 2, 64, 128)}}));
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.groups[0].window, 128);
  EXPECT_EQ(plan.groups[0].layers, (std::vector<int>{0, 1, 3, 4}));
  EXPECT_EQ(plan.groups[1].window, 512);
  EXPECT_EQ(plan.groups[1].layers, std::vector<int>{2});
}

TEST(PagePlan, AnUnwieldyMultipleIsPaddedInstead) {
  // Attention pages of 2^18 bytes beside a prime number of state bytes.
  std::vector<LayerSpec> layers = repeat({{4, attention(CacheKind::kFull, 8, 128)}});
  layers.push_back({CacheKind::kState, 0, 0, 0, 0, 2, 573449});
  const PagePlan plan = plan_of(layers, KvPolicy::kJenga, 512);
  EXPECT_EQ(plan.groups[0].page_bytes, plan.groups[0].used_bytes);
  EXPECT_EQ(plan.groups[0].ratio, 3);
  EXPECT_EQ(plan.groups[1].page_bytes, 3 * plan.groups[0].page_bytes);
  EXPECT_EQ(plan.groups[1].block_tokens, 512);
}

TEST(PagePlan, PagedIsOneGroupOfFullAttention) {
  const PagePlan plan = plan_of(gemma3(), KvPolicy::kPaged);
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].kind, CacheKind::kFull);
  EXPECT_EQ(plan.groups[0].layers.size(), 62u);
  EXPECT_EQ(plan.groups[0].stream, TokenStream::kText);
  const PagePlan cross = plan_of(repeat({{32, attention(CacheKind::kFull, 8, 128)},
                                         {8, attention(CacheKind::kCrossAttention, 8, 128)}}),
                                 KvPolicy::kPaged);
  EXPECT_EQ(cross.groups[0].stream, TokenStream::kBoth);
}

TEST(PagePlan, StaticSharesFollowBytesAndHalveWindows) {
  const PagePlan plan = plan_of(gemma3(), KvPolicy::kStatic);
  EXPECT_NEAR(plan.groups[0].share, 26.0 / 36, 1e-9);  // 52 / 2 against 10
  EXPECT_NEAR(plan.groups[1].share, 10.0 / 36, 1e-9);
}

TEST(PagePlan, LayersOfAGroupNeverOverlap) {
  const std::vector<std::vector<LayerSpec>> models = {
      gemma3(),
      repeat({{3, attention(CacheKind::kFull, 1, 64)}, {2, attention(CacheKind::kFull, 4, 64)}}),
      repeat({{5, attention(CacheKind::kFull, 2, 64)},
              {7, attention(CacheKind::kSlidingWindow, 3, 64, 100)},
              {1, attention(CacheKind::kSlidingWindow, 3, 64, 200)}})};
  for (const auto& layers : models) {
    for (const KvPolicy policy :
         {KvPolicy::kJenga, KvPolicy::kMaxPage, KvPolicy::kStatic, KvPolicy::kPaged}) {
      const PagePlan plan = plan_of(layers, policy);
      std::vector<std::tuple<int, int, std::int64_t, std::int64_t>> spans;
      for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        const LayerPlace& place = plan.places[layer];
        EXPECT_LE(place.offset + layers[layer].page_bytes(16), place.stride);
        spans.emplace_back(place.group, place.table, place.offset,
                           place.offset + layers[layer].page_bytes(16));
      }
      std::sort(spans.begin(), spans.end());
      for (std::size_t i = 1; i < spans.size(); ++i) {
        const auto& [group, table, begin, end] = spans[i];
        const auto& [group0, table0, begin0, end0] = spans[i - 1];
        if (group == group0 && table == table0) {
          EXPECT_GE(begin, end0);
        }
      }
    }
  }
}

TEST(PagePlan, RefusesWhatCannotBe) {
  const auto message = [](std::vector<LayerSpec> layers, PagePlanSettings settings) {
    const auto plan = make_page_plan(layers, settings);
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_EQ(message({}, {}), "a cache of no layers");
  EXPECT_EQ(message({attention(CacheKind::kFull, 0, 64)}, {}), "layer 0 keeps nothing");
  EXPECT_EQ(message({attention(CacheKind::kSlidingWindow, 1, 64)}, {}),
            "layer 0 has a window of 0 tokens");
  PagePlanSettings settings;
  settings.state_interval = 20;
  EXPECT_EQ(message({attention(CacheKind::kFull, 1, 64)}, settings),
            "state interval 20 is no multiple of the block size 16");
}

TEST(PagePlanTest, PoliciesHaveNames) {
  EXPECT_EQ(find_named(kKvPolicies, "buddy"), nullptr);
  for (const Named<KvPolicy>& policy : kKvPolicies) {
    EXPECT_EQ(find_named(kKvPolicies, policy.name)->value, policy.value);
    EXPECT_EQ(name_of(policy.value), policy.name);
  }
  EXPECT_EQ(name_of(KvPolicy::kMaxPage), "maxpage");
}

}  // namespace
}  // namespace saccade
