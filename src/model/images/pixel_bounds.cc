#include "model/images/pixel_bounds.h"

#include <algorithm>
#include <boost/json/value.hpp>
#include <optional>
#include <string>

#include "model/images/preprocessor_config.h"

namespace saccade {
namespace {

struct StatedBounds {
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> max;
};

Result<StatedBounds> stated_bounds(const json::object& from) {
  StatedBounds stated;
  const auto read = [&](const json::object& section, std::string_view name,
                        std::optional<std::int64_t>& into) -> Result<void> {
    if (json::find(section, name) == nullptr) return {};
    TRY(const std::int64_t value, json::get_int(section, name));
    TRY(into, pixel_count(name, value));
    return {};
  };
  if (const json::value* size = json::find(from, "size"); size != nullptr && size->is_object()) {
    TRY_DO(read(size->get_object(), "shortest_edge", stated.min));
    TRY_DO(read(size->get_object(), "longest_edge", stated.max));
  }
  TRY_DO(read(from, "min_pixels", stated.min));
  TRY_DO(read(from, "max_pixels", stated.max));
  return stated;
}

Result<void> require_order(const StatedBounds& stated) {
  if (stated.min && stated.max && *stated.min > *stated.max)
    return fail(ErrorCode::kInvalid, "min_pixels {} is over max_pixels {}", *stated.min,
                *stated.max);
  return {};
}

}  // namespace

Result<std::int64_t> pixel_count(std::string_view name, std::int64_t value) {
  if (value < 1 || value > kMaxPixels) {
    Error error{ErrorCode::kInvalid,
                fmt::format("{} is {}, 1 to {} is possible", name, value, kMaxPixels),
                std::string(name)};
    return fail(std::move(error));
  }
  return value;
}

Result<PixelBounds> read_pixel_bounds(const json::object& preprocessor, PixelBounds fallback) {
  TRY(const StatedBounds stated, stated_bounds(preprocessor));
  TRY_DO(require_order(stated));
  if (!stated.min) PreprocessorDefaults::note("min_pixels", std::to_string(fallback.min));
  if (!stated.max) PreprocessorDefaults::note("max_pixels", std::to_string(fallback.max));
  return PixelBounds{stated.min.value_or(fallback.min), stated.max.value_or(fallback.max)};
}

Result<PixelBounds> moved_pixel_bounds(const ImageControls& controls, PixelBounds of_checkpoint) {
  TRY(StatedBounds stated, stated_bounds(controls.processor_kwargs));
  if (controls.min_pixels) {
    TRY(stated.min, pixel_count("min_pixels", *controls.min_pixels));
  }
  if (controls.max_pixels) {
    TRY(stated.max, pixel_count("max_pixels", *controls.max_pixels));
  }
  TRY_DO(require_order(stated));
  PixelBounds bounds{stated.min.value_or(of_checkpoint.min),
                     stated.max.value_or(of_checkpoint.max)};
  if (stated.max) bounds.min = std::min(bounds.min, bounds.max);
  bounds.max = std::max(bounds.min, bounds.max);
  return bounds;
}

}  // namespace saccade
