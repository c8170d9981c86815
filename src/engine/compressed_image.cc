#include "engine/compressed_image.h"

#include <cstdint>
#include <utility>

namespace saccade {

CompressedImage::CompressedImage(const Model& model, ImageLayout layout, std::vector<Frame> frames,
                                 ImageLimits limits, std::shared_ptr<const ByteReservation> held)
    : model_(model),
      layout_(std::move(layout)),
      frames_(std::move(frames)),
      limits_(limits),
      held_(std::move(held)) {}

Result<PreparedImage> CompressedImage::load() const {
  std::vector<Pixels> pixels;
  for (const Frame& frame : frames_) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(frame.bytes.data()),
                                           frame.bytes.size());
    auto decoded = decode_image(bytes, limits_);
    if (!decoded) return fail_within(frame.name, std::move(decoded).error());
    pixels.push_back(*std::move(decoded));
  }
  auto prepared = layout_.frames > 0 ? model_.prepare_frames(pixels, layout_)
                                     : model_.prepare_image(pixels.front(), layout_);
  if (!prepared) return fail_within(frames_.front().name, std::move(prepared).error());
  return prepared;
}

std::size_t CompressedImage::load_bytes() const {
  constexpr std::int64_t kChannels = 3;
  const std::int64_t original = std::int64_t{layout_.width} * layout_.height;
  const std::int64_t resized = std::int64_t{layout_.resized_width} * layout_.resized_height;
  return frames_.size() * static_cast<std::size_t>(kChannels * (original + resized));
}

}  // namespace saccade
