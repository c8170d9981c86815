// How many pixels an image or a frame may have after resizing: what checkpoints and requests say.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "model/images/image_controls.h"

namespace saccade {

// What bounds on pixels are about: one frame (Qwen2-VL, Qwen2.5-VL), or all frames of a video
// together (Qwen3-VL's videos). An image of the latter is one group of equal frames (GLM-4.1V).
enum class BoundsOf : std::uint8_t { kFrame, kVolume };

constexpr std::int64_t kMaxPixels = std::int64_t{1} << 34;  // that may be said

struct PixelBounds {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

// Members of mm_processor_kwargs that images and videos have. The last two are about videos alone;
// one request may have both kinds.
constexpr std::array<std::string_view, 5> kPixelKwargs = {"min_pixels", "max_pixels", "size",
                                                          "total_pixels", "cap_pixels_per_frame"};

// kInvalid, naming it, unless within 1 to kMaxPixels.
Result<std::int64_t> pixel_count(std::string_view name, std::int64_t value);

// min_pixels and max_pixels of a preprocessor configuration: by these names, or as
// size.{shortest_edge, longest_edge}, which are areas here.
Result<PixelBounds> read_pixel_bounds(const json::object& preprocessor, PixelBounds fallback);

// The checkpoint's bounds as a request moves them, in its mm_processor_kwargs and then in
// min_pixels and max_pixels. One bound alone moves the other out of its way; two that cross are
// kInvalid.
Result<PixelBounds> moved_pixel_bounds(const ImageControls& controls, PixelBounds of_checkpoint);

}  // namespace saccade
