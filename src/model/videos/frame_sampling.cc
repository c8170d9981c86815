#include "model/videos/frame_sampling.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace saccade {
namespace {

constexpr std::int64_t kMaxAsked = 1 << 16;

Result<void> check_count(std::string_view name, const std::optional<std::int64_t>& count) {
  if (!count || (*count >= 1 && *count <= kMaxAsked)) return {};
  return fail(ErrorCode::kInvalid, "{} is {}, 1 to {} are possible", name, *count, kMaxAsked);
}

Result<void> check(const FrameChoice& choice) {
  if (choice.fps && !(std::isfinite(*choice.fps) && *choice.fps > 0))
    return fail(ErrorCode::kInvalid, "fps is {}, a number above 0 is required", *choice.fps);
  TRY_DO(check_count("num_frames", choice.num_frames));
  TRY_DO(check_count("min_frames", choice.min_frames));
  return check_count("max_frames", choice.max_frames);
}

// Python's round(): half to even.
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

// torch.arange(start, frames, frames / count).int(): a product in f64, rounded to f32, cut. `start`
// in steps.
std::vector<std::int64_t> in_steps(std::int64_t frames, std::int64_t count, double start) {
  const double step = static_cast<double>(frames) / static_cast<double>(count);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) {
    const double exact = start * step + static_cast<double>(i) * step;
    const auto at = static_cast<std::int64_t>(static_cast<float>(exact));
    indices.push_back(std::min(at, frames - 1));
  }
  return indices;
}

// numpy.linspace(0, frames - 1, count).round()
std::vector<std::int64_t> between_ends(std::int64_t frames, std::int64_t count) {
  if (count == 1) return {0};
  const auto last = static_cast<double>(frames - 1);
  const double step = last / static_cast<double>(count - 1);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i + 1 < count; ++i)
    indices.push_back(rounded(static_cast<double>(i) * step));
  indices.push_back(frames - 1);
  return indices;
}

// SmolVLMVideoProcessor.sample_frames: numpy.linspace(first, last, count, dtype=int), each frame
// once. `choice` is complete.
std::vector<std::int64_t> within_ends(const VideoFacts& file, const FrameChoice& choice) {
  constexpr double kSkipped = 1;  // seconds at both ends
  const auto frames = static_cast<double>(file.frames);
  const double seconds = frames / file.fps;
  const auto most = static_cast<double>(*choice.num_frames);
  const double wanted = std::min(std::nearbyint(*choice.fps * seconds), most);
  const auto count = static_cast<std::int64_t>(
      std::min(std::max({wanted, static_cast<double>(*choice.min_frames), 1.0}),
               static_cast<double>(*choice.max_frames)));
  std::int64_t first = 0;
  std::int64_t last = file.frames - 1;
  if (seconds - 2 * kSkipped > most * *choice.fps) {
    first = static_cast<std::int64_t>(kSkipped * file.fps);
    last = std::min(static_cast<std::int64_t>(frames - kSkipped * file.fps), last);
  }
  if (first >= last) {
    first = 0;
    last = file.frames - 1;
  }
  if (count == 1) return {first};
  const double step = static_cast<double>(last - first) / static_cast<double>(count - 1);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i + 1 < count; ++i)
    indices.push_back(static_cast<std::int64_t>(
        std::floor(static_cast<double>(i) * step + static_cast<double>(first))));
  indices.push_back(last);
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

}  // namespace

