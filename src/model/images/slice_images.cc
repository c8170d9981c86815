#include "model/images/slice_images.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "model/images/preprocessor_config.h"

namespace saccade {
namespace {

constexpr std::int64_t kMaxSlices = 256;
constexpr int kMaxAspect = 200;
// Of a slice: that of its image, and what rounding to whole slices adds.
constexpr int kMaxSliceAspect = 256;
constexpr std::int64_t kSquareRows = std::int64_t{kSquarePatches} * kSquarePatches;

// The nearest multiple of `unit`, of two the even one; never none.
int in_units(double length, int unit) {
  return std::max(static_cast<int>(std::nearbyint(length / unit)), 1) * unit;
}

// As large as a square of `scale`, of this aspect, then in whole squares.
ImageSize scaled(double width, double height, const SliceSettings& settings) {
  const double aspect = width / height;
  const auto tall = static_cast<int>(settings.scale / std::sqrt(aspect));
  const auto wide = static_cast<int>(tall * aspect);
  return {in_units(tall, settings.square()), in_units(wide, settings.square())};
}

struct SliceGrid {
  int across = 0;
  int down = 0;
};

// About as many slices as the image is squares of `scale`, in the arrangement whose aspect is the
// nearest to its own by the ratio of both; among equally near ones the first.
SliceGrid choose_grid(int width, int height, const SliceSettings& settings) {
  const double aspect = std::log(static_cast<double>(width) / height);
  const double squares = static_cast<double>(std::int64_t{width} * height) /
                         static_cast<double>(std::int64_t{settings.scale} * settings.scale);
  const std::int64_t most = settings.max_slices;
  const auto about =
      static_cast<std::int64_t>(std::min(std::ceil(squares), static_cast<double>(most)));
  if (!settings.sliced || about <= 1) return {};
  SliceGrid best{1, 1};
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t slices = about - 1; slices <= about + 1; ++slices) {
    if (slices == 1 || slices > most) continue;
    for (std::int64_t across = 1; across <= slices; ++across) {
      if (slices % across != 0) continue;
      const std::int64_t down = slices / across;
      const double error =
          std::abs(aspect - std::log(static_cast<double>(across) / static_cast<double>(down)));
      if (error >= least) continue;
      least = error;
      best = {static_cast<int>(across), static_cast<int>(down)};
    }
  }
  return best;
}

std::int64_t squares_of(const ImageSize& size, const SliceSettings& settings) {
  return std::int64_t{size.width / settings.square()} * (size.height / settings.square());
}

std::int64_t squares_of(const SliceExtents& cut, const SliceSettings& settings) {
  return squares_of(cut.whole, settings) +
         std::int64_t{cut.across} * cut.down * squares_of(cut.slice, settings);
}

}  // namespace

Result<SliceSettings> read_slices(const json::object& from, SliceSettings settings) {
  TRY(settings.max_slices, json::get_int_or(from, "max_slice_nums", settings.max_slices));
  TRY(settings.sliced, json::get_bool_or(from, "slice_mode", settings.sliced));
  if (settings.max_slices < 1 || settings.max_slices > kMaxSlices)
    return fail(ErrorCode::kInvalid, "max_slice_nums is {}, 1 to {} are possible",
                settings.max_slices, kMaxSlices);
  return settings;
}

Result<SliceExtents> slice_extents(int width, int height, const SliceSettings& settings) {
  if (width < 1 || height < 1 ||
      std::max(width, height) > std::int64_t{kMaxAspect} * std::min(width, height))
    return fail(ErrorCode::kInvalid,
                "an image of {}x{} pixels: one side is over {} times the other", width, height,
                kMaxAspect);
  SliceExtents cut;
  cut.whole = scaled(width, height, settings);
  const SliceGrid grid = choose_grid(width, height, settings);
  cut.across = grid.across;
  cut.down = grid.down;
  if (grid.across > 0)
    cut.slice = scaled(static_cast<double>(in_units(width, grid.across)) / grid.across,
                       static_cast<double>(in_units(height, grid.down)) / grid.down, settings);
  return cut;
}

std::int64_t max_squares_of_slice(const SliceSettings& settings) {
  const std::int64_t area = std::int64_t{settings.scale} * settings.scale;
  std::int64_t most = 1;
  for (int tall = 1; tall <= settings.scale * static_cast<int>(std::sqrt(kMaxSliceAspect));
       ++tall) {
    const std::int64_t wide = std::min(area / tall, std::int64_t{kMaxSliceAspect} * tall);
    const ImageSize size{in_units(tall, settings.square()),
                         in_units(static_cast<double>(wide), settings.square())};
    most = std::max(most, squares_of(size, settings));
  }
  return most;
}

