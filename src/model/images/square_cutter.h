// Cutters whose rows are squares of pixels: on the host, or by a device that is told where they
// lie.
#pragma once

#include <cstdint>
#include <span>

#include "image/normalize.h"
#include "image/patchify.h"
#include "model/images/prepared_image.h"
#include "ops/patch_place.h"

namespace saccade {

// Rows are [3, frames of one row, side, side].
class SquareCutter : public PatchCutter {
 public:
  SquareCutter(const PatchLayout& layout, const NormalizeTable& normalize)
      : layout_(layout), normalize_(normalize) {}

  std::int64_t row_length() const final { return layout_.row_length(); }
  void cut(std::span<const Pixels> frames, std::int64_t begin, std::int64_t end,
           std::span<float> to) const override;
  const SquareCutter* squares(std::int64_t /*begin*/) const override { return this; }

  // Of row `row` of an image of such pixels.
  virtual PatchPlace place(const Pixels& pixels, std::int64_t row) const = 0;
  const PatchLayout& layout() const { return layout_; }
  const NormalizeTable& normalize() const { return normalize_; }

 private:
  PatchLayout layout_;
  NormalizeTable normalize_;
};

}  // namespace saccade
