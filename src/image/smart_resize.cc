#include "image/smart_resize.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saccade {
namespace {

constexpr double kMaxAspect = 200;
constexpr std::int64_t kMaxSide = std::numeric_limits<std::int32_t>::max();

Result<void> check_resize(std::int64_t height, std::int64_t width, std::int64_t factor,
                          std::int64_t min_pixels, std::int64_t max_pixels) {
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide)
    return fail(ErrorCode::kInvalid, "image is {}x{} pixels", width, height);
  if (factor < 1 || min_pixels < 1 || max_pixels < 1) {
    return fail(ErrorCode::kInvalid, "resize to multiples of {} within {} to {} pixels", factor,
                min_pixels, max_pixels);
  }
  return {};
}

// The sides that are resized from, which are those of width x height pixels or stretched ones.
Result<void> check_aspect(double h, double w, std::int64_t height, std::int64_t width) {
  const double aspect = std::max(h, w) / std::min(h, w);
  if (aspect > kMaxAspect) {
    return fail(ErrorCode::kInvalid, "image is {}x{} pixels, aspect ratio {:.1f}, limit {}", width,
                height, aspect, kMaxAspect);
  }
  return {};
}

Result<ImageSize> resized_to(double to_h, double to_w, std::int64_t height, std::int64_t width) {
  if (to_h < 1 || to_w < 1 || std::max(to_h, to_w) > static_cast<double>(kMaxSide)) {
    return fail(ErrorCode::kInvalid, "image of {}x{} pixels would be resized to {}x{}", width,
                height, to_w, to_h);
  }
  return ImageSize{static_cast<int>(to_h), static_cast<int>(to_w)};
}

}  // namespace

Result<ImageSize> smart_resize(std::int64_t height, std::int64_t width, std::int64_t factor,
                               std::int64_t min_pixels, std::int64_t max_pixels) {
  TRY_DO(check_resize(height, width, factor, min_pixels, max_pixels));
  const double h = static_cast<double>(height);
  const double w = static_cast<double>(width);
  const double f = static_cast<double>(factor);
  TRY_DO(check_aspect(h, w, height, width));

  // nearbyint rounds half to even, as Python's round().
  double to_h = std::nearbyint(h / f) * f;
  double to_w = std::nearbyint(w / f) * f;
  if (to_h * to_w > static_cast<double>(max_pixels)) {
    const double shrink = std::sqrt(h * w / static_cast<double>(max_pixels));
    to_h = std::max(f, std::floor(h / shrink / f) * f);
    to_w = std::max(f, std::floor(w / shrink / f) * f);
  } else if (to_h * to_w < static_cast<double>(min_pixels)) {
    const double grow = std::sqrt(static_cast<double>(min_pixels) / (h * w));
    to_h = std::ceil(h * grow / f) * f;
    to_w = std::ceil(w * grow / f) * f;
  }
  return resized_to(to_h, to_w, height, width);
}

Result<ImageSize> smart_resize_volume(const FrameVolume& volume, std::int64_t factor,
                                      std::int64_t min_pixels, std::int64_t max_pixels) {
  const auto [frames, depth, height, width] = volume;
  TRY_DO(check_resize(height, width, factor, min_pixels, max_pixels));
  if (depth < 1 || frames < depth)
    return fail(ErrorCode::kInvalid, "{} frames in groups of {}", frames, depth);
  double h = static_cast<double>(height);
  double w = static_cast<double>(width);
  const double f = static_cast<double>(factor);
  if (h < f || w < f) {
    const double stretch = std::max(f / h, f / w);
    h = std::trunc(h * stretch);
    w = std::trunc(w * stretch);
  }
  TRY_DO(check_aspect(h, w, height, width));

  const double t = static_cast<double>(frames);
  const double to_t = std::nearbyint(t / static_cast<double>(depth)) * static_cast<double>(depth);
  double to_h = std::nearbyint(h / f) * f;
  double to_w = std::nearbyint(w / f) * f;
  if (to_t * to_h * to_w > static_cast<double>(max_pixels)) {
    const double shrink = std::sqrt(t * h * w / static_cast<double>(max_pixels));
    to_h = std::max(f, std::floor(h / shrink / f) * f);
    to_w = std::max(f, std::floor(w / shrink / f) * f);
  } else if (to_t * to_h * to_w < static_cast<double>(min_pixels)) {
    const double grow = std::sqrt(static_cast<double>(min_pixels) / (t * h * w));
    to_h = std::ceil(h * grow / f) * f;
    to_w = std::ceil(w * grow / f) * f;
  }
  return resized_to(to_h, to_w, height, width);
}

ImageSize fit_longest(int height, int width, int longest) {
  const double aspect = static_cast<double>(width) / height;
  const auto other = [](double exact) {
    const int side = static_cast<int>(exact);
    return std::max(side + side % 2, 1);
  };
  if (width >= height) return {.height = other(longest / aspect), .width = longest};
  return {.height = longest, .width = other(longest * aspect)};
}

std::int64_t max_resized_pixels(std::int64_t factor, std::int64_t min_pixels,
                                std::int64_t max_pixels) {
  // In squares of `factor`: the long side of the thinnest image of `area`.
  const auto longest = [](double area) { return std::sqrt(kMaxAspect * area); };
  const double square = static_cast<double>(factor) * static_cast<double>(factor);
  const double most = static_cast<double>(max_pixels) / square;
  double squares = std::max(std::floor(most), std::floor(longest(most)));
  // Growing, a short side between `across` - 1 and `across` becomes `across`.
  const double least = static_cast<double>(min_pixels) / square;
  for (double across = 1; (across - 1) * (across - 1) < least; ++across) {
    const double along =
        across == 1 ? longest(least) : std::min(least / (across - 1), longest(least));
    squares = std::max(squares, across * std::ceil(along));
  }
  return static_cast<std::int64_t>(squares * square);
}

}  // namespace saccade
