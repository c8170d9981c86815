// Videos cut into patches at nearly their own size (Qwen2-VL, Qwen2.5-VL, Qwen3-VL, GLM-4.1V): how
// large their frames become, and the rows of a group of frames. Reference: transformers'
// Qwen2VLVideoProcessor, Qwen3VLVideoProcessor and Glm4vVideoProcessor.
#pragma once

#include <cstdint>

#include "base/json.h"
#include "base/result.h"
#include "image/normalize.h"
#include "image/patchify.h"
#include "image/pixels.h"
#include "image/smart_resize.h"
#include "model/images/image_controls.h"
#include "model/images/image_processor.h"
#include "model/images/pixel_bounds.h"
#include "model/images/prepared_image.h"
#include "model/videos/frame_sampling.h"

namespace saccade {

// What a family's video processor does, and has where its configuration is silent: Qwen2-VL's.
struct VideoDefaults {
  BoundsOf about = BoundsOf::kFrame;
  PixelBounds bounds = {128 * 28 * 28, 768 * 28 * 28};
  std::int64_t max_video_tokens = 128'000;  // of cap_pixels_per_frame
  SamplingRule sampling = SamplingRule::kSteps;
  FrameChoice frames = kQwenFrames;
  NormalizeSettings normalize = {};
};
// Qwen3-VL's.
inline constexpr VideoDefaults kVolumeVideos = {
    .about = BoundsOf::kVolume,
    .bounds = {128 * 32 * 32, 768 * 32 * 32},
    .max_video_tokens = 768,
    .sampling = SamplingRule::kEnds,
    .normalize = {.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}}};

// The video preprocessor's configuration of such a family. Immutable; any thread.
class PatchVideos final : public VideoPipeline {
 public:
  PatchVideos() = default;
  // Reads what PatchImages reads, cap_pixels_per_frame and max_video_tokens, and what FrameSampling
  // reads.
  static Result<PatchVideos> parse(const json::object& preprocessor,
                                   const VideoDefaults& defaults = {});

  const PatchLayout& patches() const { return patches_; }
  const FrameSampling& sampling() const override { return sampling_; }

  // Of a whole video: grid_t groups of frames. kInvalid for an aspect ratio over 200, for controls
  // out of range and for kwargs other than min_pixels, max_pixels, size, total_pixels and
  // cap_pixels_per_frame.
  Result<ImageLayout> layout(int width, int height, const VideoControls& controls) const override;
  std::int64_t max_patches() const override;
  Pixels resized(const Pixels& frame, const ImageLayout& video,
                 const Cancelled& cancelled) const override;
  PreparedImage group(std::vector<Pixels> resized, const ImageLayout& video) const override;

 private:
  Result<ImageSize> frame_size(int width, int height, const VideoControls& controls) const;
  Result<PixelBounds> frame_bounds(const VideoControls& controls) const;
  Result<PixelBounds> volume_bounds(const VideoControls& controls) const;
  Result<bool> capped(const VideoControls& controls) const;
  // Frames that the size is about: a group at least.
  std::int64_t counted_frames(const VideoControls& controls) const;
  std::int64_t factor() const { return std::int64_t{patches_.patch_size} * patches_.merge_size; }

  BoundsOf about_ = BoundsOf::kFrame;
  PixelBounds bounds_;
  bool capped_ = false;                // frames share what max_video_tokens_ leave them
  std::int64_t max_video_tokens_ = 0;  // of a whole video; where bounds are of that, of a frame
  PatchLayout patches_;
  FrameSampling sampling_;
  ResampleFilter filter_ = ResampleFilter::kBicubic;
  std::shared_ptr<const PatchCutter> cutter_;
};

}  // namespace saccade
