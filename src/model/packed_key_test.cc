#include "model/packed_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace saccade {
namespace {

TEST(PackedKey, DiffersWithAllThatChangesAByte) {
  Checkpoint checkpoint;
  checkpoint.directory = "/one";
  checkpoint.config["hidden_size"] = 64;
  const WeightTypes types = DType::kBf16;
  std::set<std::string> keys;
  const auto key = [&](const WeightTypes& with) {
    return packed_key(checkpoint, "qwen2-vl", "files", with, Parts::kAll, {});
  };
  const auto add = [&](const std::string& made) { EXPECT_TRUE(keys.insert(made).second) << made; };
  add(key(types));
  const auto with = [&](auto change) {
    WeightTypes changed = types;
    change(changed);
    add(key(changed));
  };
  with([](WeightTypes& t) { t.compute = DType::kF32; });
  with([](WeightTypes& t) { t.text_layers = DType::kI8; });
  with([](WeightTypes& t) { t.tower_layers = DType::kI8; });
  with([](WeightTypes& t) { t.head = DType::kI8; });
  with([](WeightTypes& t) { t.four_bit_text = true; });
  with([](WeightTypes& t) { t.dequantize = true; });
  with([](WeightTypes& t) { t.int8_rows = Int8Rows::kBeforeFourBits; });
  with([](WeightTypes& t) { t.int8_rows = Int8Rows::kBeforeBlocks; });
  with([](WeightTypes& t) { t.weight_only = true; });
  add(packed_key(checkpoint, "qwen2.5-vl", "files", types, Parts::kAll, {}));
  add(packed_key(checkpoint, "qwen2-vl", "other files", types, Parts::kAll, {}));
  add(packed_key(checkpoint, "qwen2-vl", "files", types, Parts::kText, {}));
  add(packed_key(checkpoint, "qwen2-vl", "files", types, Parts::kVision, {}));
  add(packed_key(checkpoint, "qwen2-vl", "files", types, Parts::kAll, {0, 2}));
  add(packed_key(checkpoint, "qwen2-vl", "files", types, Parts::kAll, {1, 2}));
  checkpoint.directory = "/two";
  EXPECT_TRUE(keys.contains(key(types)));
  checkpoint.config["hidden_size"] = 128;
  add(key(types));
}

}  // namespace
}  // namespace saccade
