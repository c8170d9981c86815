// Which frames of a video file a model is shown. Pure: what a file says of itself and what was
// asked become indices. Reference: transformers' Qwen2VLVideoProcessor.sample_frames and
// Qwen3VLVideoProcessor.sample_frames (5.17).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/image_controls.h"

namespace saccade {

inline constexpr std::int64_t kOwnMostFrames = 768;  // where neither checkpoint nor request says

// What a file says of itself.
struct VideoFacts {
  std::int64_t frames = 0;
  double fps = 0;  // on average, over the whole file
};

enum class SamplingRule : std::uint8_t {
  kSteps,  // Qwen2-VL, Qwen2.5-VL: whole groups of frames, in even steps from the first
  kEnds,   // Qwen3-VL: in even steps from the first frame to the last, rounded half to even
};

// Of one family and checkpoint. Immutable; any thread.
class FrameSampling {
 public:
  FrameSampling() = default;
  // Reads fps (2 by itself), num_frames, min_frames (4) and max_frames (768). `depth`: frames of a
  // group. kInvalid names the member that is out of range.
  static Result<FrameSampling> parse(const json::object& preprocessor, SamplingRule rule,
                                     std::int64_t depth);

  // Rising, at least one. A file with fewer frames than are asked for gives those it has, where the
  // reference raises. kInvalid for a choice out of range and for a file without frames or rate.
  Result<std::vector<std::int64_t>> indices(const VideoFacts& file,
                                            const FrameChoice& choice) const;

 private:
  std::int64_t count(const VideoFacts& file, const FrameChoice& choice) const;

  SamplingRule rule_ = SamplingRule::kSteps;
  std::int64_t depth_ = 2;
  FrameChoice own_;
};

}  // namespace saccade
