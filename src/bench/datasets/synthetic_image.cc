#include "bench/datasets/synthetic_image.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"

namespace saccade::bench {
namespace {

using Colour = std::array<std::uint8_t, 3>;

Colour random_colour(Rng& rng) {
  const std::uint64_t bits = rng();
  return {static_cast<std::uint8_t>(bits), static_cast<std::uint8_t>(bits >> 8),
          static_cast<std::uint8_t>(bits >> 16)};
}

void draw_noise(Rng& rng, Pixels& pixels) {
  std::uint8_t* to = pixels.rgb.data();
  for (std::size_t left = pixels.rgb.size(); left > 0;) {
    const std::uint64_t bits = rng();
    const std::size_t count = std::min(left, sizeof(bits));
    std::memcpy(to, &bits, count);
    to += count;
    left -= count;
  }
}

void draw_gradient(Rng& rng, Pixels& pixels) {
  const Colour corners[4] = {random_colour(rng), random_colour(rng), random_colour(rng),
                             random_colour(rng)};
  std::uint8_t* to = pixels.rgb.data();
  for (int y = 0; y < pixels.height; ++y) {
    const double down = (y + 0.5) / pixels.height;
    for (int x = 0; x < pixels.width; ++x) {
      const double right = (x + 0.5) / pixels.width;
      for (std::size_t c = 0; c < 3; ++c) {
        const double top = corners[0][c] + right * (corners[1][c] - corners[0][c]);
        const double bottom = corners[2][c] + right * (corners[3][c] - corners[2][c]);
        *to++ = static_cast<std::uint8_t>(top + down * (bottom - top) + 0.5);
      }
    }
  }
}

// Clipped to the picture.
void fill(Pixels& pixels, int left, int top, int width, int height, const Colour& colour) {
  const int right = std::min(left + width, pixels.width);
  const int bottom = std::min(top + height, pixels.height);
  for (int y = std::max(top, 0); y < bottom; ++y) {
    for (int x = std::max(left, 0); x < right; ++x) {
      const std::size_t at = (static_cast<std::size_t>(y) * pixels.width + x) * 3;
      std::copy(colour.begin(), colour.end(), pixels.rgb.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

void draw_blocks(Rng& rng, Pixels& pixels) {
  const int side = std::clamp(std::min(pixels.width, pixels.height) / 16, 4, 64);
  for (int y = 0; y < pixels.height; y += side) {
    for (int x = 0; x < pixels.width; x += side) fill(pixels, x, y, side, side, random_colour(rng));
  }
}

// A glyph is five by seven cells of which about half are inked.
void draw_glyph(Rng& rng, Pixels& pixels, int left, int top, int cell) {
  const std::uint64_t ink = rng();
  for (int row = 0; row < 7; ++row) {
    for (int column = 0; column < 5; ++column) {
      if ((ink >> (row * 5 + column) & 1) != 0)
        fill(pixels, left + column * cell, top + row * cell, cell, cell, {20, 20, 25});
    }
  }
}

void draw_text_page(Rng& rng, Pixels& pixels) {
  std::fill(pixels.rgb.begin(), pixels.rgb.end(), std::uint8_t{255});
  const int cell = std::max(1, std::min(pixels.width, pixels.height) / 700);
  const int advance = 6 * cell;
  const int margin = std::min(pixels.width, pixels.height) / 16;
  for (int y = margin; y + 7 * cell <= pixels.height - margin; y += 11 * cell) {
    if (rng.below(12) == 0) continue;  // between paragraphs
    int word = 2 + static_cast<int>(rng.below(8));
    for (int x = margin; x + advance <= pixels.width - margin; x += advance) {
      if (word-- == 0) {
        word = 2 + static_cast<int>(rng.below(8));
        continue;
      }
      draw_glyph(rng, pixels, x, y, cell);
    }
  }
}

struct Pattern {
  ImagePattern pattern;
  std::string_view name;
  void (*draw)(Rng& rng, Pixels& pixels);
};
constexpr Pattern kPatterns[] = {{ImagePattern::kNoise, "noise", draw_noise},
                                 {ImagePattern::kGradient, "gradient", draw_gradient},
                                 {ImagePattern::kBlocks, "blocks", draw_blocks},
                                 {ImagePattern::kTextPage, "text-page", draw_text_page}};

}  // namespace

Result<ImagePattern> parse_image_pattern(std::string_view name) {
  for (const Pattern& known : kPatterns) {
    if (known.name == name) return known.pattern;
  }
  return fail(ErrorCode::kInvalid, "image pattern '{}' is not noise, gradient, blocks or text-page",
              name);
}

std::string_view name_of(ImagePattern pattern) {
  for (const Pattern& known : kPatterns) {
    if (known.pattern == pattern) return known.name;
  }
  return "unknown";
}

Pixels draw(const SyntheticImage& image) {
  CHECK(image.width > 0 && image.height > 0, "{}x{}", image.width, image.height);
  Pixels pixels;
  pixels.width = image.width;
  pixels.height = image.height;
  pixels.rgb.resize(static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) *
                    3);
  Rng rng(image.seed);
  for (const Pattern& known : kPatterns) {
    if (known.pattern == image.pattern) known.draw(rng, pixels);
  }
  return pixels;
}

}  // namespace saccade::bench
