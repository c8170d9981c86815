// A video file in memory, taken apart and decoded by FFmpeg: mp4, mov, mkv and webm with H.264,
// H.265, VP8, VP9, AV1 or MPEG-4 pictures. Runs in the sandbox: it opens nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

struct AVFrame;

namespace saccade::video {

// One thread. Errors are kUndecodable, kUnsupported or kTooLarge.
class Container {
 public:
  // `bytes` outlive it. Reads every packet's header: what the file claims of itself is not
  // believed.
  static Result<Container> open(std::span<const std::byte> bytes, std::int64_t max_pixels);
  ~Container();
  Container(Container&&) noexcept;
  Container& operator=(Container&&) noexcept;

  int width() const;  // as shown
  int height() const;
  int quarter_turns() const;    // clockwise, from the coded picture to the shown one
  std::int64_t frames() const;  // that come out
  double fps() const;           // on average
  // Since the first frame. By the file's own clock; where that agrees with an even rate to within
  // one of its ticks, by that rate, which has no rounding.
  double seconds(std::int64_t frame) const;

  // The next call's frames come out from the file's begin on. False from next() means that frames
  // are not where their packets said, and the caller calls recount().
  Result<void> begin(std::span<const std::int64_t> indices);
  Result<std::optional<const AVFrame*>> next();  // the next index's; absent: see recount()
  // Decodes everything to see how many frames come out, and when. From then on frames are counted
  // as they come.
  Result<void> recount();

 private:
  class State;
  explicit Container(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace saccade::video
