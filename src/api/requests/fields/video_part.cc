#include "api/requests/fields/video_part.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "api/requests/fields/fields.h"
#include "base/text/base64.h"

namespace saccade::api {
namespace {

// Images say themselves what they are: the type of this head is not looked at.
constexpr std::string_view kFrameHead = "data:image/jpeg;base64,";

constexpr std::string_view kFramesType = "data:video/jpeg";

bool starts_with_any_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(),
                    [](char l, char t) { return l == (t >= 'A' && t <= 'Z' ? t + 32 : t); });
}

// "data:video/mp4;base64,..." is long: its head says what it is.
std::string_view head_of(std::string_view url) {
  constexpr std::size_t kShown = 80;
  if (starts_with_any_case(url, "data:")) url = url.substr(0, std::min(url.find(','), kShown));
  return url.substr(0, kShown);
}

// Whether a file is behind it, encoded as a whole.
bool is_file(std::string_view url) {
  for (const std::string_view scheme : {"http://", "https://", "file://"})
    if (starts_with_any_case(url, scheme)) return true;
  return starts_with_any_case(url, "data:video/") && says_base64(url.substr(0, url.find(',')));
}

// "data:video/jpeg;base64,FRAME,FRAME,...": frames, each a JPEG.
bool is_frames(std::string_view url) {
  if (!starts_with_any_case(url, kFramesType) || url.find(',') == std::string_view::npos)
    return false;
  const std::string_view head = url.substr(0, url.find(','));
  const std::string_view rest = head.substr(kFramesType.size());
  return says_base64(head) && (rest.starts_with(';') || rest.starts_with(' '));
}

Result<std::vector<std::string>> frames_of_url(std::string_view url, std::string_view where,
                                               std::size_t room) {
  std::string_view rest = url.substr(url.find(',') + 1);
  std::vector<std::string> frames;
  if (rest.empty()) return frames;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view frame = rest.substr(0, comma);
    if (frame.empty())
      return invalid("messages", "{}: frame {} of the video is empty", where, frames.size());
    if (frames.size() == room)
      return invalid("messages", "{}: more than {} frames in one request", where, room);
    frames.push_back(std::string(kFrameHead).append(frame));
    if (comma == std::string_view::npos) return frames;
    rest.remove_prefix(comma + 1);
  }
}

Result<std::vector<std::string>> frames_of_list(const json::array& list, std::string_view where,
                                                std::size_t room) {
  if (list.size() > room)
    return invalid("messages", "{}: more than {} frames in one request", where, room);
  std::vector<std::string> frames;
  for (const json::value& frame : list) {
    if (!frame.is_string() || frame.get_string().empty())
      return invalid("messages", "{}: frame {} of the video is {}, the URL of an image is required",
                     where, frames.size(),
                     frame.is_string() ? std::string_view("empty") : json::kind_name(frame));
    frames.emplace_back(frame.get_string());
  }
  return frames;
}

// Of frames to be taken of a file.
Result<void> read_count(const json::object& from, std::string_view name, std::string_view param,
                        std::string_view where, std::optional<std::int64_t>& into) {
  const json::value* said = json::find(from, name);
  if (said == nullptr || into) return {};
  if (!said->is_int64() || said->get_int64() <= 0)
    return invalid(param, "{}: '{}' must be a whole number above 0", where, name);
  into = said->get_int64();
  return {};
}

Result<double> rate(const json::value& v, std::string_view param, std::string_view name) {
  const double fps = v.is_number() ? v.to_number<double>() : 0;
  if (!std::isfinite(fps) || fps <= 0)
    return invalid(param, "'{}' is {}, a number above 0 is required", name,
                   v.is_number() ? fmt::format("{}", fps) : std::string(json::kind_name(v)));
  return fps;
}

