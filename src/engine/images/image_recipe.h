// How an encoder's input was asked for: with the bytes, enough to make its layout again in another
// process, which then need not believe what it is told of sizes.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "engine/images/image_source.h"
#include "image/pixels.h"
#include "model/prompts/processor.h"

namespace saccade {

struct ImageRecipe {
  ImageControls image;                 // of an image
  std::optional<VideoControls> video;  // instead: of the whole video that a group belongs to
};

// JSON; equal recipes make equal texts.
std::string write_image_recipe(const ImageRecipe& recipe);
// Of a peer: bounded, and checked. kInvalid names the member.
Result<ImageRecipe> read_image_recipe(std::string_view text);

// RequestImage::content: of one file, or of the files of a group of a video's frames.
Digest media_digest(std::span<const std::string> files, bool video);

// An encoder's input as another process has sent it, made from its bytes alone.
struct RebuiltImage {
  Digest content{};
  ImageLayout layout;  // of what the encoder takes
  std::shared_ptr<const ImageSource> source;
};
// kInvalid for a recipe that is none, kUndecodable for files that are no images.
Result<RebuiltImage> rebuild_image(const Processor& processor, std::string_view recipe,
                                   std::vector<std::string> files, const ImageLimits& limits,
                                   std::shared_ptr<const void> held);

}  // namespace saccade
