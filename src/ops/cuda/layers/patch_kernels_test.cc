// Patches against their definition, to the bit: each sample has one value, and one rounding. Frames
// that are there and that are not, sides that are even and odd, rows that are aligned and not.
#include "ops/cuda/layers/patch_kernels.h"

#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {
namespace {

struct Image {
  std::int32_t width, height, side, depth, frames;
};

TEST(PatchKernels, RowsAreTheSamplesValues) {
  Rng rng(12);
  std::vector<float> values(std::size_t{3} * 256);
  for (float& value : values) value = static_cast<float>(rng.uniform() * 4 - 2);
  for (const Image image :
       {Image{64, 48, 14, 2, 1}, Image{61, 40, 14, 2, 2}, Image{40, 33, 16, 1, 1},
        Image{20, 31, 5, 4, 3}, Image{9, 9, 1, 1, 1}}) {
    const std::int64_t line = std::int64_t{3} * image.width;
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(image.frames * image.height * line));
    for (auto& sample : pixels) sample = static_cast<std::uint8_t>(rng.below(256));
    std::vector<PatchPlace> places(37);
    for (PatchPlace& place : places) {
      const auto down = static_cast<std::uint64_t>(image.height - image.side + 1);
      const auto across = static_cast<std::uint64_t>(image.width - image.side + 1);
      place = {static_cast<std::int32_t>(rng.below(down)),
               static_cast<std::int32_t>(rng.below(across))};
    }
    const std::int64_t square = std::int64_t{image.side} * image.side;
    const std::int64_t cols = 3 * image.depth * square;
    for (const DType type : {DType::kF32, DType::kBf16}) {
      for (const bool odd : {false, true}) {
        SCOPED_TRACE(fmt::format("patches of {}, {} of {} frames, {}, {}", image.side, image.frames,
                                 image.depth, name_of(type), odd ? "odd" : "whole"));
        TestRows out(std::ssize(places), cols, type, odd);
        launch_cut_patches({.pixels = pixels.data(),
                            .frame_bytes = image.height * line,
                            .line_bytes = line,
                            .frames = image.frames,
                            .depth = image.depth,
                            .side = image.side,
                            .places = places.data(),
                            .values = values.data(),
                            .out = out.rows()},
                           nullptr);
        expect_near(
            out,
            [&](std::int64_t row, std::int64_t col) {
              const PatchPlace place = places[static_cast<std::size_t>(row)];
              const std::int64_t x = place.left + col % image.side;
              const std::int64_t y = place.top + col / image.side % image.side;
              const std::int64_t frame =
                  std::min<std::int64_t>(col / square % image.depth, image.frames - 1);
              const std::int64_t channel = col / square / image.depth;
              const std::int64_t at = (frame * image.height + y) * line + 3 * x + channel;
              const std::uint8_t sample = pixels[static_cast<std::size_t>(at)];
              const float value = values[static_cast<std::size_t>(channel * 256 + sample)];
              return type == DType::kF32 ? value : to_float(to_bf16(value));
            },
            [](auto, auto) { return 0.0; });
      }
    }
  }
}

}  // namespace
}  // namespace saccade::cuda
