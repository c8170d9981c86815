#include "model/image_processor.h"

#include <utility>
#include <vector>

#include "model/given_rows.h"
#include "model/placeholders.h"

namespace saccade {

void describe_images(const ImagePipeline& images, ModelShape& shape) {
  shape.has_vision = true;
  shape.max_image_patches = images.max_patches();
  shape.max_image_tokens = images.max_tokens();
}

Result<ImageLayout> ImagePipeline::given_layout(const GivenRows&) const {
  return fail(ErrorCode::kUnsupported,
              "{} is not taken: prompts say how an image was cut, and rows do not tell",
              kGivenRows);
}

Result<ImageLayout> ImageProcessor::image_layout(int width, int height,
                                                 const ImageControls& controls) const {
  if (controls.min_pixels && controls.max_pixels && *controls.min_pixels > *controls.max_pixels)
    return fail(ErrorCode::kInvalid, "min_pixels {} is over max_pixels {}", *controls.min_pixels,
                *controls.max_pixels);
  TRY(ImageLayout layout, images_->layout(width, height, controls));
  TRY_DO(check_fits("an image", width, height, layout.grid_t * layout.grid_h * layout.grid_w));
  return layout;
}

Result<ImageLayout> ImageProcessor::given_layout(const GivenRows& given) const {
  auto layout = images_->given_layout(given);
  if (!layout) return fail_within(shape().family, std::move(layout).error());
  if (given.rows > shape().max_image_tokens)
    return fail(ErrorCode::kInvalid, "{} has {} rows, the largest image has {}", kGivenRows,
                given.rows, shape().max_image_tokens);
  return layout;
}

Result<void> ImageProcessor::check_decoded(const Pixels& pixels, const ImageLayout& layout) {
  if (pixels.width != layout.width || pixels.height != layout.height)
    return fail(ErrorCode::kUndecodable, "image decoded to {}x{}, its header said {}x{}",
                pixels.width, pixels.height, layout.width, layout.height);
  return {};
}

Result<Pixels> ImageProcessor::resized_image(const Pixels& pixels,
                                             const ImageLayout& layout) const {
  TRY_DO(check_decoded(pixels, layout));
  return images_->resized(pixels, layout);
}

Result<PreparedImage> ImageProcessor::prepare_image(const Pixels& pixels,
                                                    const ImageLayout& layout) const {
  PreparedImage prepared{layout, {}, images_->cutter()};
  TRY(prepared.frames.emplace_back(), resized_image(pixels, layout));
  return prepared;
}

Result<Prompt> ImageProcessor::expand_images(std::span<const TokenId> ids, TokenId placeholder,
                                             std::span<const ImageLayout> images) const {
  std::vector<std::int64_t> counts;
  for (const ImageLayout& image : images) counts.push_back(image.tokens);
  TRY(ExpandedPrompt expanded, expand_placeholders(ids, placeholder, counts));
  TRY(Prompt prompt, wrap_tokens(std::move(expanded.ids)));
  prompt.images = std::move(expanded.images);
  return prompt;
}

}  // namespace saccade
