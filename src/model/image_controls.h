// What a request may say about the sizes of its images and videos.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"

namespace saccade {

// Absent: the checkpoint's preprocessor_config. A family
// whose images come in tiles takes as many as the bounds leave, one at the least.
struct ImageControls {
  std::optional<std::int64_t> min_pixels;
  std::optional<std::int64_t> max_pixels;
  std::optional<std::int64_t> max_tokens;  // detail "low", or a controller's budget
  // mm_processor_kwargs but min_pixels and max_pixels; members that the family has not are
  // kInvalid.
  json::object processor_kwargs;
};

// What a request may say about a video, which is a list of frames of one size.
struct VideoControls {
  ImageControls frame;  // of each frame; without max_tokens
  std::int64_t frames = 0;
  double fps = 2;                            // of the frames that are given; qwen-vl-utils' default
  std::optional<std::int64_t> total_pixels;  // of all frames after resizing, divided evenly
};

}  // namespace saccade
