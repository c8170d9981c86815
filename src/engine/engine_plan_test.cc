#include "engine/engine_plan.h"

#include <gtest/gtest.h>

#include "engine/admission/kv_pool.h"

namespace saccade {
namespace {

// Four layers of full attention: 1 KiB of keys and values a token.
ModelShape text_shape() {
  ModelShape shape;
  shape.family = "test";
  shape.hidden = 64;
  shape.max_position = 4096;
  shape.embedding_dtype = shape.cache_dtype = DType::kBf16;
  LayerShape layer;
  layer.kv_heads = 1;
  layer.head_dim = 64;
  shape.layers.assign(4, layer);
  return shape;
}

ModelShape image_shape() {
  ModelShape shape = text_shape();
  shape.has_vision = true;
  shape.max_image_tokens = 1000;
  shape.max_image_patches = 4000;
  return shape;
}

struct Planned {
  EnginePlan plan;
  std::unique_ptr<KvAllocator> kv;
};

Result<Planned> planned(const EngineSettings& settings, const ModelShape& shape) {
  Planned made;
  TRY(made.plan, plan_engine(settings));
  TRY(made.kv, KvAllocator::create(layer_specs(shape), made.plan.cache));
  TRY_DO(plan_lengths(made.plan, shape, *made.kv));
  if (shape.has_vision) TRY_DO(plan_images(made.plan, shape));
  return made;
}

EngineSettings settings_of(std::size_t tokens) {
  EngineSettings settings;
  settings.block_size = 16;
  settings.kv_cache_bytes = tokens << 10;
  return settings;
}

TEST(EnginePlan, WrongSettingsAreNamed) {
  const auto error = [](auto change) {
    EngineSettings settings = settings_of(1024);
    change(settings);
    const auto plan = plan_engine(settings);
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_EQ(error([](EngineSettings&) {}), "");
  const auto names = [&](auto change, const char* what) {
    EXPECT_NE(error(change).find(what), std::string::npos) << error(change);
  };
  names([](auto& s) { s.max_batched_tokens = 0; }, "max_num_batched_tokens is 0");
  names([](auto& s) { s.block_size = -1; }, "block_size is -1");
  names([](auto& s) { s.device_memory_utilization = 2; }, "gpu_memory_utilization is 2");
}

TEST(EnginePlan, NoMoreRunThanAStepHasRowsOrTheCachePages) {
  EngineSettings settings = settings_of(4096);
  settings.max_batched_tokens = 32;
  settings.max_sequences = 64;
  const auto rows = planned(settings, text_shape());
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->plan.settings.max_sequences, 32);
  settings = settings_of(160);
  settings.max_sequences = 64;
  const auto pages = planned(settings, text_shape());
  ASSERT_TRUE(pages) << pages.error().message;
  EXPECT_EQ(pages->plan.settings.max_sequences, 10);
}

TEST(EnginePlan, ASequenceIsAsLongAsTheCacheHoldsOrTheCheckpointUsuallyTakes) {
  const auto length = [](std::size_t tokens, std::int64_t asked, std::int64_t usual) {
    EngineSettings settings = settings_of(tokens);
    settings.max_model_len = asked;
    ModelShape shape = text_shape();
    shape.usual_length = usual;
    const auto made = planned(settings, shape);
    return made ? made->plan.settings.max_model_len : -1;
  };
  EXPECT_EQ(length(1 << 16, 0, 0), 4096);
  EXPECT_EQ(length(1 << 16, 0, 512), 512);
  EXPECT_EQ(length(1 << 16, 2048, 512), 2048);
  EXPECT_EQ(length(1 << 16, 4097, 0), -1);
  const std::int64_t held = length(160, 0, 0);
  EXPECT_GT(held, 100);
  EXPECT_LE(held, 160);
  EXPECT_EQ(length(160, held + 1, 0), -1);
}

TEST(EnginePlan, AnImageIsAsLargeAsTheRequestAndTheStoreHold) {
  const auto rows = [](std::size_t store, EncoderCache mode, std::int64_t length) {
    EngineSettings settings = settings_of(1 << 16);
    settings.encoder_cache = mode;
    settings.encoder_cache_bytes = store;
    settings.max_model_len = length;
    const auto made = planned(settings, image_shape());
    return made ? made->plan.encoder : EncoderLimits{};
  };
  const std::size_t row = 2 * 64;
  EXPECT_EQ(rows(row << 20, EncoderCache::kStore, 4096).max_rows, 1000);
  EXPECT_EQ(rows(row << 20, EncoderCache::kStore, 4096).max_patches, 4000);
  EXPECT_EQ(rows(row << 20, EncoderCache::kStore, 100).max_rows, 100);
  EXPECT_EQ(rows(row << 20, EncoderCache::kStore, 100).max_patches, 400);
  EXPECT_EQ(rows(row * 90, EncoderCache::kStore, 4096).max_rows, 80);  // five pages of sixteen rows
  EXPECT_EQ(rows(row * 90, EncoderCache::kOverlay, 4096).max_rows, 1000);
  EXPECT_EQ(rows(row * 15, EncoderCache::kStore, 4096).max_rows, 0);
}

}  // namespace
}  // namespace saccade
