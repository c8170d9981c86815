// Any bytes as an image: probe and decode agree, and nothing grows past the limits.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "image/pixels.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const saccade::ImageLimits limits{1 << 18, 2'048};
  const auto header = saccade::probe_image(bytes, limits);
  const auto pixels = saccade::decode_image(bytes, limits);
  if (!pixels) return 0;
  if (!header || header->width != pixels->width || header->height != pixels->height) std::abort();
  const auto area = static_cast<std::size_t>(pixels->width) * pixels->height;
  if (pixels->rgb.size() != area * 3 || area > std::size_t{1} << 18) std::abort();
  return 0;
}