PatchPlace SquareRows::place(const Pixels& /*pixels*/, std::int64_t row) const {
  constexpr int kHalf = kSquarePatches / 2;
  const auto square = static_cast<int>(row / kSquareRows);
  const auto quarter = static_cast<int>(row % kSquareRows) / (kHalf * kHalf);
  const auto patch = static_cast<int>(row % (kHalf * kHalf));
  const int y = quarter / kHalf * kHalf + patch / kHalf;
  const int x = quarter % kHalf * kHalf + patch % kHalf;
  return {(square * kSquarePatches + y) * layout().patch_size, x * layout().patch_size};
}

Result<ImageLayout> SliceImages::layout(int width, int height,
                                        const ImageControls& controls) const {
  TRY_DO(check_processor_kwargs(controls, kSliceKwargs));
  TRY(SliceSettings settings,
      of_processor_kwargs(read_slices(controls.processor_kwargs, settings_)));
  TRY(SliceExtents cut, slice_extents(width, height, settings));
  const auto too_large = [&] {
    const std::int64_t pixels =
        std::int64_t{cut.across} * cut.down * cut.slice.width * cut.slice.height;
    return (controls.max_pixels && pixels > *controls.max_pixels) ||
           (controls.max_tokens &&
            squares_of(cut, settings) * settings.square_tokens > *controls.max_tokens);
  };
  while (too_large() && settings.max_slices > 1) {
    --settings.max_slices;
    TRY(cut, slice_extents(width, height, settings));
  }
  ImageLayout layout;
  layout.width = width;
  layout.height = height;
  layout.first_width = cut.whole.width;
  layout.first_height = cut.whole.height;
  layout.slices_across = cut.across;
  layout.slices_down = cut.down;
  layout.resized_width = cut.across > 0 ? cut.across * cut.slice.width : cut.whole.width;
  layout.resized_height = cut.across > 0 ? cut.down * cut.slice.height : cut.whole.height;
  layout.grid_h = squares_of(cut, settings);
  layout.grid_w = kSquareRows;
  layout.tokens = layout.grid_h * settings.square_tokens;
  layout.key = fmt::format("{}x{} {}x{} {}x{}", cut.whole.width, cut.whole.height, cut.across,
                           cut.down, cut.slice.width, cut.slice.height);
  return layout;
}

Pixels SliceImages::resized(const Pixels& pixels, const ImageLayout& layout,
                            const Cancelled& cancelled) const {
  Pixels strip{settings_.square(), 0, {}};
  append_tiles(resize(pixels, layout.first_width, layout.first_height, filter(), cancelled), strip);
  if (layout.slices_across == 0) return strip;
  const Pixels refined = ImagePipeline::resized(pixels, layout, cancelled);
  const int wide = layout.resized_width / layout.slices_across;
  const int tall = layout.resized_height / layout.slices_down;
  for (int y = 0; y < refined.height; y += tall) {
    for (int x = 0; x < refined.width; x += wide)
      append_tiles(crop(refined, x, y, wide, tall), strip);
  }
  return strip;
}

Result<ImageLayout> SliceVideos::layout(int width, int height,
                                        const VideoControls& controls) const {
  TRY_DO(check_frames(controls));
  if (controls.total_pixels)
    return fail(Error{ErrorCode::kInvalid,
                      fmt::format("total_pixels is {}: a frame's size follows from it alone; "
                                  "max_pixels bounds its slices",
                                  *controls.total_pixels),
                      "total_pixels"});
  TRY(ImageLayout layout, images_.layout(width, height, controls.frame));
  layout.frames = controls.frames;
  layout.fps = controls.fps;
  layout.seconds = controls.seconds;
  layout.duration = controls.duration;
  layout.grid_t = controls.frames;
  layout.group_tokens = layout.tokens;
  layout.tokens *= controls.frames;
  layout.key = "frame " + layout.key;
  return layout;
}

PreparedImage SliceVideos::group(std::vector<Pixels> resized, const ImageLayout& video) const {
  const auto frames = static_cast<std::int64_t>(resized.size());
  return {group_layout(video, frames), std::move(resized), images_.cutter()};
}

}  // namespace saccade
