// The vision transformer of MiniCPM-V 4.6: SigLIP over images of any size, whose patches take the
// nearest of a square of learnt positions. After one of the first layers each 2 x 2 patches attend
// to each other alone and become one; after the last each 2 x 2 of these become one token. The
// whole image and each of its slices attend to themselves alone.
#pragma once

#include <cstdint>
#include <memory>

#include "model/blocks/blocks.h"
#include "model/towers/vision_stack.h"
#include "model/towers/vision_tower.h"

namespace saccade {

// `image`: of the square of learnt positions.
struct MiniCpmvTowerSettings : VitExtents {
  std::int64_t joined_after = 6;  // the layer after which patches are joined; -1: none
  std::int64_t out = 0;           // width of an embedding row
  std::int64_t max_squares = 1;   // of the whole image, or of a slice
  NormStyle norm = {.epsilon = 1e-6f, .weight_offset = 0, .subtract_mean = true};
  Activation activation = Activation::kGeluTanh;

  bool joins() const { return joined_after >= 0; }
  std::int64_t positions() const { return image / patch; }  // a side
  std::int64_t patch_values() const { return 3 * patch * patch; }
};

// Taps: vision.patch_embed (with learnt positions), vision.layer.N up to where patches are joined,
// joined.merger, joined.layer.N from there on, vision.merged.
std::unique_ptr<VisionTower> make_minicpmv_tower(const MiniCpmvTowerSettings& settings);

}  // namespace saccade
