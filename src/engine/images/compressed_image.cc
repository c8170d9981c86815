#include "engine/images/compressed_image.h"

#include <cstdint>
#include <utility>

namespace saccade {

CompressedImage::CompressedImage(const Processor& processor, ImageLayout layout,
                                 std::vector<Frame> frames, ImageLimits limits,
                                 std::shared_ptr<const void> held, std::string recipe)
    : processor_(processor),
      layout_(std::move(layout)),
      frames_(std::make_shared<const std::vector<Frame>>(std::move(frames))),
      limits_(limits),
      held_(std::move(held)),
      recipe_(std::move(recipe)) {}

std::shared_ptr<const CompressedImage> CompressedImage::with_copy(ImageLayout layout,
                                                                  std::string recipe) const {
  auto smaller = std::make_shared<CompressedImage>(*this);
  smaller->layout_ = layout;
  smaller->recipe_ = std::move(recipe);
  auto whole = std::make_shared<CompressedImage>(*this);
  whole->copy_ = std::make_shared<const ReducedCopy>(
      ReducedCopy{.layout = std::move(layout), .source = std::move(smaller)});
  return whole;
}

Result<PreparedImage> CompressedImage::load(const Cancelled& cancelled) const {
  std::vector<Pixels> pixels;
  for (const Frame& frame : *frames_) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(frame.bytes.data()),
                                           frame.bytes.size());
    auto decoded = decode_image(bytes, limits_, cancelled);
    if (!decoded) return fail_within(frame.name, std::move(decoded).error());
    pixels.push_back(*std::move(decoded));
  }
  auto prepared = layout_.frames > 0 ? processor_.prepare_frames(pixels, layout_, cancelled)
                                     : processor_.prepare_image(pixels.front(), layout_, cancelled);
  if (!prepared) return fail_within(frames_->front().name, std::move(prepared).error());
  return prepared;
}

PortableImage CompressedImage::portable() const {
  PortableImage portable;
  for (const Frame& frame : *frames_) portable.files.emplace_back(frame.bytes);
  portable.recipe = recipe_;
  return portable;
}

std::size_t CompressedImage::load_bytes() const {
  constexpr std::int64_t kChannels = 3;
  const std::int64_t original = std::int64_t{layout_.width} * layout_.height;
  const std::int64_t resized = std::int64_t{layout_.resized_width} * layout_.resized_height;
  return frames_->size() * static_cast<std::size_t>(kChannels * (original + resized));
}

}  // namespace saccade
