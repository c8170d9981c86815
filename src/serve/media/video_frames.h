// From a video file to frames as the rest of a request has them: image files, small ones, as large
// as the model is shown. Decoding is in a process of its own (src/video/).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/requests/fields/video_part.h"
#include "base/byte_budget.h"
#include "model/prompts/processor.h"
#include "serve/settings.h"

namespace saccade::serve {

struct VideoFrames {
  std::vector<std::string> files;  // BMP, of one size
  double fps = 0;                  // of these frames, on average
  std::vector<double> seconds;     // when each is, since the file's first
  double duration = 0;             // of the whole file, seconds
  bool resized = false;            // as the model is shown them
};

// What a request brings that is read before its preparation.
struct FetchedMedia {
  std::vector<std::string> files;   // of MediaLoader::remote(), less the video files
  std::vector<VideoFrames> videos;  // one for each video file, in order of appearance
};

// What the video files of one request may take together.
struct VideoRoom {
  std::size_t bytes = 0;   // of frames, as they are kept
  std::size_t frames = 0;  // of all videos of the request
};

// Any thread.
class VideoFrameReader {
 public:
  VideoFrameReader(const ServeSettings& settings, const Processor& processor);

  // `controls`: what the client says of sizes; its frames and times are the file's. Blocks for as
  // long as decoding takes. Takes what the frames need out of `room` and adds it to `reserved`,
  // which may be null, before they are decoded. kTooLarge and kInvalid for more frames, bytes or
  // tokens than are possible, kUnavailable for no room in the reservation's budget; the rest as
  // read_video, Processor::sample_frames and video_layout say.
  Result<VideoFrames> read(const api::VideoPart& part, const VideoControls& controls,
                           const std::string& file, VideoRoom& room, ByteReservation* reserved,
                           const std::function<bool()>& cancelled) const;

 private:
  class Reading;
  FrameChoice choice_of(const api::VideoPart& part) const;

  const ServeSettings& settings_;
  const Processor& processor_;
  const std::string decoder_;  // the program; empty: none
};

}  // namespace saccade::serve
