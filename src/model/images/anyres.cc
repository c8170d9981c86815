#include "model/images/anyres.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>
#include <string_view>

#include "model/images/preprocessor_config.h"

namespace saccade {
namespace {

constexpr std::size_t kMaxPinpoints = 4096;
constexpr int kMaxGridSide = 1 << 14;

// int(round(x, 7)) of Python: printf rounds decimals correctly, as Python does.
std::int64_t rounded_to_seven(double x) {
  return std::strtoll(fmt::format("{:.7f}", x).c_str(), nullptr, 10);
}

// a // b of Python's floats.
std::int64_t floor_divide(double a, double b) {
  const double quotient = (a - std::fmod(a, b)) / b;
  const double floor = std::floor(quotient);
  return static_cast<std::int64_t>(quotient - floor > 0.5 ? floor + 1 : floor);
}

}  // namespace

ImageExtent best_pinpoint(ImageExtent original, const std::vector<ImageExtent>& pinpoints) {
  const auto area = std::int64_t{original.width} * original.height;
  ImageExtent best;
  std::int64_t most_effective = 0;
  std::int64_t least_wasted = std::numeric_limits<std::int64_t>::max();
  for (const ImageExtent& pinpoint : pinpoints) {
    const double scale = std::min(static_cast<double>(pinpoint.width) / original.width,
                                  static_cast<double>(pinpoint.height) / original.height);
    const auto width = static_cast<std::int64_t>(original.width * scale);
    const auto height = static_cast<std::int64_t>(original.height * scale);
    const std::int64_t effective = std::min(width * height, area);
    const std::int64_t wasted = std::int64_t{pinpoint.width} * pinpoint.height - effective;
    if (effective > most_effective || (effective == most_effective && wasted < least_wasted)) {
      most_effective = effective;
      least_wasted = wasted;
      best = pinpoint;
    }
  }
  return best;
}

ImageExtent fit_inside(ImageExtent original, ImageExtent target) {
  const double across = static_cast<double>(target.width) / original.width;
  const double down = static_cast<double>(target.height) / original.height;
  if (across < down)
    return {std::min(static_cast<int>(std::ceil(original.height * across)), target.height),
            target.width};
  return {target.height,
          std::min(static_cast<int>(std::ceil(original.width * down)), target.width)};
}

AnyresFeatures anyres_features(ImageExtent original, ImageExtent best,
                               const AnyresSettings& settings) {
  AnyresFeatures f;
  f.rows = best.height / settings.tile * settings.side;
  f.columns = f.across = best.width / settings.tile * settings.side;
  const double aspect = static_cast<double>(original.width) / original.height;
  const double current = static_cast<double>(f.columns) / static_cast<double>(f.rows);
  if (aspect > current) {
    const double scale = static_cast<double>(f.columns) / original.width;
    f.top = (f.rows - rounded_to_seven(original.height * scale)) / 2;
    f.rows -= 2 * f.top;
  } else {
    const double scale = static_cast<double>(f.rows) / original.height;
    f.left = (f.columns - rounded_to_seven(original.width * scale)) / 2;
    f.columns -= 2 * f.left;
  }
  f.out_rows = f.rows;
  f.out_columns = f.columns;
  const double ratio =
      std::sqrt(static_cast<double>(f.rows * f.columns) /
                static_cast<double>(settings.max_tiles * settings.side * settings.side));
  if (ratio > 1.1) {
    f.out_rows = floor_divide(static_cast<double>(f.rows), ratio);
    f.out_columns = floor_divide(static_cast<double>(f.columns), ratio);
  }
  return f;
}

ImageLayout AnyresImages::layout_for(ImageExtent original, ImageExtent best) const {
  const AnyresFeatures features = anyres_features(original, best, settings_);
  ImageLayout layout;
  layout.width = original.width;
  layout.height = original.height;
  layout.resized_width = best.width;
  layout.resized_height = best.height;
  layout.grid_t = 1 + std::int64_t{best.height / settings_.tile} * (best.width / settings_.tile);
  layout.grid_h = layout.grid_w = settings_.side;
  layout.tokens = settings_.side * settings_.side + features.out_rows * (features.out_columns + 1);
  layout.key = fmt::format("{}x{}", best.width, best.height);
  return layout;
}

Result<ImageLayout> AnyresImages::layout(int width, int height,
                                         const ImageControls& controls) const {
  TRY_DO(check_processor_kwargs(controls, std::array{std::string_view("image_grid_pinpoints")}));
  const ImageExtent original{height, width};
  TRY(std::vector<ImageExtent> pinpoints,
      parse_pinpoints(controls.processor_kwargs, settings_.tile, settings_.pinpoints));
  const auto area = [](const ImageExtent& each) { return std::int64_t{each.height} * each.width; };
  if (controls.min_pixels) {
    const ImageExtent largest = *std::ranges::max_element(pinpoints, {}, area);
    std::erase_if(pinpoints, [&](const auto& each) { return area(each) < *controls.min_pixels; });
    if (pinpoints.empty()) pinpoints.push_back(largest);
  }
  const ImageExtent smallest = *std::ranges::min_element(pinpoints, {}, area);
  if (controls.max_pixels)
    std::erase_if(pinpoints, [&](const auto& each) { return area(each) > *controls.max_pixels; });
  if (controls.max_tokens)
    std::erase_if(pinpoints, [&](const auto& each) {
      return layout_for(original, each).tokens > *controls.max_tokens;
    });
  return layout_for(original, pinpoints.empty() ? smallest : best_pinpoint(original, pinpoints));
}

Pixels AnyresImages::resized(const Pixels& pixels, const ImageLayout& layout,
                             const Cancelled& cancelled) const {
  const ImageExtent best{layout.resized_height, layout.resized_width};
  const ImageExtent inside = fit_inside({pixels.height, pixels.width}, best);
  const int tile = settings_.tile;
  Pixels padded = black_pixels(best.width, best.height);
  paste(resize(pixels, inside.width, inside.height, filter(), cancelled),
        (best.width - inside.width) / 2, (best.height - inside.height) / 2, padded);

  Pixels stacked{tile, 0, {}};
  append_tiles(resize(pixels, tile, tile, filter(), cancelled), stacked);
  append_tiles(padded, stacked);
  return stacked;
}

std::int64_t AnyresImages::max_patches() const {
  std::int64_t most = 0;
  for (const ImageExtent& each : settings_.pinpoints)
    most =
        std::max(most, std::int64_t{each.height / settings_.tile} * (each.width / settings_.tile));
  return (most + 1) * settings_.side * settings_.side;
}

// Of an image that is not unpadded: a scaled one has at most 1.21 times the features of max_tiles
// tiles, and as many newlines as it has rows.
std::int64_t AnyresImages::max_tokens() const {
  std::int64_t most = 0;
  for (const ImageExtent& each : settings_.pinpoints) {
    const std::int64_t rows = each.height / settings_.tile * settings_.side;
    const std::int64_t columns = each.width / settings_.tile * settings_.side;
    const auto limit = static_cast<std::int64_t>(
        1.21 * static_cast<double>(settings_.max_tiles * settings_.side * settings_.side));
    most = std::max(most, std::min(rows * columns, limit) + rows);
  }
  return settings_.side * settings_.side + most;
}

Result<std::vector<ImageExtent>> parse_pinpoints(const json::object& from, int tile,
                                                 const std::vector<ImageExtent>& fallback) {
  const json::value* list = json::find(from, "image_grid_pinpoints");
  if (list == nullptr) return fallback;
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalid,
                "image_grid_pinpoints is not a list of (height, width), multiples of {} up to {}",
                tile, kMaxGridSide);
  };
  if (!list->is_array() || list->get_array().empty() || list->get_array().size() > kMaxPinpoints)
    return wrong();
  std::vector<ImageExtent> pinpoints;
  for (const json::value& each : list->get_array()) {
    if (!each.is_array() || each.get_array().size() != 2) return wrong();
    std::array<int, 2> sides{};
    for (std::size_t i = 0; i < 2; ++i) {
      const json::value& side = each.get_array()[i];
      if (!side.is_int64() || side.get_int64() < tile || side.get_int64() > kMaxGridSide ||
          side.get_int64() % tile != 0)
        return wrong();
      sides[i] = static_cast<int>(side.get_int64());
    }
    pinpoints.push_back({sides[0], sides[1]});
  }
  return pinpoints;
}

std::vector<ImageExtent> every_pinpoint(int tile) {
  std::vector<ImageExtent> pinpoints;
  for (int height = 1; height <= 6; ++height) {
    for (int width = 1; width <= 6; ++width) pinpoints.push_back({height * tile, width * tile});
  }
  return pinpoints;
}

}  // namespace saccade
