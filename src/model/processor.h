// What of a model needs neither weights nor a device: where images end up, what the encoder takes
// of them, and what a prompt becomes. Made from a checkpoint's small files, so that a proxy or a
// process that has its images encoded elsewhere counts and lays out as the server does.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/model.h"

namespace saccade {

// Immutable; any thread. Methods are Model's of the same names.
class Processor {
 public:
  // Reads no tensor: the checkpoint may lack its weights. Errors name the file and the field.
  static Result<std::unique_ptr<const Processor>> open(const Checkpoint& checkpoint);

  // Without what only weights tell: their bytes and count, and the tower's fingerprint.
  const ModelShape& shape() const { return model_->shape(); }

  Result<ImageLayout> image_layout(int width, int height, const ImageControls& controls) const {
    return model_->image_layout(width, height, controls);
  }
  Result<Pixels> resized_image(const Pixels& pixels, const ImageLayout& layout) const {
    return model_->resized_image(pixels, layout);
  }
  Result<PreparedImage> prepare_image(const Pixels& pixels, const ImageLayout& layout) const {
    return model_->prepare_image(pixels, layout);
  }
  // The checkpoint's own limits; a server may be set up for less.
  std::int64_t max_image_patches() const { return model_->max_image_patches(); }
  std::int64_t max_image_tokens() const { return model_->max_image_tokens(); }

  Result<ImageLayout> video_layout(int width, int height, const VideoControls& controls) const {
    return model_->video_layout(width, height, controls);
  }
  Result<PreparedImage> prepare_frames(std::span<const Pixels> frames,
                                       const ImageLayout& video) const {
    return model_->prepare_frames(frames, video);
  }

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images, bool add_special_tokens) const {
    return model_->build_prompt(tokenizer, rendered, images, add_special_tokens);
  }
  Result<Prompt> wrap_tokens(std::vector<TokenId> ids) const {
    return model_->wrap_tokens(std::move(ids));
  }
  std::string guard_literals(std::string_view user_text) const {
    return model_->guard_literals(user_text);
  }
  std::string image_placeholder(int index) const { return model_->image_placeholder(index); }
  std::string video_placeholder() const { return model_->video_placeholder(); }
  std::string_view default_chat_template() const { return model_->default_chat_template(); }

 private:
  explicit Processor(std::unique_ptr<const Model> model) : model_(std::move(model)) {}
  std::unique_ptr<const Model> model_;  // never loaded
};

}  // namespace saccade
