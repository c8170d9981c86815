// Towers over patches of whole images at nearly their own size: what those of all families have in
// common. A family says its weights, how rows begin and what becomes of them.
#pragma once

#include <cstdint>

#include "model/towers/patch_steps.h"
#include "model/towers/stack_tower.h"

namespace saccade {

class WholeImageTower : public StackTower {
 protected:
  template <typename Settings>
  explicit WholeImageTower(const Settings& settings)
      : StackTower({.embed = settings.embed,
                    .heads = settings.heads,
                    .norm = settings.norm,
                    .activation = settings.activation}) {}

  PatchAngles angles_;

 private:
  friend class WholeImageRun;
};

// Every frame attends to itself alone, unless a family says otherwise of a layer.
class WholeImageRun : public TowerRun {
 protected:
  WholeImageRun(const EncodeArgs& args, const WholeImageTower& tower, std::int64_t merge,
                std::int64_t window = 0)
      : TowerRun(args, tower.stack_.blocks.size()),
        order_(order_patches(images_, merge, window)),
        angles_{tower.angles_.cos(order_.patches()), tower.angles_.sin(order_.patches())},
        frames_(stream_.plan_segments(order_.frame_begins, tower.stack_.geometry())),
        stack_(tower.stack_) {
    take_rows(tower.hidden_, order_.patches());
    for (const PreparedImage* image : images_) tokens_.add(image->layout.tokens);
  }

  void layer(WorkList& works, std::size_t index) override { attend(works, index, frames_); }
  void attend(WorkList& works, std::size_t index, const SegmentPlan& plan) {
    stack_.block(works, stream_, index, plan, angles_, hidden_);
    show_rows(works, fmt::format("vision.layer.{}", index));
  }

  PatchOrder order_;
  VisionAngles angles_;
  const SegmentPlan& frames_;
  ImageUnits tokens_;

 private:
  const VisionStack& stack_;
};

}  // namespace saccade
