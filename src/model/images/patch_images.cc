#include "model/images/patch_images.h"

#include <algorithm>

#include "model/images/patch_grid.h"
#include "model/images/preprocessor_config.h"
#include "model/towers/patch_rows.h"

namespace saccade {
namespace {

Result<int> small_int(const json::object& from, std::string_view name, int fallback, int most) {
  TRY(const std::int64_t value, json::get_int_or(from, name, fallback));
  if (value < 1 || value > most)
    return fail(ErrorCode::kInvalid, "{} is {}, 1 to {} is possible", name, value, most);
  return static_cast<int>(value);
}

}  // namespace

Result<PatchLayout> parse_patches(const json::object& preprocessor) {
  PatchLayout patches;
  TRY(patches.patch_size, small_int(preprocessor, "patch_size", patches.patch_size, 256));
  TRY(patches.merge_size, small_int(preprocessor, "merge_size", patches.merge_size, 16));
  TRY(patches.temporal_patch_size,
      small_int(preprocessor, "temporal_patch_size", patches.temporal_patch_size, 16));
  return patches;
}

PatchImages::PatchImages(BoundsOf about, PixelBounds bounds, const PatchLayout& patches,
                         const NormalizeTable& normalize, ResampleFilter filter)
    : ImagePipeline(std::make_shared<PatchRows>(patches, normalize), filter),
      about_(about),
      bounds_(bounds),
      patches_(patches) {}

Result<PatchImages> PatchImages::parse(const json::object& preprocessor, BoundsOf about,
                                       PixelBounds bounds) {
  TRY_DO(require_image_steps(preprocessor));
  TRY(const ResampleFilter filter, parse_resample(preprocessor, ResampleFilter::kBicubic));
  TRY(bounds, read_pixel_bounds(preprocessor, bounds));
  TRY(const PatchLayout patches, parse_patches(preprocessor));
  TRY(const NormalizeTable normalize, parse_normalize(preprocessor, {}));
  return PatchImages(about, bounds, patches, normalize, filter);
}

Result<PixelBounds> PatchImages::bounds(const ImageControls& controls) const {
  TRY_DO(check_processor_kwargs(controls, kPixelKwargs));
  TRY(PixelBounds bounds, moved_pixel_bounds(controls, bounds_));
  if (controls.max_tokens) {
    if (*controls.max_tokens < 1)
      return fail(ErrorCode::kInvalid, "max_tokens of an image is {}, at least 1 is possible",
                  *controls.max_tokens);
    const std::int64_t of_token = factor() * factor() * depth();
    const std::int64_t tokens = std::min(*controls.max_tokens, kMaxPixels / of_token);
    bounds.max = std::min(bounds.max, tokens * of_token);
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
  TRY(ImageSize size, about_ == BoundsOf::kFrame
                          ? smart_resize(height, width, factor(), limits.min, limits.max)
                          : smart_resize_volume({depth(), depth(), height, width}, factor(),
                                                limits.min, limits.max));
  if (controls.max_tokens) size = within_tokens(size, *controls.max_tokens);
  return patch_grid(width, height, size, patches_);
}

}  // namespace saccade