Result<FrameSampling> FrameSampling::parse(const json::object& preprocessor, SamplingRule rule,
                                           std::int64_t depth, const FrameChoice& own) {
  FrameSampling sampling;
  sampling.rule_ = rule;
  sampling.depth_ = depth;
  sampling.own_ = own;
  if (rule == SamplingRule::kSeconds) {
    TRY(sampling.own_.max_frames,
        json::get_int_or(preprocessor, "max_num_frames", *own.max_frames));
    TRY(const std::int64_t stacked, json::get_int_or(preprocessor, "stack_frames", 1));
    if (stacked != 1)
      return fail(ErrorCode::kUnsupported, "stack_frames is {}, frames are shown one by one",
                  stacked);
    TRY_DO(check_count("max_num_frames", sampling.own_.max_frames));
    return sampling;
  }
  const auto is_said = [&](std::string_view name) {
    return json::find(preprocessor, name) != nullptr;
  };
  const bool times = rule == SamplingRule::kTimes;
  const bool has_number = !times && is_said("num_frames");
  if (rule != SamplingRule::kInner && (is_said("fps") || has_number))
    sampling.own_.fps = sampling.own_.num_frames = {};
  if (is_said("fps")) {
    TRY(sampling.own_.fps, json::get_double(preprocessor, "fps"));
  }
  if (has_number) {
    TRY(sampling.own_.num_frames, json::get_int(preprocessor, "num_frames"));
  }
  TRY(sampling.own_.min_frames, json::get_int_or(preprocessor, "min_frames", *own.min_frames));
  TRY(sampling.own_.max_frames, json::get_int_or(preprocessor, "max_frames", *own.max_frames));
  if (times) {
    TRY(sampling.max_seconds_,
        json::get_double_or(preprocessor, "max_duration", sampling.max_seconds_));
    if (!(sampling.max_seconds_ > 0) || !std::isfinite(sampling.max_seconds_))
      return fail(ErrorCode::kInvalid, "max_duration is {}, a number above 0 is required",
                  sampling.max_seconds_);
  }
  TRY_DO(check(sampling.own_));
  return sampling;
}

// How many frames, by the reference's own order of operations. `choice` is complete.
std::int64_t FrameSampling::count(const VideoFacts& file, const FrameChoice& choice) const {
  if (!choice.fps) {
    std::int64_t asked = *choice.num_frames;
    if (rule_ != SamplingRule::kEnds)
      asked = rounded(static_cast<double>(asked) / static_cast<double>(depth_)) * depth_;
    return std::min(asked, file.frames);
  }
  std::int64_t most = *choice.max_frames;
  if (choice.num_frames) most = std::min(most, *choice.num_frames);
  const auto frames = static_cast<double>(file.frames);
  double wanted = frames / file.fps * *choice.fps;
  if (rule_ == SamplingRule::kEnds) {
    wanted = std::min(std::floor(wanted), static_cast<double>(kMaxAsked));
    return std::min(std::max(static_cast<std::int64_t>(wanted), *choice.min_frames),
                    std::min(most, file.frames));
  }
  most = std::min(most, file.frames) / depth_ * depth_;
  wanted = std::min(std::max(wanted, static_cast<double>(*choice.min_frames)),
                    static_cast<double>(most));
  return static_cast<std::int64_t>(std::floor(wanted / static_cast<double>(depth_))) * depth_;
}

// What is asked for takes the place of the checkpoint's own rate or number, whichever that has;
// where both always stand, each of its own.
FrameChoice FrameSampling::complete(const FrameChoice& asked) const {
  FrameChoice choice = own_;
  if (rule_ == SamplingRule::kInner) {
    if (asked.fps) choice.fps = asked.fps;
    if (asked.num_frames) choice.num_frames = asked.num_frames;
  } else {
    if (own_.num_frames) choice.fps.reset();
    if (asked.fps || asked.num_frames) {
      choice.fps = asked.fps;
      choice.num_frames = asked.num_frames;
    }
  }
  if (asked.min_frames) choice.min_frames = asked.min_frames;
  if (asked.max_frames) choice.max_frames = asked.max_frames;
  if (!asked.max_frames && choice.min_frames > choice.max_frames)
    choice.max_frames = choice.min_frames;
  return choice;
}