// Frames a second by vLLM's media_io_kwargs.video: the original's rate, times the share of its
// frames that these `count` are. Absent when it says nothing about time.
Result<std::optional<double>> original_rate(const json::object& video, std::size_t count) {
  constexpr std::string_view kParam = "media_io_kwargs";
  const auto frames = static_cast<std::int64_t>(count);
  auto most = json::get_int_or(video, "num_frames", -1);
  if (!most) return invalid(kParam, "media_io_kwargs.video: {}", most.error().message);
  if (*most >= 0 && *most < frames)
    return invalid(kParam,
                   "media_io_kwargs.video.num_frames is {}, a video has {} frames: send those that "
                   "are wanted",
                   *most, frames);
  auto sampled = json::get_bool_or(video, "do_sample_frames", false);
  if (!sampled || *sampled)
    return invalid(kParam, "media_io_kwargs.video.do_sample_frames: all frames are taken");
  const json::value* indices = json::find(video, "frames_indices");
  if (indices != nullptr && (!indices->is_array() || indices->get_array().size() != count))
    return invalid(kParam,
                   "media_io_kwargs.video.frames_indices is not a list of {} numbers, as many as "
                   "the video has frames",
                   frames);
  auto total = json::get_int_or(video, "total_num_frames", frames);
  if (!total) return invalid(kParam, "media_io_kwargs.video: {}", total.error().message);
  if (*total < frames)
    return invalid(kParam, "media_io_kwargs.video.total_num_frames is {}, a video has {} frames",
                   *total, frames);
  const json::value* original = json::find(video, "fps");
  if (original == nullptr) return std::optional<double>();
  TRY(const double fps, rate(*original, kParam, "media_io_kwargs.video.fps"));
  return std::optional<double>(fps * static_cast<double>(frames) / static_cast<double>(*total));
}

struct FileWishes {
  std::optional<double> fps;
  std::optional<std::int64_t> num_frames;
};

// media_io_kwargs.video for files; vLLM's -1 and 0 say nothing.
Result<FileWishes> wishes_of_files(const json::object& video) {
  constexpr std::string_view kParam = "media_io_kwargs";
  FileWishes wishes;
  auto frames = json::get_int_or(video, "num_frames", -1);
  if (!frames) return invalid(kParam, "media_io_kwargs.video: {}", frames.error().message);
  if (*frames > 0) wishes.num_frames = *frames;
  auto fps = json::get_double_or(video, "fps", -1);
  if (!fps) return invalid(kParam, "media_io_kwargs.video: {}", fps.error().message);
  if (*fps > 0) wishes.fps = *fps;
  return wishes;
}

// mm_processor_kwargs.fps for video `index` of `count`.
Result<std::optional<double>> stated_rate(const json::value& fps, std::size_t index,
                                          std::size_t count) {
  constexpr std::string_view kParam = "mm_processor_kwargs";
  if (!fps.is_array()) return rate(fps, kParam, "mm_processor_kwargs.fps");
  const json::array& list = fps.get_array();
  if (list.size() != count)
    return invalid(kParam, "mm_processor_kwargs.fps has {} numbers for {} videos", list.size(),
                   count);
  return rate(list[index], kParam, "mm_processor_kwargs.fps");
}

}  // namespace

