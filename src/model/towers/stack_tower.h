// A tower of VisionStack's blocks over rows that are cut from pixels.
#pragma once

#include <cstddef>

#include "model/blocks/scratch.h"
#include "model/towers/patch_steps.h"
#include "model/towers/vision_stack.h"
#include "model/towers/vision_tower.h"

namespace saccade {

class StackTower : public VisionTower {
 public:
  void set_compute(DType compute) override { stack_.set_compute(compute); }
  std::size_t scratch_bytes() const override { return memory_.bytes(); }

 protected:
  explicit StackTower(const VisionStackSettings& settings) : stack_(settings) {}

  Scratch memory_;
  VisionStack stack_;
  PatchCut cut_;
  View hidden_;  // [rows of a run, embed]
};

}  // namespace saccade
