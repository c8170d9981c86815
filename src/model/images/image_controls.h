// What a request may say about the sizes of its images and videos.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

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
  std::vector<double> seconds = {};  // when each frame is, of a file; empty: at `fps` from 0
  double duration = 0;               // seconds of a whole file; 0: of a list
  bool resized = false;  // frames are as the model is shown them, by this layout once before
};

// Which frames of a video file are taken. Absent: the checkpoint's, or the family's own.
struct FrameChoice {
  std::optional<double> fps;
  std::optional<std::int64_t> num_frames;  // instead of fps; beside it, a bound as max_frames
  std::optional<std::int64_t> min_frames;
  std::optional<std::int64_t> max_frames;
};

}  // namespace saccade
