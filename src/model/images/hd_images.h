// Phi-3-vision's HD transform: an image of any shape, padded with white to whole tiles
// (InternLM-XComposer2-4KHD, arXiv:2404.06512; processing_phi3_v.py of the checkpoints).
//
// The image lies on its longer side, becomes as many tiles wide as leave it within num_crops tiles,
// is padded above and below, and is turned back. The whole image, which comes first among the
// tiles, is made from them and not from the original: bicubically, without antialiasing, in
// floating point.
#pragma once

#include <cstdint>

#include "model/given/given_layouts.h"
#include "model/images/image_processor.h"
#include "model/towers/tile_tower.h"

namespace saccade {

constexpr std::int64_t kMaxCrops = 1024;

// Where an image ends up. On its side: a portrait is turned, so that width >= height.
struct HdExtents {
  bool on_side = false;
  int width = 0;  // resized, on its side; whole tiles
  int height = 0;
  int across = 0;  // tiles, upright
  int down = 0;
};

// The rows are of the whole image as one tile, then of its tiles, row by row. Four patches are a
// token; a separator follows each row of tokens and stands between the views.
class HdImages final : public ImagePipeline {
 public:
  HdImages(TileTowerSettings tower, std::int64_t crops, const NormalizeTable& normalize);

  // num_crops may be asked for; max_pixels and max_tokens leave fewer tiles, at least one. kInvalid
  // for an image so thin that nothing of it is left.
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override;
  Result<ImageLayout> given_layout(const GivenRows& given) const override {
    return lay_out_rows(given);
  }
  // The padded image, tiles in their places.
  Pixels resized(const Pixels& pixels, const ImageLayout& layout,
                 const Cancelled& cancelled) const override;
  std::int64_t max_patches() const override { return (crops_ + 1) * tower_.patches(); }
  // Of tiles that stand below each other: most rows, and a separator for each.
  std::int64_t max_tokens() const override {
    return tokens_of({.across = 1, .down = static_cast<int>(crops_)});
  }

 private:
  int tile() const { return static_cast<int>(tower_.image); }
  std::int64_t tokens_of(const HdExtents& hd) const;

  TileTowerSettings tower_;
  std::int64_t crops_;
};

}  // namespace saccade
