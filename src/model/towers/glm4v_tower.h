// The vision transformer of GLM-4.1V (arXiv:2507.01006): patches as patch_tower.h has them, with
// learnt positions besides their angles, norms before the first layer and after the last, and every
// merge x merge of them joined by a convolution before a gated MLP.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "model/blocks/blocks.h"
#include "model/blocks/scratch.h"
#include "model/towers/patch_steps.h"
#include "model/towers/tower_weights.h"
#include "model/towers/vision_stack.h"
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
class Glm4vTower final : public VisionTower {
 public:
  explicit Glm4vTower(const Glm4vTowerSettings& settings)
      : settings_(settings),
        stack_({.embed = settings.embed,
                .heads = settings.heads,
                .norm = settings.norm,
                .activation = settings.activation}) {}

  void add_weights(WeightTable& table) override;
  void set_compute(DType compute) override { stack_.set_compute(compute); }
  Result<void> reserve(Device& device, std::int64_t patch_rows) override;
  std::size_t scratch_bytes() const override { return memory_.bytes(); }
  std::unique_ptr<EncodeRun> begin(Stream& stream, std::span<const PreparedImage* const> images,
                                   std::span<const View> out, const Tap& tap) override;

 private:
  friend class Glm4vEncodeRun;

  Glm4vTowerSettings settings_;
  Linear patch_embed_;
  Norm first_norm_;
  PositionRows positions_;  // [settings_.positions^2, embed]
  VisionStack stack_;
  Norm last_norm_;
  Linear downsample_;
  Linear project_;
  Norm project_norm_;
  Linear merger_in_;  // gate and up
  Linear merger_out_;

  Scratch memory_;
  PatchAngles angles_;
  PatchCut cut_;
  View hidden_;     // [patches of a run, embed]
  View joined_;     // [squares of a slice, out]
  View projected_;  // [squares of a slice, out]
  View ones_;       // [squares of a slice, out], what an activation alone is multiplied by
  View inner_;      // [squares of a slice, 2 * merger_inner]
};

}  // namespace saccade
