// TTFT of one streamed image request after image size: the profile that image sizing decides by.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "bench/serve_settings.h"

namespace saccade::bench {

struct ProfileSettings {
  ServeSettings serve;              // target, checks, log
  std::vector<std::int32_t> sides;  // square noise images; or
  std::vector<std::string> files;   // image files
  int repeats = 3;                  // requests an image; the median counts
  bool file_urls = false;           // files as file:// URLs instead of their bytes
  std::string output;               // JSON for the image-size controller
};

// "1700..3840" (in steps of 28 * 4), "1700..3840:200", "256,512,1024".
Result<std::vector<std::int32_t>> parse_sides(std::string_view text);

// Vision tokens of Qwen2-VL and Qwen2.5-VL for an image: smart_resize to multiples of 28 within
// 56 * 56 to 12,845,056 pixels, a token per 28 * 28 pixels. Errors are smart_resize's.
Result<std::int64_t> qwen_vision_tokens(std::int32_t width, std::int32_t height);

// TTFT in seconds against vision tokens: a + b t + c t^2 by least squares, c 0 unless it is
// positive and there are three sizes.
struct TtftCurve {
  double a = 0;
  double b = 0;
  double c = 0;
  double at(double tokens) const { return a + tokens * (b + tokens * c); }
};
struct TtftPoint {
  std::string name;
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::int64_t tokens = 0;  // the server's count, else by qwen_vision_tokens
  std::vector<double> ttft_s;
  double median_s = 0;
  std::string first_event;  // of its first request, as the server sent it
};
TtftCurve fit_curve(const std::vector<TtftPoint>& points);

// What to print; the JSON goes to settings.output.
Result<std::string> profile_ttft(const ProfileSettings& settings, std::atomic<bool>& stop);

}  // namespace saccade::bench
