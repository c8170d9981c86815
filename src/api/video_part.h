// A video of a conversation, in the forms that clients send one as a list of frames:
//
//   {"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,FRAME,FRAME,..."}}   vLLM
//   {"type": "video", "video": ["data:image/jpeg;base64,...", "https://..."], "fps": 2}     Qwen
//
// Encoded video files are refused, saying so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

struct VideoPart {
  std::vector<std::string> frames;         // URLs as an ImagePart's, in order of time; at least one
  std::optional<double> fps;               // of these frames
  std::optional<std::int64_t> min_pixels;  // of a frame
  std::optional<std::int64_t> max_pixels;
  std::optional<std::int64_t> total_pixels;  // of all frames
};

// A content part that has "video_url" or "video". kInvalid names `where`; at most `room` frames.
Result<VideoPart> read_video(const json::object& part, std::string_view where, std::size_t room);

// What a request says of all of its videos: takes `fps` (a number, or one for each video) and
// do_sample_frames out of mm_processor_kwargs, reads media_io_kwargs.video as vLLM has it (fps of
// the original, frames_indices, total_num_frames), and sets the rate of videos that say none
// themselves.
Result<void> set_video_rates(std::span<VideoPart> videos, json::object& mm_processor_kwargs,
                             const json::object* media_io_kwargs);

}  // namespace saccade::api
