// The sizes that images and videos of Qwen2-VL, Qwen3-VL and SmolVLM2 are resized to: plain
// arithmetic, needing no pixels.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace saccade {

struct ImageSize {
  int height = 0;
  int width = 0;
  bool operator==(const ImageSize&) const = default;
};

// Both sides multiples of `factor`, the area within [min_pixels, max_pixels] as transformers'
// smart_resize has it (sides are rounded half to even). Pixels. kInvalid when one side is over 200
// times the other, when a side, the factor or a bound is below 1, or when the result would be empty
// or over int.
Result<ImageSize> smart_resize(std::int64_t height, std::int64_t width, std::int64_t factor,
                               std::int64_t min_pixels, std::int64_t max_pixels);

// A video's frames, of which `depth` make a patch.
struct FrameVolume {
  std::int64_t frames = 1;
  std::int64_t depth = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
};
// The same of a video's frames as Qwen3-VL has it: the bounds are of the whole volume, with
// `frames` rounded to a multiple of `depth` (half to even), and a side under `factor` is stretched
// to it first. At least `depth` frames.
Result<ImageSize> smart_resize_volume(const FrameVolume& volume, std::int64_t factor,
                                      std::int64_t min_pixels, std::int64_t max_pixels);

// The longer side `longest` pixels, the other by the aspect and made even, as transformers'
// processors of SmolVLM have it. All above 0.
ImageSize fit_longest(int height, int width, int longest);

// An upper bound of the area that smart_resize makes of any image. It is over max_pixels where that
// is small: the short side of a thin image is never under `factor`, and both sides of one that
// grows are rounded up.
std::int64_t max_resized_pixels(std::int64_t factor, std::int64_t min_pixels,
                                std::int64_t max_pixels);

}  // namespace saccade
