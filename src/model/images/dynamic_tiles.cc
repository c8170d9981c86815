#include "model/images/dynamic_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "model/images/preprocessor_config.h"

namespace saccade {
namespace {

constexpr std::int64_t kMaxTiles = 256;

// By tiles; equals by columns, as transformers lists them. (The original lists equals in the order
// of a Python set. Two of the same number of tiles are never equally near while min_tiles is 1.)
std::vector<TileGrid> grids(const DynamicTilesSettings& settings) {
  std::vector<TileGrid> all;
  for (std::int64_t columns = 1; columns <= settings.max_tiles; ++columns) {
    for (std::int64_t rows = 1; columns * rows <= settings.max_tiles; ++rows) {
      if (columns * rows >= settings.min_tiles) all.push_back({columns, rows});
    }
  }
  std::ranges::stable_sort(all, {}, [](const TileGrid& each) { return each.columns * each.rows; });
  return all;
}

}  // namespace

TileGrid closest_grid(int width, int height, const DynamicTilesSettings& settings) {
  const double aspect = static_cast<double>(width) / height;
  const double area = static_cast<double>(width) * height;
  const double tile_area = static_cast<double>(settings.tile) * settings.tile;
  double nearest = std::numeric_limits<double>::infinity();
  TileGrid best;
  for (const TileGrid& grid : grids(settings)) {
    const double distance =
        std::abs(aspect - static_cast<double>(grid.columns) / static_cast<double>(grid.rows));
    const auto tiles = static_cast<double>(grid.columns * grid.rows);
    if (distance < nearest || (distance == nearest && area > 0.5 * tile_area * tiles)) best = grid;
    nearest = std::min(nearest, distance);
  }
  return best;
}

Result<DynamicTilesSettings> read_tile_counts(const json::object& from,
                                              DynamicTilesSettings settings) {
  bool dynamic = true;
  for (const std::string_view name : {"min_dynamic_patch", "min_patches"}) {
    TRY(settings.min_tiles, json::get_int_or(from, name, settings.min_tiles));
  }
  for (const std::string_view name : {"max_dynamic_patch", "max_patches"}) {
    TRY(settings.max_tiles, json::get_int_or(from, name, settings.max_tiles));
  }
  for (const std::string_view name : {"dynamic_image_size", "crop_to_patches"}) {
    TRY(dynamic, json::get_bool_or(from, name, dynamic));
  }
  if (!dynamic) settings.min_tiles = settings.max_tiles = 1;
  if (settings.min_tiles < 1 || settings.max_tiles > kMaxTiles ||
      settings.min_tiles > settings.max_tiles)
    return fail(ErrorCode::kInvalid, "{} to {} tiles of an image; 1 to {} are possible",
                settings.min_tiles, settings.max_tiles, kMaxTiles);
  return settings;
}

Result<DynamicTilesSettings> DynamicTiles::under(const ImageControls& controls) const {
  TRY_DO(check_processor_kwargs(controls, kTileCountKwargs));
  TRY(DynamicTilesSettings settings,
      of_processor_kwargs(read_tile_counts(controls.processor_kwargs, settings_)));
  const std::int64_t tile_pixels = std::int64_t{settings.tile} * settings.tile;
  if (controls.min_pixels) {
    const std::int64_t tiles = (*controls.min_pixels - 1) / tile_pixels + 1;
    settings.min_tiles = std::clamp(tiles, settings.min_tiles, settings.max_tiles);
  }
  const auto bound = [&](std::int64_t tiles) {
    settings.max_tiles = std::clamp<std::int64_t>(tiles, 1, settings.max_tiles);
    settings.min_tiles = std::min(settings.min_tiles, settings.max_tiles);
  };
  if (controls.max_pixels) bound(*controls.max_pixels / tile_pixels);
  if (controls.max_tokens)
    bound(*controls.max_tokens / settings.tile_tokens - (settings.thumbnail ? 1 : 0));
  return settings;
}

Result<ImageLayout> DynamicTiles::layout(int width, int height,
                                         const ImageControls& controls) const {
  TRY(const DynamicTilesSettings settings, under(controls));
  const TileGrid grid = closest_grid(width, height, settings);
  const std::int64_t tiles = grid.columns * grid.rows;
  ImageLayout layout;
  layout.width = width;
  layout.height = height;
  layout.resized_width = static_cast<int>(grid.columns) * settings.tile;
  layout.resized_height = static_cast<int>(grid.rows) * settings.tile;
  layout.grid_t = tiles + (settings.thumbnail && tiles > 1 ? 1 : 0);
  layout.grid_h = layout.grid_w = tower_.side();
  layout.tokens = layout.grid_t * settings.tile_tokens;
  layout.key = fmt::format("{}x{}", grid.columns, grid.rows);
  return layout;
}

Pixels DynamicTiles::resized(const Pixels& pixels, const ImageLayout& layout,
                             const Cancelled& cancelled) const {
  const int tile = settings_.tile;
  const Pixels whole = ImagePipeline::resized(pixels, layout, cancelled);
  Pixels stacked{tile, 0, {}};
  append_tiles(whole, stacked);
  if (stacked.height < layout.grid_t * tile)
    append_tiles(resize(pixels, tile, tile, filter(), cancelled), stacked);
  return stacked;
}

std::int64_t DynamicTiles::max_tiles() const {
  return settings_.max_tiles + (settings_.thumbnail && settings_.max_tiles > 1 ? 1 : 0);
}

}  // namespace saccade
