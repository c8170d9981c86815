// Pixtral's vision transformer (arXiv:2410.07073): images at their own size, each attending to
// itself alone, whose patches turn by their row and their column; and the projectors after it, that
// of Mistral 3 joining squares of patches first.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "model/blocks/blocks.h"
#include "model/blocks/scratch.h"
#include "model/towers/patch_steps.h"
#include "model/towers/vision_stack.h"
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
class PixtralTower final : public VisionTower {
 public:
  explicit PixtralTower(const PixtralTowerSettings& settings)
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
  friend class PixtralEncodeRun;

  PixtralTowerSettings settings_;
  Linear patch_embed_;
  Norm first_norm_;
  VisionStack stack_;
  Norm merge_norm_;  // these two with settings_.merges
  Linear merge_;
  Linear project_in_;
  Linear project_out_;

  Scratch memory_;
  PatchAngles angles_;
  PatchCut cut_;
  View hidden_;     // [patches of a run, embed]
  View joined_;     // [kMlpRows / merge^2, embed] with settings_.merges
  View inner_;      // [kMlpRows / merge^2, out]
  View projected_;  // [kMlpRows / merge^2, out]
};

}  // namespace saccade
