// Patches cut on the device: pixels go there as bytes, an eighth of what rows of two equal frames
// in f32 would be.
#include <algorithm>
#include <cstring>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/layers/patch_kernels.h"
#include "ops/shapes.h"

namespace saccade::cuda {
namespace {

// Pixels that any of a call's patches has.
struct Region {
  std::int64_t top = 0;
  std::int64_t bottom = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;

  std::size_t lines() const { return static_cast<std::size_t>(bottom - top); }
  std::size_t line_bytes() const { return static_cast<std::size_t>(right - left) * 3; }
};

Region region_of(std::span<const PatchPlace> places, std::int64_t side) {
  const auto [high, low] = std::ranges::minmax(places, {}, &PatchPlace::top);
  const auto [near, far] = std::ranges::minmax(places, {}, &PatchPlace::left);
  return {high.top, low.top + side, near.left, far.left + side};
}

// Lines of the region one behind another.
std::byte* copy_region(std::span<const std::uint8_t> frame, std::int64_t width,
                       const Region& region, std::byte* to) {
  const std::uint8_t* from = frame.data() + (region.top * width + region.left) * 3;
  const std::size_t bytes = region.line_bytes();
  for (std::size_t line = 0; line < region.lines(); ++line, from += width * 3, to += bytes)
    std::memcpy(to, from, bytes);
  return to;
}

}  // namespace

// As upload(), through pinned memory; what the kernel reads goes in one copy: values, places,
// pixels.
void CudaStream::cut_patches(const CutPatchesArgs& args) {
  check_shapes(args);
  if (args.out.empty()) return;
  repeated_.interrupt();
  const Region region = region_of(args.places, args.side);
  const std::size_t places_at = args.values.size_bytes();
  const std::size_t pixels_at = places_at + args.places.size_bytes();
  const std::size_t frame_bytes = region.lines() * region.line_bytes();
  const std::size_t bytes = pixels_at + args.frames.size() * frame_bytes;
  const UploadRing::Piece piece = matrices_.take(bytes);
  std::memcpy(piece.host, args.values.data(), args.values.size_bytes());
  auto* const places = reinterpret_cast<PatchPlace*>(piece.host + places_at);
  for (std::size_t i = 0; i < args.places.size(); ++i)
    places[i] = {args.places[i].top - static_cast<std::int32_t>(region.top),
                 args.places[i].left - static_cast<std::int32_t>(region.left)};
  std::byte* to = piece.host + pixels_at;
  for (const auto& frame : args.frames) to = copy_region(frame, args.width, region, to);
  runtime_.copy({.to = piece.device,
                 .to_stride = bytes,
                 .from = piece.host,
                 .from_stride = bytes,
                 .row_bytes = bytes,
                 .rows = 1},
                Direction::kToDevice, stream_);
  launch_cut_patches({.pixels = reinterpret_cast<const std::uint8_t*>(piece.device + pixels_at),
                      .frame_bytes = static_cast<std::int64_t>(frame_bytes),
                      .line_bytes = static_cast<std::int64_t>(region.line_bytes()),
                      .frames = static_cast<std::int32_t>(args.frames.size()),
                      .depth = static_cast<std::int32_t>(args.depth),
                      .side = static_cast<std::int32_t>(args.side),
                      .places = reinterpret_cast<const PatchPlace*>(piece.device + places_at),
                      .values = reinterpret_cast<const float*>(piece.device),
                      .out = rows_of(args.out)},
                     launching());
  matrices_.release();
}

}  // namespace saccade::cuda
