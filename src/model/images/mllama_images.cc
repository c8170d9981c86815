#include "model/images/mllama_images.h"

#include <algorithm>
#include <cmath>

#include "model/images/preprocessor_config.h"
#include "model/towers/tile_tower.h"

namespace saccade {
namespace {

TileTowerSettings one_tile(const MllamaTowerSettings& tower) {
  TileTowerSettings tile;
  tile.image = tower.image;
  tile.patch = tower.patch;
  return tile;
}

}  // namespace

TileArrangement best_arrangement(int width, int height, std::int64_t least, std::int64_t most,
                                 std::int64_t tile) {
  TileArrangement best;
  double best_scale = 0;
  // Growing, the smallest factor is best; else the one that shrinks least.
  const auto better = [](double scale, double than) {
    if ((scale >= 1) != (than >= 1)) return scale >= 1;
    return scale >= 1 ? scale < than : scale > than;
  };
  for (std::int64_t down = 1; down <= most; ++down) {
    for (std::int64_t across = 1; down * across <= most; ++across) {
      const TileArrangement each{down, across};
      if (each.tiles() < least) continue;
      const double by_height = static_cast<double>(down * tile) / height;
      const double by_width = static_cast<double>(across * tile) / width;
      const double scale = std::min(by_height, by_width);
      const bool first = best_scale == 0;
      if (first || better(scale, best_scale) ||
          (scale == best_scale && each.tiles() < best.tiles())) {
        best = each;
        best_scale = scale;
      }
    }
  }
  return best;
}

ImageSize fit_arrangement(int width, int height, const TileArrangement& in, std::int64_t tile) {
  const std::int64_t target_width = std::clamp<std::int64_t>(width, tile, in.across * tile);
  const std::int64_t target_height = std::clamp<std::int64_t>(height, tile, in.down * tile);
  const double by_height = static_cast<double>(target_height) / height;
  const double by_width = static_cast<double>(target_width) / width;
  const auto other = [](int side, double scale, std::int64_t most) {
    const auto scaled = static_cast<std::int64_t>(std::floor(side * scale));
    return static_cast<int>(std::min(std::max<std::int64_t>(scaled, 1), most));
  };
  if (by_width < by_height)
    return {.height = other(height, by_width, target_height),
            .width = static_cast<int>(target_width)};
  return {.height = static_cast<int>(target_height),
          .width = other(width, by_height, target_width)};
}

MllamaImages::MllamaImages(const MllamaTowerSettings& tower, const NormalizeTable& normalize,
                           ResampleFilter filter)
    : ImagePipeline(std::make_shared<TileRows>(one_tile(tower), normalize), filter),
      tiles_(tower.tiles),
      tile_(tower.image),
      side_(tower.side()),
      rows_(tower.rows()) {}

Result<ImageLayout> MllamaImages::layout(int width, int height,
                                         const ImageControls& controls) const {
  TRY_DO(check_processor_kwargs(controls, {}));
  std::int64_t least = 1;
  std::int64_t most = tiles_;
  const std::int64_t pixels = tile_ * tile_;
  if (controls.max_pixels) most = std::clamp<std::int64_t>(*controls.max_pixels / pixels, 1, most);
  if (controls.max_tokens) most = std::clamp<std::int64_t>(*controls.max_tokens / rows_, 1, most);
  if (controls.min_pixels)
    least = std::clamp<std::int64_t>((*controls.min_pixels - 1) / pixels + 1, 1, most);
  const TileArrangement arrangement = best_arrangement(width, height, least, most, tile_);
  ImageLayout layout;
  layout.width = width;
  layout.height = height;
  layout.resized_width = static_cast<int>(arrangement.across * tile_);
  layout.resized_height = static_cast<int>(arrangement.down * tile_);
  layout.grid_t = arrangement.tiles();
  layout.grid_h = layout.grid_w = side_;
  layout.tokens = layout.grid_t * rows_;
  layout.key = fmt::format("{}x{}", arrangement.across, arrangement.down);
  return layout;
}

Pixels MllamaImages::resized(const Pixels& pixels, const ImageLayout& layout,
                             const Cancelled& cancelled) const {
  const TileArrangement arrangement{layout.resized_height / tile_, layout.resized_width / tile_};
  const ImageSize size = fit_arrangement(pixels.width, pixels.height, arrangement, tile_);
  Pixels whole = black_pixels(layout.resized_width, layout.resized_height);
  paste(resize(pixels, size.width, size.height, filter(), cancelled), 0, 0, whole);
  Pixels stacked{static_cast<int>(tile_), 0, {}};
  append_tiles(whole, stacked);
  return stacked;
}

Result<std::unique_ptr<const ImagePipeline>> parse_mllama_images(const json::object& preprocessor,
                                                                 const MllamaTowerSettings& tower) {
  TRY_DO(require_image_steps(preprocessor));
  TRY(const bool pads, json::get_bool_or(preprocessor, "do_pad", true));
  if (!pads) return fail(ErrorCode::kUnsupported, "do_pad false is not supported");
  TRY(const int side, parse_square_size(preprocessor, static_cast<int>(tower.image)));
  TRY(const std::int64_t tiles, json::get_int_or(preprocessor, "max_image_tiles", tower.tiles));
  if (side != tower.image || tiles != tower.tiles)
    return fail(ErrorCode::kUnsupported,
                "the preprocessor makes {} tiles of {} pixels, the tower takes {} of {}", tiles,
                side, tower.tiles, tower.image);
  const NormalizeSettings usual = {
      .rescale = 1.0 / 255, .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
  TRY(const NormalizeTable normalize, parse_normalize(preprocessor, usual));
  TRY(const ResampleFilter filter, parse_resample(preprocessor, ResampleFilter::kBilinear));
  return std::unique_ptr<const ImagePipeline>(
      std::make_unique<const MllamaImages>(tower, normalize, filter));
}

}  // namespace saccade