// Frames at times i / fps, or, where their number is not what the rate gives, at that many times
// from 0 to the end.
std::vector<std::int64_t> FrameSampling::at_times(const VideoFacts& file,
                                                  const FrameChoice& choice) const {
  const double duration = static_cast<double>(file.frames) / file.fps;
  const double fps = choice.fps.value_or(0);
  const double shown = std::min(duration, max_seconds_);
  // A rate of seconds apart still shows one.
  const auto by_rate = static_cast<std::int64_t>(
      std::min(std::max(std::floor(shown * fps), 1.0), static_cast<double>(kMaxAsked)));
  std::int64_t most = *choice.max_frames;
  if (choice.num_frames) most = std::min(most, *choice.num_frames);
  const std::int64_t count =
      choice.fps ? std::min(std::max(by_rate, *choice.min_frames), most) : *choice.num_frames;
  std::vector<std::int64_t> taken;
  const auto take = [&](double at) {
    const std::int64_t index = std::min(file.frames - 1, static_cast<std::int64_t>(std::ceil(at)));
    if (taken.empty() || index > taken.back()) taken.push_back(index);
  };
  if (choice.fps && count == by_rate && duration <= max_seconds_) {
    for (std::int64_t i = 0; i < count; ++i) take(static_cast<double>(i) * file.fps / fps);
  } else if (count >= file.frames) {
    for (std::int64_t i = 0; i < file.frames; ++i) taken.push_back(i);
  } else {
    // numpy.linspace(0, duration, count), times the file's rate
    const double step = duration / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
    for (std::int64_t i = 0; i < count; ++i)
      take((i > 0 && i + 1 == count ? duration : static_cast<double>(i) * step) * file.fps);
  }
  if (taken.size() % 2 != 0) taken.push_back(taken.back());
  return taken;
}

// MiniCPMV4_6VideoProcessor.sample_frames
Result<std::vector<std::int64_t>> FrameSampling::at_seconds(const VideoFacts& file,
                                                            const FrameChoice& asked) const {
  if (asked.fps || asked.min_frames)
    return fail(ErrorCode::kInvalid,
                "{} is not taken: frames are a second apart, at most max_frames of them",
                asked.fps ? "fps" : "min_frames");
  const std::int64_t most =
      std::min(asked.max_frames.value_or(*own_.max_frames), asked.num_frames.value_or(kMaxAsked));
  const double duration = static_cast<double>(file.frames) / file.fps;
  const auto index = [&file](double seconds) {
    return std::min(static_cast<std::int64_t>(seconds * file.fps), file.frames - 1);
  };
  std::vector<std::int64_t> taken;
  if (duration <= static_cast<double>(most)) {
    for (std::int64_t second = 0; static_cast<double>(second) < std::ceil(duration); ++second)
      taken.push_back(index(static_cast<double>(second)));
    return taken;
  }
  // numpy.linspace(0, last, most, dtype=int)
  constexpr double kTenth = 0.1;
  const double last = std::floor(duration / kTenth) - 1;
  const double step = most > 1 ? last / static_cast<double>(most - 1) : 0;
  for (std::int64_t i = 0; i < most; ++i) {
    const double tenth = i > 0 && i + 1 == most ? last : std::floor(static_cast<double>(i) * step);
    taken.push_back(index(tenth / 10));
  }
  return taken;
}

Result<std::vector<std::int64_t>> FrameSampling::indices(const VideoFacts& file,
                                                         const FrameChoice& asked) const {
  TRY_DO(check(asked));
  if (file.frames < 1) return fail(ErrorCode::kUndecodable, "the file has no frames");
  if (!(std::isfinite(file.fps) && file.fps > 0))
    return fail(ErrorCode::kUndecodable, "the file has {} frames a second", file.fps);
  if (rule_ == SamplingRule::kSeconds) return at_seconds(file, asked);
  const FrameChoice choice = complete(asked);
  if (*choice.min_frames > *choice.max_frames)
    return fail(ErrorCode::kInvalid, "min_frames is {}, above max_frames, which is {}",
                *choice.min_frames, *choice.max_frames);
  if (rule_ == SamplingRule::kInner) return within_ends(file, choice);
  if (rule_ == SamplingRule::kTimes) return at_times(file, choice);
  // A file of less than a group is shown whole, where the reference divides by zero.
  const std::int64_t frames = std::max(count(file, choice), std::min(file.frames, std::int64_t{1}));
  switch (rule_) {
    case SamplingRule::kSteps:
      return in_steps(file.frames, frames, 0);
    case SamplingRule::kMiddles:
      return in_steps(file.frames, frames, 0.5);
    case SamplingRule::kEnds:
    case SamplingRule::kInner:
    case SamplingRule::kTimes:
    case SamplingRule::kSeconds:
      break;
  }
  return between_ends(file.frames, frames);
}

}  // namespace saccade
