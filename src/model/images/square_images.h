// Images squeezed to one square, whatever their shape: all have as many patches and rows.
#pragma once

#include <cstdint>

#include "base/json.h"
#include "base/result.h"
#include "image/normalize.h"
#include "model/given/given_layouts.h"
#include "model/images/image_processor.h"
#include "model/towers/tile_tower.h"

namespace saccade {

class SquareImages final : public ImagePipeline {
 public:
  // `tokens`: rows of an image.
  SquareImages(const TileTowerSettings& tower, std::int64_t tokens, const NormalizeTable& normalize,
               ResampleFilter filter);
  // preprocessor_config.json; `normalize` and `filter` where it is silent. kInvalid where it and
  // the tower are not of one size.
  static Result<SquareImages> parse(const json::object& preprocessor,
                                    const TileTowerSettings& tower, std::int64_t tokens,
                                    const NormalizeSettings& normalize, ResampleFilter filter);

  // There is one size: bounds of pixels and tokens change nothing.
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override;
  Result<ImageLayout> given_layout(const GivenRows& given) const override {
    return lay_out_alike(given, tokens_);
  }
  std::int64_t max_patches() const override { return patches_side_ * patches_side_; }
  std::int64_t max_tokens() const override { return tokens_; }

 private:
  int side_;  // pixels
  std::int64_t patches_side_;
  std::int64_t tokens_;
};

}  // namespace saccade
