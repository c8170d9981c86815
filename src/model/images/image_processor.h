// A processor of images and videos: a pipeline of each beside the family's prompts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "image/pixels.h"
#include "model/prompts/processor.h"

namespace saccade {

// From an image's size to its layout, from its pixels to the tower's input rows. Immutable; any
// thread.
class ImagePipeline {
 public:
  // How rows are made of resized pixels, the same for every image, and how those are resized.
  ImagePipeline(std::shared_ptr<const PatchCutter> cutter, ResampleFilter filter)
      : cutter_(std::move(cutter)), filter_(filter) {}
  virtual ~ImagePipeline() = default;
  virtual Result<ImageLayout> layout(int width, int height,
                                     const ImageControls& controls) const = 0;
  // Of an image that came as its rows, as if one had such (given_layouts.h). Whether one has as
  // many is asked elsewhere. A pipeline without an answer takes none: its family's prompts say how
  // an image was cut.
  virtual Result<ImageLayout> given_layout(const GivenRows& given) const;
  // The 8-bit pixels that are normalised and cut: tiles stand below each other. `pixels` has the
  // layout's original size. Of no use once `cancelled` has said so. Resized once, unless a pipeline
  // does more.
  virtual Pixels resized(const Pixels& pixels, const ImageLayout& layout,
                         const Cancelled& cancelled) const;
  const std::shared_ptr<const PatchCutter>& cutter() const { return cutter_; }
  // Of the largest image under the checkpoint's own limits.
  virtual std::int64_t max_patches() const = 0;
  virtual std::int64_t max_tokens() const = 0;

 protected:
  ResampleFilter filter() const { return filter_; }

 private:
  std::shared_ptr<const PatchCutter> cutter_;
  ResampleFilter filter_;
};

// The same of videos, whose frames are resized one by one and encoded in groups of
// ModelShape::frames_per_grid. Immutable; any thread.
class VideoPipeline {
 public:
  virtual ~VideoPipeline() = default;
  // Of a whole video: grid_t groups of frames. kInvalid for controls out of range.
  virtual Result<ImageLayout> layout(int width, int height,
                                     const VideoControls& controls) const = 0;
  virtual const FrameSampling& sampling() const = 0;  // which frames of a file are taken
  // A frame of the size that the layout says.
  virtual Pixels resized(const Pixels& frame, const ImageLayout& video,
                         const Cancelled& cancelled) const = 0;
  // One group of frames of that size, as the encoder takes it.
  virtual PreparedImage group(std::vector<Pixels> resized, const ImageLayout& video) const = 0;
  // Of the largest group of frames under the checkpoint's own limits.
  virtual std::int64_t max_patches() const = 0;
};

// Into the shape of a model that sees: its largest image.
void describe_images(const ImagePipeline& images, ModelShape& shape);

// What every video has to be: as many frames and as fast as there may be, and as many times as
// frames where there are times. kInvalid names the value.
Result<void> check_frames(const VideoControls& controls);

// What a family's templates write for media: literals.
struct PlaceholderWords {
  // What guard_literals() marks. Beginnings where a marked placeholder must not be found by its
  // text: "<image".
  std::span<const std::string_view> literals;
  std::string_view image;  // where a template takes messages as plain strings
  std::string_view video = {};
  std::string_view chat_template = {};  // for checkpoints that ship none
};

class ImageProcessor : public Processor {
 public:
  // `videos` is null for a model that takes images alone.
  ImageProcessor(ModelShape shape, const PlaceholderWords& words,
                 std::unique_ptr<const ImagePipeline> images,
                 std::unique_ptr<const VideoPipeline> videos = nullptr)
      : Processor(std::move(shape)),
        words_(words),
        images_(std::move(images)),
        videos_(std::move(videos)) {}

  Result<ImageLayout> image_layout(int width, int height,
                                   const ImageControls& controls) const override;
  Result<ImageLayout> given_layout(const GivenRows& given) const override;
  Result<Pixels> resized_image(const Pixels& pixels, const ImageLayout& layout,
                               const Cancelled& cancelled) const override;
  Result<PreparedImage> prepare_image(const Pixels& pixels, const ImageLayout& layout,
                                      const Cancelled& cancelled) const override;

  Result<ImageLayout> video_layout(int width, int height,
                                   const VideoControls& controls) const override;
  Result<std::vector<std::int64_t>> sample_frames(const VideoFacts& file,
                                                  const FrameChoice& choice) const override;
  Result<PreparedImage> prepare_frames(std::span<const Pixels> frames, const ImageLayout& video,
                                       const Cancelled& cancelled) const override;

  std::string guard_literals(std::string_view user_text) const override;
  std::string image_placeholder(int) const override { return std::string(words_.image); }
  std::string video_placeholder() const override { return std::string(words_.video); }
  std::string_view default_chat_template() const override { return words_.chat_template; }

 protected:
  // kUndecodable unless the pixels have the layout's original size.
  static Result<void> check_decoded(const Pixels& pixels, const ImageLayout& layout);
  // The i-th `placeholder` repeated for the rows of image i; positions count tokens.
  Result<Prompt> expand_images(std::span<const TokenId> ids, TokenId placeholder,
                               std::span<const ImageLayout> images) const;
  // The i-th of `placeholders`, of whichever of them, repeated for the tokens of the i-th piece;
  // positions count tokens. kInvalid for more or fewer of them than pieces.
  Result<Prompt> expand_pieces(std::span<const TokenId> ids, std::span<const TokenId> placeholders,
                               std::span<const ImageSpan> pieces) const;

 private:
  PlaceholderWords words_;
  std::unique_ptr<const ImagePipeline> images_;
  std::unique_ptr<const VideoPipeline> videos_;
};

}  // namespace saccade
