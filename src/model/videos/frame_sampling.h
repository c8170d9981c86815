// Which frames of a video file a model is shown. Pure: what a file says of itself and what was
// asked become indices. Reference: sample_frames() of transformers' video processors (5.17).
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/images/image_controls.h"

namespace saccade {

inline constexpr std::int64_t kOwnMostFrames = 768;  // where neither checkpoint nor request says

// What a file says of itself.
struct VideoFacts {
  std::int64_t frames = 0;
  double fps = 0;  // on average, over the whole file
};

// What Qwen's processors take where a file is silent.
inline constexpr FrameChoice kQwenFrames = {
    .fps = 2, .num_frames = {}, .min_frames = 4, .max_frames = kOwnMostFrames};

enum class SamplingRule : std::uint8_t {
  kSteps,    // Qwen2-VL, Qwen2.5-VL, LLaVA-OneVision: whole groups, in even steps from the first
  kEnds,     // Qwen3-VL: in even steps from the first frame to the last, rounded half to even
  kMiddles,  // InternVL: the middles of even parts
  kInner,    // SmolVLM2: in even steps between the ends, of a long film a second within them
  // GLM-4.1V: the first frames at or after even times, an even number of them (the last one twice).
  // Of a file longer than max_duration as many as of one of that length, spread over it all.
  kTimes,
  // MiniCPM-V: the frame at each whole second; of a file that has more of them than max_frames,
  // that many, evenly between the tenths of a second.
  kSeconds,
};

// Of one family and checkpoint. Immutable; any thread.
class FrameSampling {
 public:
  FrameSampling() = default;
  // Reads fps, num_frames (not with kTimes), min_frames, max_frames and, with kTimes, max_duration
  // (default: 300 seconds); with kSeconds max_num_frames alone, and no stack_frames over 1
  // (kUnsupported); `own` are the family's where the file is silent, of fps and num_frames
  // where it has neither (kInner: each). `depth`: frames of a group. kInvalid names the member that
  // is out of range.
  static Result<FrameSampling> parse(const json::object& preprocessor, SamplingRule rule,
                                     std::int64_t depth, const FrameChoice& own = kQwenFrames);

  // Rising, at least one, with kTimes the last one perhaps twice, with kSeconds any of a file of
  // less than a frame a second. A file with fewer frames than are asked for gives those it has,
  // where the reference raises. kInvalid for a choice out of range, with kSeconds for fps and
  // min_frames, and for a file without frames or rate.
  Result<std::vector<std::int64_t>> indices(const VideoFacts& file,
                                            const FrameChoice& choice) const;

 private:
  Result<std::vector<std::int64_t>> at_seconds(const VideoFacts& file,
                                               const FrameChoice& asked) const;
  std::vector<std::int64_t> at_times(const VideoFacts& file, const FrameChoice& choice) const;
  std::int64_t count(const VideoFacts& file, const FrameChoice& choice) const;
  FrameChoice complete(const FrameChoice& asked) const;

  SamplingRule rule_ = SamplingRule::kSteps;
  std::int64_t depth_ = 2;
  FrameChoice own_;
  double max_seconds_ = 300;
};

}  // namespace saccade
