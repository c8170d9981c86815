#include "model/images/hd_images.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "image/exif.h"
#include "image/patchify.h"
#include "model/images/preprocessor_config.h"
#include "model/images/square_cutter.h"
#include "model/towers/position_grid.h"

namespace saccade {
namespace {

// `long_tiles` tiles along the longer side.
HdExtents hd_extents(int width, int height, std::int64_t long_tiles, int tile) {
  HdExtents hd;
  hd.on_side = width < height;
  if (hd.on_side) std::swap(width, height);
  const double ratio = static_cast<double>(width) / height;
  hd.width = static_cast<int>(long_tiles) * tile;
  hd.height = static_cast<int>(hd.width / ratio);
  hd.across = static_cast<int>(long_tiles);
  hd.down = (hd.height + tile - 1) / tile;
  if (hd.on_side) std::swap(hd.across, hd.down);
  return hd;
}

// The most tiles along the longer side that make at most `crops` together.
std::int64_t max_long_tiles(int width, int height, std::int64_t crops) {
  const double ratio = static_cast<double>(std::max(width, height)) / std::min(width, height);
  std::int64_t tiles = 1;
  const auto total = [ratio](std::int64_t side) {
    return static_cast<double>(side) * std::ceil(static_cast<double>(side) / ratio);
  };
  while (total(tiles + 1) <= static_cast<double>(crops)) ++tiles;
  return tiles;
}

// White above and below, to `height` rows.
Pixels padded_to_height(const Pixels& from, int height) {
  Pixels to = black_pixels(from.width, height);
  std::ranges::fill(to.rgb, std::uint8_t{255});
  paste(from, 0, (height - from.height) / 2, to);
  return to;
}

std::vector<CubicTaps> taps_along(int from, int to) {
  std::vector<CubicTaps> taps;
  for (int i = 0; i < to; ++i) taps.push_back(cubic_taps(i, from, to));
  return taps;
}

float interpolated(const Pixels& from, const CubicTaps& down, const CubicTaps& across,
                   std::size_t channel, const std::array<float, 256>& values) {
  float sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t line =
        static_cast<std::size_t>(down.at[i]) * static_cast<std::size_t>(from.width);
    float row = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t at = (line + static_cast<std::size_t>(across.at[k])) * 3 + channel;
      row += values[from.rgb[at]] * across.weight[k];
    }
    sum += row * down.weight[i];
  }
  return sum;
}

// Tiles in their places in one padded image, and first of all that image scaled to one tile.
class HdRows final : public SquareCutter {
 public:
  HdRows(const TileTowerSettings& tower, const NormalizeTable& normalize)
      : SquareCutter({.patch_size = static_cast<int>(tower.patch),
                      .merge_size = 1,
                      .temporal_patch_size = 1},
                     normalize),
        tile_(static_cast<int>(tower.image)),
        side_(static_cast<int>(tower.side())) {}

  void cut(std::span<const Pixels> frames, std::int64_t begin, std::int64_t end,
           std::span<float> to) const override {
    const std::int64_t of_whole = std::clamp<std::int64_t>(patches() - begin, 0, end - begin);
    if (of_whole > 0) cut_whole(frames.front(), begin, begin + of_whole, to.data());
    SquareCutter::cut(frames, begin + of_whole, end,
                      to.subspan(static_cast<std::size_t>(of_whole * row_length())));
  }
  // The whole image is interpolated between numbers.
  const SquareCutter* squares(std::int64_t begin) const override {
    return begin < patches() ? nullptr : this;
  }

  PatchPlace place(const Pixels& pixels, std::int64_t row) const override {
    const int across = pixels.width / tile_;
    const auto tile = static_cast<int>(row / patches()) - 1;
    const auto patch = static_cast<int>(row % patches());
    return {tile / across * tile_ + patch / side_ * layout().patch_size,
            tile % across * tile_ + patch % side_ * layout().patch_size};
  }

