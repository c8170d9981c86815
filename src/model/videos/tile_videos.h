// Videos whose every frame is one square tile, and an input of the encoder by itself
// (LLaVA-OneVision, InternVL, SmolVLM2). Reference: transformers' LlavaOnevisionVideoProcessor,
// InternVLVideoProcessor and SmolVLMVideoProcessor.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "image/normalize.h"
#include "image/pixels.h"
#include "model/checkpoint/checkpoint.h"
#include "model/images/image_controls.h"
#include "model/images/image_processor.h"
#include "model/towers/tile_tower.h"
#include "model/videos/frame_sampling.h"

namespace saccade {

// The file that says how videos are prepared: one of its own, else that of images.
const json::object& video_preprocessor(const Checkpoint& checkpoint);
// kInvalid where it makes frames of other than the tower's `tile` pixels.
Result<void> check_frame_size(int pixels, int tile);

struct TileVideoSettings {
  int tile = 0;                     // pixels a side
  int longest = 0;                  // of the longer side between two resizings; 0: there is one
  std::int64_t side = 0;            // patches a side
  std::int64_t frame_tokens = 0;    // rows of a frame
  std::int64_t closing_tokens = 0;  // rows after all frames: each frame's embedding ends with them
  std::string_view name;            // of the family
  ResampleFilter filter = ResampleFilter::kBicubic;
  // Members of mm_processor_kwargs that the family's images have. size.longest_edge counts here
  // where frames are resized twice; the others are about images.
  std::vector<std::string_view> kwargs = {};
};

// Immutable; any thread.
class TileVideos final : public VideoPipeline {
 public:
  TileVideos(TileVideoSettings settings, const FrameSampling& sampling,
             const TileTowerSettings& tower, const NormalizeTable& normalize)
      : settings_(std::move(settings)),
        sampling_(sampling),
        cutter_(std::make_shared<TileRows>(tower, normalize)) {}

  // Frames are of one size whatever they were: bounds of pixels change nothing, and a share of them
  // (total_pixels) is kInvalid.
  Result<ImageLayout> layout(int width, int height, const VideoControls& controls) const override;
  const FrameSampling& sampling() const override { return sampling_; }
  Pixels resized(const Pixels& frame, const ImageLayout& video,
                 const Cancelled& cancelled) const override;
  PreparedImage group(std::vector<Pixels> resized, const ImageLayout& video) const override;
  std::int64_t max_patches() const override { return settings_.side * settings_.side; }

 private:
  TileVideoSettings settings_;
  FrameSampling sampling_;
  std::shared_ptr<const PatchCutter> cutter_;
};

}  // namespace saccade
