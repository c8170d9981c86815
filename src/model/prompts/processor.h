// What of a model needs neither weights nor a device: where images end up, what the encoder takes
// of them, and what a prompt becomes. A proxy, a client, or a process that has its images encoded
// elsewhere counts and lays out with it as the server does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/threads/cancelled.h"
#include "model/checkpoint/checkpoint.h"
#include "model/images/image_controls.h"
#include "model/images/image_layout.h"
#include "model/images/prepared_image.h"
#include "model/model_shape.h"
#include "model/prompts/prompt.h"
#include "model/videos/frame_sampling.h"

namespace saccade {

struct GivenRows;

// Immutable once it is shared; any thread. A model that takes no images, or no videos, is
// kUnsupported where it is asked for them.
class Processor {
 public:
  // Of whichever family the checkpoint is. Reads no tensor: the weights may be missing. Errors name
  // the file and the field.
  static Result<std::unique_ptr<Processor>> open(const Checkpoint& checkpoint);

  explicit Processor(ModelShape shape) : shape_(std::move(shape)) {}
  virtual ~Processor() = default;

  // Without what only weights tell.
  const ModelShape& shape() const { return shape_; }

  // Once, before it is shared: the server's own limit on patch rows of an image or frame, which
  // may be below the checkpoint's. A layout over it is kTooLarge.
  void limit_image_patches(std::int64_t most) { max_patches_ = most; }

  // --- images ---
  virtual Result<ImageLayout> image_layout(int width, int height,
                                           const ImageControls& controls) const;
  // Of an image that came as its rows (given_rows.h). kUnsupported for a family whose prompts
  // follow from more than their number and a grid; kInvalid for rows and grids that no image has.
  virtual Result<ImageLayout> given_layout(const GivenRows& given) const;
  // The 8-bit pixels that are normalised and cut; tiles stand below each other.
  // kCancelled once `cancelled`, asked every few rows, says so; likewise below.
  virtual Result<Pixels> resized_image(const Pixels& pixels, const ImageLayout& layout,
                                       const Cancelled& cancelled) const;
  virtual Result<PreparedImage> prepare_image(const Pixels& pixels, const ImageLayout& layout,
                                              const Cancelled& cancelled) const;

  // --- videos (ModelShape::frames_per_grid) ---
  // Of a whole video. Frames are resized by resized_image(), with this layout.
  virtual Result<ImageLayout> video_layout(int width, int height,
                                           const VideoControls& controls) const;
  // Which frames of a file are taken, rising. kInvalid for a choice that is out of range.
  virtual Result<std::vector<std::int64_t>> sample_frames(const VideoFacts& file,
                                                          const FrameChoice& choice) const;
  // One group of a video's decoded frames: at most frames_per_grid; the last fills up a short one.
  virtual Result<PreparedImage> prepare_frames(std::span<const Pixels> frames,
                                               const ImageLayout& video,
                                               const Cancelled& cancelled) const;

  // --- prompts ---
  // From a rendered template whose images and videos appear as the family's placeholders, each
  // kind in order. Text guarded by guard_literals() is tokenised as plain text.
  virtual Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                                      std::span<const ImageLayout> images,
                                      bool add_special_tokens) const = 0;
  // From token ids that are already there (completions with token prompts). No images.
  virtual Result<Prompt> wrap_tokens(std::vector<TokenId> ids) const;
  // User text made safe: placeholders written out by a user are marked so that build_prompt keeps
  // them text.
  virtual std::string guard_literals(std::string_view user_text) const;
  // What stands for image `index` (from 0) where a template takes messages as plain strings.
  virtual std::string image_placeholder(int index) const;
  virtual std::string video_placeholder() const;
  // Jinja source for checkpoints that ship no template though the family has a known format.
  virtual std::string_view default_chat_template() const { return {}; }
  // What takes the place of a checkpoint's own template: itself, unless it is one that was
  // published before it wrote videos.
  virtual std::string chat_template_for(std::string shipped) const { return shipped; }

 protected:
  // kTooLarge with both numbers for more patches than are possible; `what` is "an image".
  Result<void> check_fits(std::string_view what, int width, int height, std::int64_t patches) const;

 private:
  ModelShape shape_;
  std::int64_t max_patches_ = 0;  // 0: the checkpoint's own
};

}  // namespace saccade
