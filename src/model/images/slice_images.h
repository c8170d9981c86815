// Images and frames that a model sees whole, at about one scale, and where they are larger besides
// cut into slices of that scale (LLaVA-UHD, arXiv:2403.11703; MiniCPM-V, arXiv:2408.01800).
// Reference: transformers' MiniCPMV4_6ImageProcessor and MiniCPMV4_6VideoProcessor.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "image/normalize.h"
#include "image/patchify.h"
#include "image/pixels.h"
#include "image/smart_resize.h"
#include "model/images/image_controls.h"
#include "model/images/image_processor.h"
#include "model/images/square_cutter.h"
#include "model/videos/frame_sampling.h"

namespace saccade {

// Sides of what is resized are multiples of a square of this many patches a side, which is a token,
// or four.
inline constexpr int kSquarePatches = 4;

// What mm_processor_kwargs may say of them.
inline constexpr std::array<std::string_view, 2> kSliceKwargs = {"max_slice_nums", "slice_mode"};

struct SliceSettings {
  int scale = 448;  // the whole image, and each slice, is about as large as a square of this side
  int patch = 14;   // pixels a side
  std::int64_t max_slices = 9;
  bool sliced = true;
  std::int64_t square_tokens = 1;

  int square() const { return kSquarePatches * patch; }  // pixels a side
};

// max_slice_nums and slice_mode of a preprocessor configuration or of mm_processor_kwargs over
// `settings`. kInvalid names the member.
Result<SliceSettings> read_slices(const json::object& from, SliceSettings settings);

// What becomes of an image: both sizes in whole squares.
struct SliceExtents {
  ImageSize whole;
  int across = 0;  // slices; 0 x 0: it is not cut
  int down = 0;
  ImageSize slice;

  bool operator==(const SliceExtents&) const = default;
};
// kInvalid for an aspect ratio over 200.
Result<SliceExtents> slice_extents(int width, int height, const SliceSettings& settings);

// Squares of the largest image whole, or of the largest slice.
std::int64_t max_squares_of_slice(const SliceSettings& settings);

// Squares stand below each other: those of the whole image row by row, then those of each slice,
// slices row by row. A square's rows are its quarters' patches, each quarter whole: what is joined
// first stands together.
class SquareRows final : public SquareCutter {
 public:
  SquareRows(int patch, const NormalizeTable& normalize)
      : SquareCutter({.patch_size = patch, .merge_size = 1, .temporal_patch_size = 1}, normalize) {}
  PatchPlace place(const Pixels& pixels, std::int64_t row) const override;
};

// A layout's grid is 1 x squares x patches of a square; first_width x first_height is the whole
// image.
class SliceImages final : public ImagePipeline {
 public:
  SliceImages(const SliceSettings& settings, const NormalizeTable& normalize, ResampleFilter filter)
      : ImagePipeline(std::make_shared<SquareRows>(settings.patch, normalize), filter),
        settings_(settings) {}

  // max_pixels bounds the slices' pixels, max_tokens all tokens; the whole image is the least.
  // (min_pixels has nothing to do: how many slices there are follows from the image.)
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override;
  Pixels resized(const Pixels& pixels, const ImageLayout& layout,
                 const Cancelled& cancelled) const override;
  std::int64_t max_patches() const override {
    return max_squares() * kSquarePatches * kSquarePatches;
  }
  std::int64_t max_tokens() const override { return max_squares() * settings_.square_tokens; }

 private:
  std::int64_t max_squares() const {
    return (1 + (settings_.sliced ? settings_.max_slices : 0)) * max_squares_of_slice(settings_);
  }

  SliceSettings settings_;
};

// Each frame as an image of its own.
class SliceVideos final : public VideoPipeline {
 public:
  SliceVideos(const SliceSettings& settings, const FrameSampling& sampling,
              const NormalizeTable& normalize, ResampleFilter filter)
      : images_(settings, normalize, filter), sampling_(sampling) {}

  // Bounds are those of images, for each frame; a share of them (total_pixels) is kInvalid.
  Result<ImageLayout> layout(int width, int height, const VideoControls& controls) const override;
  const FrameSampling& sampling() const override { return sampling_; }
  Pixels resized(const Pixels& frame, const ImageLayout& video,
                 const Cancelled& cancelled) const override {
    return images_.resized(frame, video, cancelled);
  }
  PreparedImage group(std::vector<Pixels> resized, const ImageLayout& video) const override;
  std::int64_t max_patches() const override { return images_.max_patches(); }

 private:
  SliceImages images_;
  FrameSampling sampling_;
};

}  // namespace saccade
