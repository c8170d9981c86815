// The size that a Qwen2-VL image is resized to: plain arithmetic, needing no pixels.
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

}  // namespace saccade