 private:
  std::int64_t patches() const { return std::int64_t{side_} * side_; }  // of a tile
  void cut_whole(const Pixels& from, std::int64_t begin, std::int64_t end, float* row) const {
    const std::vector<CubicTaps> across = taps_along(from.width, tile_);
    const std::vector<CubicTaps> down = taps_along(from.height, tile_);
    const int patch = layout().patch_size;
    for (std::int64_t r = begin; r < end; ++r) {
      const auto top = static_cast<std::size_t>(r / side_ * patch);
      const auto left = static_cast<std::size_t>(r % side_ * patch);
      for (std::size_t c = 0; c < 3; ++c) {
        const auto& values = normalize().channel(static_cast<int>(c));
        for (std::size_t y = top; y < top + static_cast<std::size_t>(patch); ++y)
          for (std::size_t x = left; x < left + static_cast<std::size_t>(patch); ++x)
            *row++ = interpolated(from, down[y], across[x], c, values);
      }
    }
  }

  int tile_;  // pixels a side
  int side_;  // patches a side
};

}  // namespace

HdImages::HdImages(TileTowerSettings tower, std::int64_t crops, const NormalizeTable& normalize)
    : ImagePipeline(std::make_shared<HdRows>(tower, normalize), ResampleFilter::kBilinear),
      tower_(std::move(tower)),
      crops_(crops) {}

Result<ImageLayout> HdImages::layout(int width, int height, const ImageControls& controls) const {
  TRY_DO(check_processor_kwargs(controls, std::array<std::string_view, 1>{"num_crops"}));
  TRY(std::int64_t crops, json::get_int_or(controls.processor_kwargs, "num_crops", crops_));
  if (crops < 1 || crops > kMaxCrops)
    return fail(ErrorCode::kInvalid, "num_crops is {}, 1 to {} is possible", crops, kMaxCrops);
  if (controls.max_pixels)
    crops = std::clamp<std::int64_t>(*controls.max_pixels / (tile() * tile()), 1, crops);
  std::int64_t tiles = max_long_tiles(width, height, crops);
  while (controls.max_tokens && tiles > 1 &&
         tokens_of(hd_extents(width, height, tiles, tile())) > *controls.max_tokens)
    --tiles;
  const HdExtents hd = hd_extents(width, height, tiles, tile());
  if (hd.height < 1)
    return fail(ErrorCode::kInvalid,
                "an image of {}x{} pixels has no pixel on its shorter side where the longer has "
                "{} tiles of {}",
                width, height, tiles, tile());
  ImageLayout layout;
  layout.width = width;
  layout.height = height;
  layout.resized_width = hd.across * tile();
  layout.resized_height = hd.down * tile();
  layout.grid_t = 1 + std::int64_t{hd.across} * hd.down;
  layout.grid_h = layout.grid_w = tower_.side();
  layout.tokens = tokens_of(hd);
  layout.key = fmt::format("{}x{}", layout.resized_width, layout.resized_height);
  return layout;
}

Pixels HdImages::resized(const Pixels& pixels, const ImageLayout& layout,
                         const Cancelled& cancelled) const {
  const std::int64_t tiles = std::max(layout.resized_width, layout.resized_height) / tile();
  const HdExtents hd = hd_extents(layout.width, layout.height, tiles, tile());
  const int height = std::min(layout.resized_width, layout.resized_height);
  const auto resized_padded = [&](const Pixels& from) {
    return padded_to_height(resize(from, hd.width, hd.height, filter(), cancelled), height);
  };
  if (!hd.on_side) return resized_padded(pixels);
  constexpr Orientation kTransposed = Orientation::kLeftTop;
  const Result<Pixels> on_side = turned(pixels, kTransposed, cancelled);
  if (!on_side) return {};
  return turned(resized_padded(*on_side), kTransposed, {}).value();
}

std::int64_t HdImages::tokens_of(const HdExtents& hd) const {
  const std::int64_t side = tower_.side() / 2;
  return (std::int64_t{hd.across} * hd.down + 1) * side * side + 1 + (hd.down + 1) * side;
}

}  // namespace saccade
