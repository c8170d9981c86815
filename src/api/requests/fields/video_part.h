// A video of a conversation, as a file or as a list of frames, in the forms that clients send:
//
//   {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,..."}}                vLLM
//   {"type": "video_url", "video_url": {"url": "https://host/film.webm"}, "fps": 1}
//   {"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,FRAME,FRAME,..."}}   vLLM
//   {"type": "video", "video": ["data:image/jpeg;base64,...", "https://..."], "fps": 2}     Qwen
//
// What a file is, its bytes say: nothing is decided by "mp4".
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
  std::vector<std::string> frames;  // URLs as an ImagePart's, in order of time; empty for a file
  std::string file;                 // URL as an ImagePart's; empty for a list of frames
  std::optional<double> fps;        // of these frames; of a file: at which they are taken
  std::optional<std::int64_t> num_frames;  // of a file: how many, or beside fps the most
  std::optional<std::int64_t> min_frames;  // of a file
  std::optional<std::int64_t> max_frames;
  std::optional<std::int64_t> min_pixels;  // of a frame
  std::optional<std::int64_t> max_pixels;
  std::optional<std::int64_t> total_pixels;  // of all frames
};

// A content part that has "video_url" or "video". kInvalid names `where`; at most `room` frames.
Result<VideoPart> read_video(const json::object& part, std::string_view where, std::size_t room);

// What a request says of all of its videos, for those that do not say it themselves: takes `fps` (a
// number, or one for each video), do_sample_frames and, where all videos are files, num_frames,
// min_frames and max_frames out of mm_processor_kwargs; reads media_io_kwargs.video as vLLM has it
// (of a list: fps of the original, frames_indices, total_num_frames; of a file: fps, num_frames).
Result<void> set_video_rates(std::span<VideoPart> videos, json::object& mm_processor_kwargs,
                             const json::object* media_io_kwargs);

}  // namespace saccade::api
