// Images of Llama 3.2 Vision: scaled into an arrangement of square tiles, at the top left of it,
// with black around; a tile is never made smaller than it is.
#pragma once

#include <cstdint>
#include <memory>

#include "base/json.h"
#include "base/result.h"
#include "image/normalize.h"
#include "image/smart_resize.h"
#include "model/given/given_layouts.h"
#include "model/images/image_processor.h"
#include "model/towers/mllama_tower.h"

namespace saccade {

struct TileArrangement {
  std::int64_t down = 1;
  std::int64_t across = 1;
  std::int64_t tiles() const { return down * across; }
};

// The one of `least` to `most` tiles that the image has to grow least for, or if it fits none,
// shrink least; of equals the smallest. get_optimal_tiled_canvas of the reference.
TileArrangement best_arrangement(int width, int height, std::int64_t least, std::int64_t most,
                                 std::int64_t tile);

// The image's own size inside the arrangement. get_image_size_fit_to_canvas of the reference.
ImageSize fit_arrangement(int width, int height, const TileArrangement& in, std::int64_t tile);

class MllamaImages final : public ImagePipeline {
 public:
  MllamaImages(const MllamaTowerSettings& tower, const NormalizeTable& normalize,
               ResampleFilter filter);

  // Bounds of pixels and tokens leave fewer tiles, one at the least, or more.
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override;
  Result<ImageLayout> given_layout(const GivenRows& given) const override {
    return lay_out_tiles(given, rows_);
  }
  Pixels resized(const Pixels& pixels, const ImageLayout& layout,
                 const Cancelled& cancelled) const override;
  std::int64_t max_patches() const override { return tiles_ * side_ * side_; }
  std::int64_t max_tokens() const override { return tiles_ * rows_; }

 private:
  std::int64_t tiles_;
  std::int64_t tile_;
  std::int64_t side_;
  std::int64_t rows_;
};

// preprocessor_config.json. kUnsupported where it and the tower are not of one size.
Result<std::unique_ptr<const ImagePipeline>> parse_mllama_images(const json::object& preprocessor,
                                                                 const MllamaTowerSettings& tower);

}  // namespace saccade
