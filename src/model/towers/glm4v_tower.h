// The vision transformer of GLM-4.1V (arXiv:2507.01006): patches as patch_tower.h has them, with
// learnt positions besides their angles, norms before the first layer and after the last, and every
// merge x merge of them joined by a convolution before a gated MLP.
#pragma once

#include <cstdint>
#include <memory>

#include "model/blocks/blocks.h"
#include "model/towers/vision_tower.h"

namespace saccade {

struct Glm4vTowerSettings {
  std::int64_t depth = 24;
  std::int64_t embed = 1536;
  std::int64_t heads = 12;
  std::int64_t channels = 3;
  std::int64_t patch = 14;
  std::int64_t merge = 2;
  std::int64_t frames = 2;      // of one patch
  std::int64_t positions = 24;  // side of the square of learnt positions
  std::int64_t out = 4096;      // width of an embedding row, and of the layers' MLPs
  std::int64_t merger_inner = 13696;
  bool qkv_bias = false;
  double rope_theta = 10000;
  NormStyle norm;
  Activation activation = Activation::kSilu;

  std::int64_t head_dim() const { return embed / heads; }
  std::int64_t merged() const { return embed * merge * merge; }
  std::int64_t patch_values() const { return channels * frames * patch * patch; }
};

// kUnsupported for extents that do not fit each other.
Result<void> check_glm4v_tower(const Glm4vTowerSettings& settings);

// Taps: vision.patch_embed (with learnt positions), vision.layer.N, vision.merged.
std::unique_ptr<VisionTower> make_glm4v_tower(const Glm4vTowerSettings& settings);

}  // namespace saccade
