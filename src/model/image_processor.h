// A processor of images: an image pipeline beside the family's prompts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"
#include "model/processor.h"

namespace saccade {

// From an image's size to its layout, from its pixels to the tower's input rows. Immutable; any
// thread.
class ImagePipeline {
 public:
  virtual ~ImagePipeline() = default;
  virtual Result<ImageLayout> layout(int width, int height,
                                     const ImageControls& controls) const = 0;
  // Of an image that came as its rows, as if one had such (given_layouts.h). Whether one has as
  // many is asked elsewhere. A pipeline without an answer takes none: its family's prompts say how
  // an image was cut.
  virtual Result<ImageLayout> given_layout(const GivenRows& given) const;
  // The 8-bit pixels that are normalised and cut: tiles stand below each other. `pixels` has the
  // layout's original size.
  virtual Pixels resized(const Pixels& pixels, const ImageLayout& layout) const = 0;
  // How rows are made of them. The same for every image.
  virtual std::shared_ptr<const PatchCutter> cutter() const = 0;
  // Of the largest image under the checkpoint's own limits.
  virtual std::int64_t max_patches() const = 0;
  virtual std::int64_t max_tokens() const = 0;
};

// Into the shape of a model that sees: its largest image.
void describe_images(const ImagePipeline& images, ModelShape& shape);

class ImageProcessor : public Processor {
 public:
  ImageProcessor(ModelShape shape, std::unique_ptr<const ImagePipeline> images)
      : Processor(std::move(shape)), images_(std::move(images)) {}

  Result<ImageLayout> image_layout(int width, int height,
                                   const ImageControls& controls) const override;
  Result<ImageLayout> given_layout(const GivenRows& given) const override;
  Result<Pixels> resized_image(const Pixels& pixels, const ImageLayout& layout) const override;
  Result<PreparedImage> prepare_image(const Pixels& pixels,
                                      const ImageLayout& layout) const override;

 protected:
  // kUndecodable unless the pixels have the layout's original size.
  static Result<void> check_decoded(const Pixels& pixels, const ImageLayout& layout);
  // The i-th `placeholder` repeated for the rows of image i; positions count tokens.
  Result<Prompt> expand_images(std::span<const TokenId> ids, TokenId placeholder,
                               std::span<const ImageLayout> images) const;

 private:
  std::unique_ptr<const ImagePipeline> images_;
};

}  // namespace saccade