Result<VideoPart> read_video(const json::object& part, std::string_view where, std::size_t room) {
  const json::value* v = json::find(part, "video_url");
  if (v == nullptr) v = json::find(part, "video");
  if (v == nullptr) return invalid("messages", "{}: 'video_url' is missing", where);
  const json::object* holder = &part;
  if (const json::object* inner = v->if_object()) {
    holder = inner;
    v = json::find(*inner, "url");
    if (v == nullptr) return invalid("messages", "{}: 'url' is missing", where);
  }
  VideoPart video;
  if (v->is_array()) {
    TRY(video.frames, frames_of_list(v->get_array(), where, room));
  } else if (v->is_string() && is_frames(v->get_string())) {
    TRY(video.frames, frames_of_url(v->get_string(), where, room));
  } else if (v->is_string() && is_file(v->get_string())) {
    video.file = v->get_string();
  } else if (v->is_string()) {
    return invalid("messages",
                   "{}: '{}' is neither a video file (data:video/mp4;base64,..., http(s):// or "
                   "file://) nor a list of frames (data:video/jpeg;base64,FRAME,FRAME,..., or a "
                   "list of image URLs as 'video')",
                   where, head_of(v->get_string()));
  } else {
    return invalid("messages", "{}: the video is {}, a URL or a list of frames is required", where,
                   json::kind_name(*v));
  }
  if (video.frames.empty() && video.file.empty())
    return invalid("messages", "{}: the video has no frames", where);

  const auto member = [&](std::string_view name) {
    const json::value* inner = json::find(*holder, name);
    return inner != nullptr ? inner : json::find(part, name);
  };
  for (const std::string_view name : {"fps", "sample_fps"}) {
    const json::value* said = member(name);
    if (said == nullptr || video.fps) continue;
    TRY(video.fps, rate(*said, "messages", fmt::format("{}: {}", where, name)));
  }
  if (!video.file.empty()) {
    for (const json::object* from : {holder, &part}) {
      TRY_DO(read_count(*from, "num_frames", "messages", where, video.num_frames));
      TRY_DO(read_count(*from, "nframes", "messages", where, video.num_frames));
      TRY_DO(read_count(*from, "min_frames", "messages", where, video.min_frames));
      TRY_DO(read_count(*from, "max_frames", "messages", where, video.max_frames));
    }
  }
  const auto pixels = [&](std::string_view name,
                          std::optional<std::int64_t>& into) -> Result<void> {
    const json::value* said = member(name);
    if (said == nullptr) return {};
    if (!said->is_int64() || said->get_int64() <= 0)
      return invalid("messages", "{}: '{}' must be a whole number above 0", where, name);
    into = said->get_int64();
    return {};
  };
  TRY_DO(pixels("min_pixels", video.min_pixels));
  TRY_DO(pixels("max_pixels", video.max_pixels));
  TRY_DO(pixels("total_pixels", video.total_pixels));
  return video;
}

Result<void> set_video_rates(std::span<VideoPart> videos, json::object& mm_processor_kwargs,
                             const json::object* media_io_kwargs) {
  constexpr std::string_view kKwargs = "mm_processor_kwargs";
  const auto is_list = [](const VideoPart& video) { return video.file.empty(); };
  const bool lists = std::ranges::any_of(videos, is_list) || videos.empty();
  const bool files = !std::ranges::all_of(videos, is_list);
  TRY(const bool sampled, json::get_bool_or(mm_processor_kwargs, "do_sample_frames", files));
  if (sampled && !files)
    return invalid(kKwargs, "mm_processor_kwargs.do_sample_frames is true: all frames are taken");
  if (!sampled && files)
    return invalid(kKwargs,
                   "mm_processor_kwargs.do_sample_frames is false: of a video file frames are "
                   "sampled; num_frames says how many");
  mm_processor_kwargs.erase("do_sample_frames");
  std::array<std::optional<std::int64_t>, 3> counts;
  constexpr std::array<std::string_view, 3> kCounts = {"num_frames", "min_frames", "max_frames"};
  for (std::size_t i = 0; i < kCounts.size() && !lists; ++i) {
    TRY_DO(read_count(mm_processor_kwargs, kCounts[i], kKwargs, kKwargs, counts[i]));
    mm_processor_kwargs.erase(kCounts[i]);
  }
  const json::value* found = json::find(mm_processor_kwargs, "fps");
  const json::value stated = found == nullptr ? json::value() : *found;
  mm_processor_kwargs.erase("fps");
  const json::value* io =
      media_io_kwargs == nullptr ? nullptr : json::find(*media_io_kwargs, "video");
  for (std::size_t i = 0; i < videos.size(); ++i) {
    VideoPart& video = videos[i];
    std::optional<double> fps;
    if (!is_list(video)) {
      FileWishes wishes;
      if (io != nullptr && io->is_object()) {
        TRY(wishes, wishes_of_files(io->get_object()));
      }
      fps = wishes.fps;
      if (!video.num_frames) video.num_frames = counts[0] ? counts[0] : wishes.num_frames;
      if (!video.min_frames) video.min_frames = counts[1];
      if (!video.max_frames) video.max_frames = counts[2];
    } else if (io != nullptr && io->is_object()) {
      TRY(fps, original_rate(io->get_object(), video.frames.size()));
    }
    if (!stated.is_null()) {
      TRY(fps, stated_rate(stated, i, videos.size()));
    }
    if (!video.fps) video.fps = fps;
  }
  return {};
}

}  // namespace saccade::api
