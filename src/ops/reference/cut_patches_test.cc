// cut_patches against the reference, bit for bit: each sample has one value, and one rounding.
#include "tests/ops/devices.h"

namespace saccade {
namespace {

class CutPatches : public EveryCpu {
 protected:
  void SetUp() override {
    if (!(*device()).cuts_patches()) GTEST_SKIP() << GetParam() << " cuts no patches";
  }
};

struct Image {
  std::int64_t width, height, side, depth;
  std::size_t frames;
};

TEST_P(CutPatches, AreTheReferencesToTheBit) {
  const TestDevice cpu = device();
  Rng rng(12);
  std::array<std::array<float, 256>, 3> values{};
  for (auto& channel : values)
    for (float& value : channel) value = static_cast<float>(rng.uniform() * 4 - 2);
  for (const Image image :
       {Image{64, 48, 14, 2, 1}, Image{61, 40, 14, 2, 2}, Image{40, 33, 16, 1, 1},
        Image{20, 31, 5, 3, 2}, Image{9, 9, 1, 1, 1}}) {
    std::vector<std::vector<std::uint8_t>> frames(image.frames);
    for (auto& frame : frames) {
      frame.resize(static_cast<std::size_t>(3 * image.width * image.height));
      for (auto& sample : frame) sample = static_cast<std::uint8_t>(rng.below(256));
    }
    const std::vector<std::span<const std::uint8_t>> spans(frames.begin(), frames.end());
    for (const std::int64_t rows : {0, 1, 5, 37}) {
      std::vector<PatchPlace> places;
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto top = rng.below(static_cast<std::uint64_t>(image.height - image.side + 1));
        const auto left = rng.below(static_cast<std::uint64_t>(image.width - image.side + 1));
        places.push_back({static_cast<std::int32_t>(top), static_cast<std::int32_t>(left)});
      }
      const std::int64_t cols = 3 * image.depth * image.side * image.side;
      for (const DType type : {DType::kF32, DType::kBf16}) {
        SCOPED_TRACE(fmt::format("{} rows of {}, {} of {} frames, {}", rows, image.side,
                                 image.frames, image.depth, name_of(type)));
        CutPatchesArgs args = {.frames = spans,
                               .width = image.width,
                               .height = image.height,
                               .places = places,
                               .side = image.side,
                               .depth = image.depth,
                               .values = values,
                               .out = {}};
        Matrix out(rows, cols, type);
        Matrix want(rows, cols, type);
        args.out = want.view();
        reference_->cut_patches(args);
        args.out = out.view();
        cpu->cut_patches(args);
        expect_near(out, want, [](auto, auto) { return 0.0; });
        // Where several samples go together.
        const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(type);
        const Buffer whole = *(*cpu).allocate(bytes);
        args.out = whole.view(type, rows, cols);
        cpu->cut_patches(args);
        for (std::int64_t row = 0; row < rows; ++row)
          ASSERT_EQ(std::memcmp(args.out.row_range(row, row + 1).data(),
                                want.view().row_range(row, row + 1).data(),
                                static_cast<std::size_t>(cols) * size_of(type)),
                    0)
              << "row " << row;
      }
    }
  }
}

SACCADE_EVERY_CPU(CutPatches);

}  // namespace
}  // namespace saccade
