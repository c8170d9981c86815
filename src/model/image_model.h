// A model that sees: an image pipeline, a vision tower and a decoder. What every family with images
// is; prompts are its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/decoder_config.h"
#include "model/family.h"
#include "model/model.h"
#include "model/text_decoder.h"

namespace saccade {

// From an image's size to its layout, from its pixels to the tower's input rows. Immutable; any
// thread.
class ImagePipeline {
 public:
  virtual ~ImagePipeline() = default;
  virtual Result<ImageLayout> layout(int width, int height,
                                     const ImageControls& controls) const = 0;
  // The 8-bit pixels that are normalised and cut: tiles stand below each other. `pixels` has the
  // layout's original size.
  virtual Pixels resized(const Pixels& pixels, const ImageLayout& layout) const = 0;
  // How rows are made of them. The same for every image.
  virtual std::shared_ptr<const PatchCutter> cutter() const = 0;
  // Of the largest image under the checkpoint's own limits.
  virtual std::int64_t max_patches() const = 0;
  virtual std::int64_t max_tokens() const = 0;
};

// From input rows to embeddings.
class VisionTower {
 public:
  virtual ~VisionTower() = default;
  virtual void add_weights(WeightTable& table) = 0;
  virtual void set_compute(DType compute) = 0;
  virtual Result<void> reserve(Device& device, std::int64_t patch_rows) = 0;
  virtual std::size_t scratch_bytes() const = 0;
  // As Model::begin_encode.
  virtual std::unique_ptr<EncodeRun> begin(Stream& stream,
                                           std::span<const PreparedImage* const> images,
                                           std::span<const View> out, const Tap& tap) = 0;
};

struct ImageModelParts {
  std::string_view family;
  DecoderConfig decoder;  // parsed, with the family's own settings applied
  DecoderNames names;
  std::unique_ptr<ImagePipeline> images;
  std::unique_ptr<VisionTower> tower;
};

class ImageModel : public LoadableModel {
 public:
  // The tower is whole on every rank.
  Result<void> split(Collective& ranks) override;
  WeightTable weight_table(Parts parts) override;
  void set_dtypes(DType compute, DType kv) override;
  Result<void> reserve(Device& device, const Capacity& capacity) override;
  std::size_t scratch_bytes() const override;
  void forward(Stream& stream, const Batch& batch, const Tap& tap) override;

  // kTooLarge with both numbers for an image of more patches than reserve() was told of.
  Result<ImageLayout> image_layout(int width, int height,
                                   const ImageControls& controls) const override;
  Result<Pixels> resized_image(const Pixels& pixels, const ImageLayout& layout) const override;
  Result<PreparedImage> prepare_image(const Pixels& pixels,
                                      const ImageLayout& layout) const override;
  std::int64_t max_image_patches() const override { return images_->max_patches(); }
  std::int64_t max_image_tokens() const override { return images_->max_tokens(); }
  std::unique_ptr<EncodeRun> begin_encode(Stream& stream,
                                          std::span<const PreparedImage* const> images,
                                          std::span<const View> out, const Tap& tap) override;

 protected:
  // `checkpoint` says the end tokens.
  Result<void> assemble(const Checkpoint& checkpoint, ImageModelParts parts);
  // kUndecodable unless the pixels have the layout's original size.
  static Result<void> check_decoded(const Pixels& pixels, const ImageLayout& layout);
  // kTooLarge with both numbers for more patches than reserve() was told of; `what` is "an image".
  Result<void> check_fits(std::string_view what, int width, int height, std::int64_t patches) const;
  // The i-th `placeholder` repeated for the rows of image i; positions count tokens.
  Result<Prompt> expand_images(std::span<const TokenId> ids, TokenId placeholder,
                               std::span<const ImageLayout> images) const;

 private:
  DecoderNames names_;
  TextDecoder text_;
  std::unique_ptr<ImagePipeline> images_;
  std::unique_ptr<VisionTower> tower_;
  Parts parts_ = Parts::kAll;  // that weights were asked for
  std::int64_t most_patches_ = 0;
};

// Member `name` of a configuration that must be an object: vision_config.
Result<const json::object*> config_section(const json::object& config, std::string_view name);

// Extents of a section of config.json: `into` holds the default; a value outside [1, most] is
// kInvalid, naming the section and the field.
struct ExtentField {
  std::string_view name;
  std::int64_t* into;
  std::int64_t most;
};
Result<void> read_extents(const json::object& section, std::string_view section_name,
                          std::span<const ExtentField> fields);

}  // namespace saccade
