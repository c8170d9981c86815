#include "model/videos/tile_videos.h"

#include <utility>

#include "image/smart_resize.h"
#include "model/images/preprocessor_config.h"

namespace saccade {

const json::object& video_preprocessor(const Checkpoint& checkpoint) {
  return checkpoint.video_preprocessor.empty() ? checkpoint.preprocessor
                                               : checkpoint.video_preprocessor;
}

Result<void> check_frame_size(int pixels, int tile) {
  if (pixels == tile) return {};
  return fail(
      ErrorCode::kInvalid,
      "the video preprocessor's configuration makes frames of {} pixels, vision_config of {}",
      pixels, tile);
}

Result<ImageLayout> TileVideos::layout(int width, int height, const VideoControls& controls) const {
  TRY_DO(check_frames(controls));
  TRY_DO(check_processor_kwargs(controls.frame, settings_.kwargs));
  if (controls.total_pixels)
    return fail(
        Error{ErrorCode::kInvalid,
              fmt::format("total_pixels is {}: every frame is {}x{} pixels to {}",
                          *controls.total_pixels, settings_.tile, settings_.tile, settings_.name),
              "total_pixels"});
  const int tile = settings_.tile;
  ImageLayout layout;
  layout.width = width;
  layout.height = height;
  layout.resized_width = layout.resized_height = tile;
  const bool done = controls.resized && width == tile && height == tile;
  if (settings_.longest > 0 && !done) {
    TRY(const int longest,
        parse_longest_edge(controls.frame.processor_kwargs, "size", settings_.longest));
    const ImageSize first = fit_longest(height, width, longest);
    layout.first_width = first.width;
    layout.first_height = first.height;
  }
  layout.frames = controls.frames;
  layout.fps = controls.fps;
  layout.seconds = controls.seconds;
  layout.duration = controls.duration;
  layout.grid_t = controls.frames;
  layout.grid_h = layout.grid_w = settings_.side;
  layout.tokens = controls.frames * settings_.frame_tokens + settings_.closing_tokens;
  layout.group_tokens = settings_.frame_tokens + settings_.closing_tokens;
  layout.key = fmt::format("frame {}x{} {}", layout.first_width, layout.first_height, tile);
  return layout;
}

Pixels TileVideos::resized(const Pixels& frame, const ImageLayout& video,
                           const Cancelled& cancelled) const {
  const int tile = settings_.tile;
  if (video.first_width == 0) return resize(frame, tile, tile, settings_.filter, cancelled);
  const Pixels first =
      resize(frame, video.first_width, video.first_height, settings_.filter, cancelled);
  return resize(first, tile, tile, settings_.filter, cancelled);
}

PreparedImage TileVideos::group(std::vector<Pixels> resized, const ImageLayout& video) const {
  const auto frames = static_cast<std::int64_t>(resized.size());
  return {group_layout(video, frames), std::move(resized), cutter_};
}

}  // namespace saccade
