#include "serve/media/video_frames.h"

#include <utility>

#include "image/bmp_encode.h"
#include "image/pixels.h"
#include "video/video_decoder.h"

namespace saccade::serve {

// One file's frames on their way.
class VideoFrameReader::Reading {
 public:
  Reading(const VideoFrameReader& reader, const api::VideoPart& part, VideoControls controls,
          VideoRoom& room, ByteReservation* reserved)
      : reader_(reader),
        part_(part),
        controls_(std::move(controls)),
        room_(room),
        left_(room),
        reserved_(reserved) {}

  Result<std::vector<std::int64_t>> choose(const video::FileFacts& facts) {
    made_ = {};
    TRY(auto indices,
        reader_.processor_.sample_frames({facts.frames, facts.fps}, reader_.choice_of(part_)));
    TRY_DO(check_count(indices.size()));
    const auto count = static_cast<std::int64_t>(indices.size());
    made_.fps = static_cast<double>(count) / static_cast<double>(facts.frames) * facts.fps;
    controls_.frames = count;
    controls_.fps = made_.fps;
    controls_.seconds.clear();
    controls_.duration = made_.duration = static_cast<double>(facts.frames) / facts.fps;
    controls_.resized = false;
    TRY(layout_, reader_.processor_.video_layout(facts.width, facts.height, controls_));
    const std::int64_t positions = reader_.processor_.shape().max_position;
    if (layout_.tokens > positions)
      return fail(
          ErrorCode::kInvalid,
          "{} frames of {}x{} pixels take {} tokens, the model's positions end at {}; fewer "
          "frames or a lower max_pixels make it less",
          count, facts.width, facts.height, layout_.tokens, positions);
    TRY_DO(choose_size());
    TRY_DO(make_room(static_cast<std::size_t>(count) * bmp_bytes(width_, height_)));
    // One that is shown twice is read once.
    times_.clear();
    std::vector<std::int64_t> read;
    for (const std::int64_t index : indices) {
      if (read.empty() || index != read.back()) {
        read.push_back(index);
        times_.push_back(0);
      }
      ++times_.back();
    }
    taken_ = 0;
    return read;
  }

  Result<void> take(video::Frame frame) {
    Pixels pixels{frame.width, frame.height, std::move(frame.rgb)};
    if (resized_) {
      TRY(pixels, reader_.processor_.resized_image(pixels, layout_, {}));
    }
    const std::size_t times = times_[taken_++];
    made_.files.insert(made_.files.end(), times, encode_bmp(pixels));
    made_.seconds.insert(made_.seconds.end(), times, frame.seconds);
    return {};
  }

  VideoFrames done() && {
    room_ = left_;
    return std::move(made_);
  }

 private:
  Result<void> check_count(std::size_t count) {
    const auto most = static_cast<std::size_t>(reader_.settings_.max_video_frames);
    if (count > most)
      return fail(ErrorCode::kInvalid, "{} frames are asked for, at most {} are possible", count,
                  most);
    if (count > room_.frames)
      return fail(ErrorCode::kInvalid,
                  "{} frames, and {} are left of those that a request may have", count,
                  room_.frames);
    left_.frames = room_.frames - count;
    return {};
  }

  // Frames are kept as the model is shown them, where laying those out again, as an encoder
  // elsewhere does, leaves them as they are.
  Result<void> choose_size() {
    width_ = layout_.resized_width;
    height_ = layout_.resized_height;
    controls_.resized = true;
    const auto again = reader_.processor_.video_layout(width_, height_, controls_);
    resized_ = again && again->resized_width == width_ && again->resized_height == height_ &&
               again->first_width == 0;
    made_.resized = resized_;
    if (resized_) return {};
    width_ = layout_.width;
    height_ = layout_.height;
    return {};
  }

  Result<void> make_room(std::size_t bytes) {
    if (bytes > room_.bytes)
      return fail(ErrorCode::kTooLarge,
                  "{} frames of {}x{} pixels have {} bytes, {} are left of those that a request's "
                  "media may have (--max-request-media-bytes); fewer frames or a lower max_pixels "
                  "make it less",
                  controls_.frames, width_, height_, bytes, room_.bytes);
    left_.bytes = room_.bytes - bytes;
    if (reserved_ != nullptr && !reserved_->grow(bytes))
      return fail(ErrorCode::kUnavailable,
                  "no room for {} bytes of frames beside those of other requests "
                  "(--max-preparing-bytes)",
                  bytes);
    return {};
  }

  const VideoFrameReader& reader_;
  const api::VideoPart& part_;
  VideoControls controls_;
  VideoRoom& room_;
  VideoRoom left_;  // of room_, when this is done
  ByteReservation* reserved_;
  ImageLayout layout_;
  bool resized_ = false;
  int width_ = 0;  // of the frames as they are kept
  int height_ = 0;
  std::vector<std::size_t> times_;  // that each frame that is read is shown
  std::size_t taken_ = 0;           // of these
  VideoFrames made_;
};

VideoFrameReader::VideoFrameReader(const ServeSettings& settings, const Processor& processor)
    : settings_(settings), processor_(processor), decoder_(video::find_decoder()) {}

// The nearest wins: the part's (which has the request's), the server's, the checkpoint's. No more
// than the server has of a video, unless more is asked for, which is refused.
FrameChoice VideoFrameReader::choice_of(const api::VideoPart& part) const {
  FrameChoice choice = settings_.video_frames;
  if (part.fps || part.num_frames) {
    choice.fps = part.fps;
    choice.num_frames = part.num_frames;
  }
  choice.min_frames = part.min_frames;
  choice.max_frames = part.max_frames;
  if (!choice.max_frames && !choice.min_frames && settings_.max_video_frames < kOwnMostFrames)
    choice.max_frames = settings_.max_video_frames;
  return choice;
}

Result<VideoFrames> VideoFrameReader::read(const api::VideoPart& part,
                                           const VideoControls& controls, const std::string& file,
                                           VideoRoom& room, ByteReservation* reserved,
                                           const std::function<bool()>& cancelled) const {
  Reading made(*this, part, controls, room, reserved);
  video::DecodeLimits limits;
  limits.max_pixels = settings_.max_image_pixels;
  limits.time = settings_.video_time;
  TRY_DO(video::read_video(
      decoder_, std::as_bytes(std::span(file)), limits,
      {[&made](const video::FileFacts& facts) { return made.choose(facts); },
       [&made](video::Frame frame) { return made.take(std::move(frame)); }, cancelled}));
  return std::move(made).done();
}

}  // namespace saccade::serve
