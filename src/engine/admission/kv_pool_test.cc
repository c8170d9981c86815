// Where layers that keep a state are in the pool, beside those that keep keys and values of another
// type.
#include "engine/admission/kv_pool.h"

#include <gtest/gtest.h>

#include <bit>

namespace saccade {
namespace {

ModelShape shape_of(DType kv) {
  ModelShape shape;
  shape.layers = {{LayerKind::kFull, 0, 2, 8},
                  {.kind = LayerKind::kRecurrent, .state = 300},
                  {.kind = LayerKind::kRecurrent, .state = 44}};
  shape.hidden = 8;
  shape.cache_dtype = kv;
  shape.embedding_dtype = is_coded(kv) ? DType::kBf16 : kv;
  return shape;
}

std::unique_ptr<KvPool> pool_of(Device& device, const ModelShape& shape, PagePlan& plan,
                                std::int64_t interval) {
  const PagePlanSettings settings = {.block_tokens = 16, .state_interval = interval};
  plan = make_page_plan(layer_specs(shape), settings).value();
  return KvPool::create(device, shape, plan, 8 * plan.large_bytes).value();
}

TEST(KvPool, StatesAreFloatsBesideKeysOfAnyType) {
  const auto device = make_reference_device();
  for (const DType kv : {DType::kF32, DType::kBf16, DType::kI8, DType::kE4m3}) {
    for (const std::int64_t interval : {0, 48}) {
      const ModelShape shape = shape_of(kv);
      PagePlan plan;
      const auto pool = pool_of(*device, shape, plan, interval);
      const auto bindings = pool->bindings();
      ASSERT_EQ(bindings.size(), 3u);
      EXPECT_EQ(bindings[0].layer.dtype(), kv);
      EXPECT_EQ(bindings[0].layer.block_size, 16);
      for (const std::size_t layer : {1, 2}) {
        EXPECT_EQ(bindings[layer].layer.dtype(), DType::kF32);
        EXPECT_EQ(bindings[layer].layer.blocks.cols(), shape.layers[layer].state);
        EXPECT_EQ(bindings[layer].layer.block_size, interval);
        EXPECT_NE(bindings[layer].group, bindings[0].group);
      }
      EXPECT_EQ(bindings[1].group, bindings[2].group);
    }
  }
}

// Numbers whose halves are no numbers as bf16.
TEST(KvPool, StatesAreCopiedToTheBit) {
  const auto device = make_cpu_device(1).value();
  for (const DType kv : {DType::kF32, DType::kBf16, DType::kF16, DType::kI8, DType::kE4m3}) {
    PagePlan plan;
    const auto pool = pool_of(*device, shape_of(kv), plan, 48);
    const View states = pool->bindings()[1].layer.blocks;
    ASSERT_GE(states.rows(), 3);
    for (std::int64_t i = 0; i < states.cols(); ++i)
      states.row<float>(0)[i] =
          std::bit_cast<float>(0x3f807f81u + 0x00010000u * static_cast<std::uint32_t>(i % 50) +
                               static_cast<std::uint32_t>(i % 60) + (i % 2 == 0 ? 0x8000u : 0));
    const auto group = static_cast<int>(plan.places[1].group);
    pool->copy(device->lane(Lane::kStep), {.group = group, .table = 0, .from = 0, .to = 2});
    for (std::int64_t i = 0; i < states.cols(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(states.row<float>(2)[i]),
                std::bit_cast<std::uint32_t>(states.row<float>(0)[i]))
          << i;
  }
}

}  // namespace
}  // namespace saccade
