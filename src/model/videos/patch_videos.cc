#include "model/videos/patch_videos.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/images/patch_images.h"
#include "model/images/preprocessor_config.h"
#include "model/towers/patch_rows.h"

namespace saccade {
namespace {

// What the frames of a video have together, shared evenly: the most pixels of one, but never so few
// that none fits.
std::int64_t even_share(std::int64_t total, std::int64_t frames_per_grid, std::int64_t frames,
                        PixelBounds bounds) {
  const auto least = static_cast<std::int64_t>(static_cast<double>(bounds.min) * 1.05);
  return std::max(std::min(bounds.max, total * frames_per_grid / frames), least);
}

// total_pixels of a request: what the tokens of a whole video stand for.
Result<std::optional<std::int64_t>> total_pixels(const VideoControls& controls) {
  const json::object& kwargs = controls.frame.processor_kwargs;
  std::optional<std::int64_t> total = controls.total_pixels;
  if (!total && json::find(kwargs, "total_pixels") != nullptr) {
    TRY(total, json::get_int(kwargs, "total_pixels"));
  }
  if (total) TRY_DO(pixel_count("total_pixels", *total));
  return total;
}

}  // namespace

Result<PatchVideos> PatchVideos::parse(const json::object& preprocessor,
                                       const VideoDefaults& defaults) {
  TRY_DO(require_image_steps(preprocessor));
  PatchVideos videos;
  TRY(videos.filter_, parse_resample(preprocessor, ResampleFilter::kBicubic));
  videos.about_ = defaults.about;
  TRY(videos.bounds_, read_pixel_bounds(preprocessor, defaults.bounds));
  TRY(videos.patches_, parse_patches(preprocessor));
  TRY(const NormalizeTable normalize, parse_normalize(preprocessor, defaults.normalize));
  TRY(videos.sampling_, FrameSampling::parse(preprocessor, defaults.sampling,
                                             videos.patches_.temporal_patch_size, defaults.frames));
  videos.cutter_ = std::make_shared<PatchRows>(videos.patches_, normalize);
  TRY(videos.capped_, json::get_bool_or(preprocessor, "cap_pixels_per_frame", false));
  TRY(videos.max_video_tokens_,
      json::get_int_or(preprocessor, "max_video_tokens", defaults.max_video_tokens));
  if (videos.max_video_tokens_ < 1 || videos.max_video_tokens_ > kMaxPixels)
    return fail(ErrorCode::kInvalid, "max_video_tokens is {}", videos.max_video_tokens_);
  return videos;
}

Result<bool> PatchVideos::capped(const VideoControls& controls) const {
  return json::get_bool_or(controls.frame.processor_kwargs, "cap_pixels_per_frame", capped_);
}

std::int64_t PatchVideos::counted_frames(const VideoControls& controls) const {
  return std::max<std::int64_t>(controls.frames, patches_.temporal_patch_size);
}

Result<PixelBounds> PatchVideos::frame_bounds(const VideoControls& controls) const {
  TRY(PixelBounds bounds, moved_pixel_bounds(controls.frame, bounds_));
  TRY(const bool cap, capped(controls));
  if (cap) {
    const double budget = static_cast<double>(max_video_tokens_ * factor() * factor()) * 0.9;
    bounds.max = even_share(static_cast<std::int64_t>(budget), patches_.temporal_patch_size,
                            controls.frames, bounds);
  }
  TRY(const std::optional<std::int64_t> total, total_pixels(controls));
  if (total) bounds.max = even_share(*total, patches_.temporal_patch_size, controls.frames, bounds);
  return bounds;
}

Result<PixelBounds> PatchVideos::volume_bounds(const VideoControls& controls) const {
  TRY(PixelBounds bounds, moved_pixel_bounds(controls.frame, bounds_));
  const std::int64_t frames = counted_frames(controls);
  TRY(const bool cap, capped(controls));
  if (cap) {
    const std::int64_t of_frame =
        std::min(max_video_tokens_ * factor() * factor(), bounds.max / frames);
    const auto least = static_cast<std::int64_t>(static_cast<double>(bounds.min) * 1.05);
    bounds.max = std::max(of_frame, least) * frames;
  }
  TRY(const std::optional<std::int64_t> total, total_pixels(controls));
  if (total)
    bounds.max = std::max(bounds.min, std::min(bounds.max, *total * patches_.temporal_patch_size));
  return bounds;
}

Result<ImageSize> PatchVideos::frame_size(int width, int height,
                                          const VideoControls& controls) const {
  TRY_DO(check_processor_kwargs(controls.frame, kPixelKwargs));
  if (about_ == BoundsOf::kFrame) {
    TRY(const PixelBounds limits, frame_bounds(controls));
    return smart_resize(height, width, factor(), limits.min, limits.max);
  }
  TRY(const PixelBounds limits, volume_bounds(controls));
  return smart_resize_volume(
      {counted_frames(controls), patches_.temporal_patch_size, height, width}, factor(), limits.min,
      limits.max);
}

Result<ImageLayout> PatchVideos::layout(int width, int height,
                                        const VideoControls& controls) const {
  TRY_DO(check_frames(controls));
  TRY(const ImageSize size, frame_size(width, height, controls));
  const std::int64_t depth = patches_.temporal_patch_size;
  ImageLayout layout;
  layout.width = width;
  layout.height = height;
  layout.resized_width = size.width;
  layout.resized_height = size.height;
  layout.frames = controls.frames;
  layout.fps = controls.fps;
  layout.seconds = controls.seconds;
  layout.grid_t = (controls.frames + depth - 1) / depth;
  layout.grid_h = size.height / patches_.patch_size;
  layout.grid_w = size.width / patches_.patch_size;
  layout.tokens =
      layout.grid_t * layout.grid_h * layout.grid_w / (patches_.merge_size * patches_.merge_size);
  layout.key = fmt::format("{}x{}", size.width, size.height);
  return layout;
}

std::int64_t PatchVideos::max_patches() const {
  // The fewer frames share a volume, the larger they are.
  const std::int64_t sharing = about_ == BoundsOf::kFrame ? 1 : patches_.temporal_patch_size;
  return max_resized_pixels(factor(), bounds_.min / sharing, bounds_.max / sharing) /
         patches_.patch_size / patches_.patch_size;
}

Pixels PatchVideos::resized(const Pixels& frame, const ImageLayout& video,
                            const Cancelled& cancelled) const {
  return resize(frame, video.resized_width, video.resized_height, filter_, cancelled);
}

PreparedImage PatchVideos::group(std::vector<Pixels> resized, const ImageLayout& video) const {
  const auto frames = static_cast<std::int64_t>(resized.size());
  return {group_layout(video, frames), std::move(resized), cutter_};
}

}  // namespace saccade
