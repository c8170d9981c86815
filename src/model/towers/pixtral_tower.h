// Pixtral's vision transformer (arXiv:2410.07073): images at their own size, each attending to
// itself alone, whose patches turn by their row and their column; and the projectors after it, that
// of Mistral 3 joining squares of patches first.
#pragma once

#include <cstdint>
#include <memory>

#include "model/blocks/blocks.h"
#include "model/towers/vision_tower.h"

namespace saccade {

struct PixtralTowerSettings {
  std::int64_t depth = 24;
  std::int64_t embed = 1024;
  std::int64_t heads = 16;
  std::int64_t inner = 4096;  // of the MLP, which is gated
  std::int64_t channels = 3;
  std::int64_t patch = 16;
  double rope_theta = 10000;
  NormStyle norm = {.epsilon = 1e-5f, .weight_offset = 0, .subtract_mean = false};
  Activation activation = Activation::kGeluErf;

  // Mistral 3: patches are normed, and each square of merge x merge becomes one row as wide as a
  // patch. Otherwise merge is 1.
  bool merges = false;
  std::int64_t merge = 1;
  NormStyle merge_norm = {};
  Activation projector_activation = Activation::kGeluErf;
  bool projector_bias = true;
  std::int64_t out = 0;  // width of an embedding row, and between the projector's two matrices

  std::int64_t head_dim() const { return embed / heads; }
  std::int64_t merged() const { return embed * merge * merge; }
  std::int64_t patch_values() const { return channels * patch * patch; }
};

// kUnsupported for extents that do not fit each other.
Result<void> check_pixtral_tower(const PixtralTowerSettings& settings);

// Rows of an image are in the order in which squares join them. Taps: vision.patch_embed (normed),
// vision.layer.N, vision.merged (the projector's rows).
std::unique_ptr<VisionTower> make_pixtral_tower(const PixtralTowerSettings& settings);

}  // namespace saccade
