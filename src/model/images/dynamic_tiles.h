// Images in a grid of square tiles whose aspect is the nearest to theirs, and a thumbnail: dynamic
// high resolution (InternVL 1.5, arXiv:2404.16821; OpenGVLab/InternVL's dynamic_preprocess).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "model/given/given_layouts.h"
#include "model/images/image_processor.h"
#include "model/towers/tile_tower.h"

namespace saccade {

// What mm_processor_kwargs may say of them.
inline constexpr std::array<std::string_view, 6> kTileCountKwargs = {
    "min_dynamic_patch", "max_dynamic_patch", "dynamic_image_size",
    "min_patches",       "max_patches",       "crop_to_patches"};

struct DynamicTilesSettings {
  int tile = 448;  // pixels a side
  // Of the grid, without the thumbnail.
  std::int64_t min_tiles = 1;
  std::int64_t max_tiles = 12;
  bool thumbnail = true;           // the whole image as one more tile, after a grid of several
  std::int64_t tile_tokens = 256;  // embedding rows of a tile
};

struct TileGrid {
  std::int64_t columns = 1;
  std::int64_t rows = 1;
  bool operator==(const TileGrid&) const = default;
};

// Of all grids of min_tiles to max_tiles tiles, the one whose columns / rows is nearest to width /
// height. Among equally near ones a larger grid wins if the image has over half of its pixels.
TileGrid closest_grid(int width, int height, const DynamicTilesSettings& settings);

// Tiles row by row, the thumbnail last.
class DynamicTiles final : public ImagePipeline {
 public:
  DynamicTiles(DynamicTilesSettings settings, TileTowerSettings tower,
               const NormalizeTable& normalize, ResampleFilter filter)
      : ImagePipeline(std::make_shared<TileRows>(tower, normalize), filter),
        settings_(settings),
        tower_(std::move(tower)) {}

  // max_pixels bounds the grid's pixels, max_tokens all tiles' tokens; one tile is the least.
  // mm_processor_kwargs: min_dynamic_patch, max_dynamic_patch and dynamic_image_size, or
  // transformers' min_patches, max_patches and crop_to_patches.
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override;
  Result<ImageLayout> given_layout(const GivenRows& given) const override {
    return lay_out_tiles(given, settings_.tile_tokens);
  }
  Pixels resized(const Pixels& pixels, const ImageLayout& layout,
                 const Cancelled& cancelled) const override;
  std::int64_t max_patches() const override { return max_tiles() * tower_.patches(); }
  std::int64_t max_tokens() const override { return max_tiles() * settings_.tile_tokens; }

 private:
  std::int64_t max_tiles() const;
  Result<DynamicTilesSettings> under(const ImageControls& controls) const;

  DynamicTilesSettings settings_;
  TileTowerSettings tower_;
};

// min_dynamic_patch, max_dynamic_patch, dynamic_image_size (or transformers' names) of `from` over
// `settings`. kInvalid for counts outside [1, 256] and for a minimum over the maximum.
Result<DynamicTilesSettings> read_tile_counts(const json::object& from,
                                              DynamicTilesSettings settings);

}  // namespace saccade
