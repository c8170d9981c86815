// Rows of images that are cut at nearly their own size: Qwen's squares that merge.
#pragma once

#include <cstdint>

#include "image/patchify.h"
#include "model/images/square_cutter.h"

namespace saccade {

class PatchRows final : public SquareCutter {
 public:
  using SquareCutter::SquareCutter;
  PatchPlace place(const Pixels& pixels, std::int64_t row) const override {
    const PatchCorner corner = patch_corner(layout(), pixels.width, row);
    return {corner.top, corner.left};
  }
};

}  // namespace saccade
