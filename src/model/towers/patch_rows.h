// Rows of images that are cut at nearly their own size: Qwen's squares that merge.
#pragma once

#include <cstdint>
#include <span>

#include "image/patchify.h"
#include "model/images/prepared_image.h"

namespace saccade {

class PatchRows final : public PatchCutter {
 public:
  PatchRows(const PatchLayout& layout, const NormalizeTable& normalize)
      : layout_(layout), normalize_(normalize) {}
  std::int64_t row_length() const override { return layout_.row_length(); }
  void cut(std::span<const Pixels> frames, std::int64_t begin, std::int64_t end,
           std::span<float> to) const override {
    patchify_rows(frames, layout_, normalize_, begin, end, to);
  }

 private:
  PatchLayout layout_;
  NormalizeTable normalize_;
};

}  // namespace saccade
