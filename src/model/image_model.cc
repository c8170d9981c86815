#include "model/image_model.h"

#include <boost/json/value.hpp>
#include <utility>

#include "model/placeholders.h"

namespace saccade {

Result<void> ImageModel::assemble(const Checkpoint& checkpoint, ImageModelParts parts) {
  shape_.family = parts.family;
  describe_decoder(parts.decoder, shape_);
  TRY(shape_.eos, eos_tokens(checkpoint));
  shape_.has_vision = true;
  names_ = std::move(parts.names);
  text_ = TextDecoder(std::move(parts.decoder.settings));
  images_ = std::move(parts.images);
  tower_ = std::move(parts.tower);
  return {};
}

Result<void> ImageModel::split(Collective& ranks) {
  TRY_DO(text_.split(ranks));
  shape_.layers = text_.settings().layers;
  return {};
}

WeightTable ImageModel::weight_table(Parts parts) {
  parts_ = parts;
  WeightTable table;
  WeightTable absent;
  tower_->add_weights(parts == Parts::kText ? absent : table);
  text_.add_weights(parts == Parts::kVision ? absent : table, names_);
  table.ignore(absent);
  return table;
}

void ImageModel::set_dtypes(DType compute, DType kv) {
  tower_->set_compute(compute);
  text_.set_compute(compute);
  shape_.kv_dtype = kv;
}

Result<void> ImageModel::reserve(Device& device, const Capacity& capacity) {
  most_patches_ = capacity.image_patches;
  if (parts_ != Parts::kVision) TRY_DO(text_.reserve(device, capacity));
  return capacity.image_patches > 0 && parts_ != Parts::kText
             ? tower_->reserve(device, capacity.image_patches)
             : Result<void>{};
}

std::size_t ImageModel::scratch_bytes() const {
  return text_.scratch_bytes() + tower_->scratch_bytes();
}

void ImageModel::forward(Stream& stream, const Batch& batch, const Tap& tap) {
  CHECK(parts_ != Parts::kVision, "{} was loaded without its text", shape_.family);
  text_.forward(stream, batch, tap);
}

Result<ImageLayout> ImageModel::image_layout(int width, int height,
                                             const ImageControls& controls) const {
  if (controls.min_pixels && controls.max_pixels && *controls.min_pixels > *controls.max_pixels)
    return fail(ErrorCode::kInvalid, "min_pixels {} is over max_pixels {}", *controls.min_pixels,
                *controls.max_pixels);
  TRY(ImageLayout layout, images_->layout(width, height, controls));
  TRY_DO(check_fits("an image", width, height, layout.grid_t * layout.grid_h * layout.grid_w));
  return layout;
}

Result<void> ImageModel::check_fits(std::string_view what, int width, int height,
                                    std::int64_t patches) const {
  const std::int64_t most = most_patches_ > 0 ? most_patches_ : max_image_patches();
  if (patches > most)
    return fail(ErrorCode::kTooLarge,
                "{} of {}x{} pixels becomes {} patches, limit {}; a lower max_pixels makes it "
                "smaller",
                what, width, height, patches, most);
  return {};
}

Result<void> ImageModel::check_decoded(const Pixels& pixels, const ImageLayout& layout) {
  if (pixels.width != layout.width || pixels.height != layout.height)
    return fail(ErrorCode::kUndecodable, "image decoded to {}x{}, its header said {}x{}",
                pixels.width, pixels.height, layout.width, layout.height);
  return {};
}

Result<Pixels> ImageModel::resized_image(const Pixels& pixels, const ImageLayout& layout) const {
  TRY_DO(check_decoded(pixels, layout));
  return images_->resized(pixels, layout);
}

Result<PreparedImage> ImageModel::prepare_image(const Pixels& pixels,
                                                const ImageLayout& layout) const {
  PreparedImage prepared{layout, {}, images_->cutter()};
  TRY(prepared.frames.emplace_back(), resized_image(pixels, layout));
  return prepared;
}

std::unique_ptr<EncodeRun> ImageModel::begin_encode(Stream& stream,
                                                    std::span<const PreparedImage* const> images,
                                                    std::span<const View> out, const Tap& tap) {
  CHECK(parts_ != Parts::kText, "{} was loaded without its tower", shape_.family);
  return tower_->begin(stream, images, out, tap);
}

Result<Prompt> ImageModel::expand_images(std::span<const TokenId> ids, TokenId placeholder,
                                         std::span<const ImageLayout> images) const {
  std::vector<std::int64_t> counts;
  for (const ImageLayout& image : images) counts.push_back(image.tokens);
  TRY(ExpandedPrompt expanded, expand_placeholders(ids, placeholder, counts));
  TRY(Prompt prompt, wrap_tokens(std::move(expanded.ids)));
  prompt.images = std::move(expanded.images);
  return prompt;
}

Result<const json::object*> config_section(const json::object& config, std::string_view name) {
  const json::value* section = json::find(config, name);
  if (section == nullptr || !section->is_object())
    return fail(ErrorCode::kInvalid, "{} is missing", name);
  return &section->get_object();
}

Result<void> read_extents(const json::object& section, std::string_view section_name,
                          std::span<const ExtentField> fields) {
  for (const ExtentField& field : fields) {
    TRY(*field.into, json::get_int_or(section, field.name, *field.into));
    if (*field.into < 1 || *field.into > field.most)
      return fail(ErrorCode::kInvalid, "{}.{} is {}, 1 to {} is possible", section_name, field.name,
                  *field.into, field.most);
  }
  return {};
}

}  // namespace saccade
