// Pictures out of nothing, for runs without a data set.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "image/pixels.h"

namespace saccade::bench {

// What it costs to send and to decode differs widely: noise is the worst case for both (about 0.7
// bytes a pixel as JPEG), photographs lie between noise and the others.
enum class ImagePattern {
  kNoise,     // every channel of every pixel uniform in 0..255
  kGradient,  // four random corner colours, blended
  kBlocks,    // rectangles of random colours
  kTextPage,  // dark glyph-like marks in words, lines and paragraphs on white
};

Result<ImagePattern> parse_image_pattern(std::string_view name);  // "noise", "gradient", ...
std::string_view name_of(ImagePattern pattern);

// The seed alone decides the picture; other seeds give others, unless it is too small for a mark.
struct SyntheticImage {
  ImagePattern pattern = ImagePattern::kNoise;
  int width = 512;
  int height = 512;
  std::uint64_t seed = 0;
};
Pixels draw(const SyntheticImage& image);

}  // namespace saccade::bench
