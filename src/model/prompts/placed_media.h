// A rendered prompt's images and videos, each in the words of its family: for prompts in which a
// medium is text around placeholders.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/images/image_layout.h"
#include "model/prompts/prompt.h"

namespace saccade {

// One placeholder of `text` a piece, in order; a piece has no begin yet.
struct PlacedMedia {
  std::string text;
  std::vector<ImageSpan> pieces;
};

// Adds what stands for one medium, whose first encoder input is `input`.
using WriteMedium = std::function<void(const ImageLayout& medium, int input, PlacedMedia& to)>;

struct MediaForms {
  std::string_view image;  // what a template writes
  std::string_view video;
  WriteMedium write_image;
  WriteMedium write_video;
};

// Placeholders of each kind stand for the media of that kind, in order; a literal that a user wrote
// is marked inside, and is none. kInvalid with both numbers when there are more or fewer.
Result<PlacedMedia> place_media(std::string_view rendered, std::span<const ImageLayout> media,
                                const MediaForms& forms);

}  // namespace saccade
