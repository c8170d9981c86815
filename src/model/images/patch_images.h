// Images cut into patches at nearly their own size (Qwen2-VL and what came after): how large, and
// the rows.
#pragma once

#include <cstdint>

#include "base/json.h"
#include "base/result.h"
#include "image/normalize.h"
#include "image/patchify.h"
#include "image/pixels.h"
#include "image/smart_resize.h"
#include "model/given/given_layouts.h"
#include "model/images/image_processor.h"
#include "model/images/pixel_bounds.h"

namespace saccade {

// patch_size, merge_size and temporal_patch_size of a preprocessor configuration.
Result<PatchLayout> parse_patches(const json::object& preprocessor);

// preprocessor_config.json of such a family. Immutable; any thread.
class PatchImages final : public ImagePipeline {
 public:
  PatchImages(BoundsOf about, PixelBounds bounds, const PatchLayout& patches,
              const NormalizeTable& normalize, ResampleFilter filter);
  // Reads min_pixels, max_pixels or size.{shortest_edge, longest_edge}, patch_size, merge_size,
  // temporal_patch_size, resample, image_mean, image_std, rescale_factor. Refuses what it cannot
  // honour (do_resize false), naming it. `bounds` where the file has none.
  static Result<PatchImages> parse(const json::object& preprocessor,
                                   BoundsOf about = BoundsOf::kFrame,
                                   PixelBounds bounds = {56 * 56, 28 * 28 * 1280});

  const PatchLayout& patches() const { return patches_; }

  // kInvalid for an aspect ratio over 200, for controls out of range and for kwargs other than
  // min_pixels, max_pixels and size, and those of videos, which change nothing here.
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override;
  Result<ImageLayout> given_layout(const GivenRows& given) const override {
    return lay_out_grid(given, patches_.merge_size);
  }

  std::int64_t max_patches() const override {
    return max_resized_pixels(factor(), (bounds_.min + depth() - 1) / depth(),
                              bounds_.max / depth()) /
           patches_.patch_size / patches_.patch_size;
  }
  std::int64_t max_tokens() const override {
    return max_patches() / patches_.merge_size / patches_.merge_size;
  }

 private:
  Result<PixelBounds> bounds(const ImageControls& controls) const;
  ImageSize within_tokens(ImageSize size, std::int64_t most) const;
  std::int64_t factor() const { return std::int64_t{patches_.patch_size} * patches_.merge_size; }
  // Frames that the bounds are about.
  std::int64_t depth() const {
    return about_ == BoundsOf::kFrame ? 1 : patches_.temporal_patch_size;
  }

  BoundsOf about_;
  PixelBounds bounds_;
  PatchLayout patches_;
};

}  // namespace saccade
