#include "model/patch_images.h"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <optional>

#include "model/preprocessor_config.h"

namespace saccade {
namespace {

constexpr std::int64_t kMostPixels = std::int64_t{1} << 34;

Result<std::int64_t> pixel_count(std::string_view name, std::int64_t value) {
  if (value < 1 || value > kMostPixels) {
    Error error{ErrorCode::kInvalid,
                fmt::format("{} is {}, 1 to {} is possible", name, value, kMostPixels),
                std::string(name)};
    return fail(std::move(error));
  }
  return value;
}

// min_pixels and max_pixels of a preprocessor configuration or of mm_processor_kwargs: by these
// names, or as size.{shortest_edge, longest_edge}, which are areas here.
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

Result<int> small_int(const json::object& from, std::string_view name, int fallback, int most) {
  TRY(const std::int64_t value, json::get_int_or(from, name, fallback));
  if (value < 1 || value > most)
    return fail(ErrorCode::kInvalid, "{} is {}, 1 to {} is possible", name, value, most);
  return static_cast<int>(value);
}

}  // namespace

Result<PatchImages> PatchImages::parse(const json::object& preprocessor) {
  TRY_DO(require_image_steps(preprocessor));
  TRY(const ResampleFilter filter, parse_resample(preprocessor, ResampleFilter::kBicubic));
  if (filter != ResampleFilter::kBicubic)
    return fail(ErrorCode::kUnsupported, "resample is not bicubic");

  PatchImages images;
  TRY(const StatedBounds stated, stated_bounds(preprocessor));
  images.min_pixels_ = stated.min.value_or(images.min_pixels_);
  images.max_pixels_ = stated.max.value_or(images.max_pixels_);
  PatchLayout& patches = images.patches_;
  TRY(patches.patch_size, small_int(preprocessor, "patch_size", patches.patch_size, 256));
  TRY(patches.merge_size, small_int(preprocessor, "merge_size", patches.merge_size, 16));
  TRY(patches.temporal_patch_size,
      small_int(preprocessor, "temporal_patch_size", patches.temporal_patch_size, 16));
  TRY(images.normalize_, parse_normalize(preprocessor, {}));
  return images;
}

Result<PatchImages::PixelBounds> PatchImages::bounds(const ImageControls& controls) const {
  constexpr std::array<std::string_view, 3> kKnown = {"min_pixels", "max_pixels", "size"};
  TRY_DO(check_processor_kwargs(controls, kKnown));
  TRY(StatedBounds stated, stated_bounds(controls.processor_kwargs));
  if (controls.min_pixels) {
    TRY(stated.min, pixel_count("min_pixels", *controls.min_pixels));
  }
  if (controls.max_pixels) {
    TRY(stated.max, pixel_count("max_pixels", *controls.max_pixels));
  }
  if (stated.min && stated.max && *stated.min > *stated.max)
    return fail(ErrorCode::kInvalid, "min_pixels {} is over max_pixels {}", *stated.min,
                *stated.max);

  // One bound alone moves the checkpoint's other bound out of its way.
  PixelBounds bounds{stated.min.value_or(min_pixels_), stated.max.value_or(max_pixels_)};
  if (stated.max) bounds.min = std::min(bounds.min, bounds.max);
  bounds.max = std::max(bounds.min, bounds.max);
  if (controls.max_tokens) {
    if (*controls.max_tokens < 1)
      return fail(ErrorCode::kInvalid, "max_tokens of an image is {}, at least 1 is possible",
                  *controls.max_tokens);
    const std::int64_t tokens = std::min(*controls.max_tokens, kMostPixels / (factor() * factor()));
    bounds.max = std::min(bounds.max, tokens * factor() * factor());
    bounds.min = std::min(bounds.min, bounds.max);
  }
  return bounds;
}

// A side is never under one token, so a narrow image can be over a small budget: its long side
// yields.
ImageSize PatchImages::within_tokens(ImageSize size, std::int64_t most) const {
  const auto unit = static_cast<int>(factor());
  int& longer = size.width >= size.height ? size.width : size.height;
  const std::int64_t across = std::min(size.width, size.height) / unit;
  longer = static_cast<int>(
               std::min<std::int64_t>(longer / unit, std::max<std::int64_t>(most / across, 1))) *
           unit;
  return size;
}

Result<ImageLayout> PatchImages::layout(int width, int height,
                                        const ImageControls& controls) const {
  TRY(const PixelBounds limits, bounds(controls));
  TRY(ImageSize size, smart_resize(height, width, factor(), limits.min, limits.max));
  if (controls.max_tokens) size = within_tokens(size, *controls.max_tokens);
  ImageLayout layout;
  layout.width = width;
  layout.height = height;
  layout.resized_width = size.width;
  layout.resized_height = size.height;
  layout.grid_h = size.height / patches_.patch_size;
  layout.grid_w = size.width / patches_.patch_size;
  layout.tokens = layout.grid_h * layout.grid_w / (patches_.merge_size * patches_.merge_size);
  layout.key = fmt::format("{}x{}", size.width, size.height);
  return layout;
}

Pixels PatchImages::resized(const Pixels& pixels, const ImageLayout& layout) const {
  return resize(pixels, layout.resized_width, layout.resized_height, ResampleFilter::kBicubic);
}

PreparedImage PatchImages::cut(const Pixels& resized, const ImageLayout& layout) const {
  PreparedImage prepared;
  prepared.layout = layout;
  prepared.patch_cols = patches_.row_length();
  prepared.patches.resize(static_cast<std::size_t>(patches_.rows(resized) * prepared.patch_cols));
  patchify(resized, patches_, normalize_, prepared.patches);
  return prepared;
}

}  // namespace saccade
