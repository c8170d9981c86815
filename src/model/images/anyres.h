// Images of any shape in square tiles: the pinpoints, padding and newlines of LLaVA-NeXT and
// LLaVA-OneVision (arXiv:2408.03326; transformers' image_processing_utils and llava_onevision).
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/given/given_layouts.h"
#include "model/images/image_processor.h"
#include "model/towers/tile_tower.h"

namespace saccade {

struct ImageExtent {
  int height = 0;
  int width = 0;
  bool operator==(const ImageExtent&) const = default;
};

// Of an image whose tiles cover `best` pixels: features of the tiles put side by side, without what
// only padding made, scaled down when there are too many.
struct AnyresFeatures {
  std::int64_t across = 0;    // features a row of the joined tiles
  std::int64_t top = 0;       // the first that is kept
  std::int64_t left = 0;      //
  std::int64_t rows = 0;      // kept
  std::int64_t columns = 0;   //
  std::int64_t out_rows = 0;  // after scaling down; equal to rows and columns where there is none
  std::int64_t out_columns = 0;
};

struct AnyresSettings {
  int tile = 384;                      // pixels a side
  std::int64_t side = 27;              // features a side of a tile
  std::int64_t max_tiles = 9;          // anyres_max_N: features of more tiles are scaled down
  std::vector<ImageExtent> pinpoints;  // what the tiles may cover together
};

// The pinpoint that keeps most of the image's pixels; among equals the one with the smallest waste.
ImageExtent best_pinpoint(ImageExtent original, const std::vector<ImageExtent>& pinpoints);
// The image inside `target`, its aspect kept.
ImageExtent fit_inside(ImageExtent original, ImageExtent target);
AnyresFeatures anyres_features(ImageExtent original, ImageExtent best,
                               const AnyresSettings& settings);

// The whole image as one tile, then the tiles of the padded one, row by row.
class AnyresImages final : public ImagePipeline {
 public:
  AnyresImages(AnyresSettings settings, TileTowerSettings tower, const NormalizeTable& normalize,
               ResampleFilter filter)
      : ImagePipeline(std::make_shared<TileRows>(tower, normalize), filter),
        settings_(std::move(settings)),
        tower_(std::move(tower)) {}

  // min_pixels leaves the pinpoints that reach it, or else the largest; max_pixels and max_tokens
  // those that hold them, or else the smallest. mm_processor_kwargs: image_grid_pinpoints.
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override;
  Result<ImageLayout> given_layout(const GivenRows& given) const override {
    return lay_out_rows(given);
  }
  Pixels resized(const Pixels& pixels, const ImageLayout& layout,
                 const Cancelled& cancelled) const override;
  std::int64_t max_patches() const override;
  std::int64_t max_tokens() const override;

 private:
  ImageLayout layout_for(ImageExtent original, ImageExtent best) const;

  AnyresSettings settings_;
  TileTowerSettings tower_;
};

// All pairs of one to six tiles.
std::vector<ImageExtent> every_pinpoint(int tile);
// image_grid_pinpoints: (height, width) pairs, multiples of the tile. `fallback` where there are
// none.
Result<std::vector<ImageExtent>> parse_pinpoints(const json::object& from, int tile,
                                                 const std::vector<ImageExtent>& fallback);

}  // namespace saccade
