// Patches that the device cuts out of pixels have the bits of those that the host cuts, of every
// kind of cutter and in any slices.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/images/hd_images.h"
#include "model/images/slice_images.h"
#include "model/towers/patch_rows.h"
#include "model/towers/patch_steps.h"
#include "model/towers/tile_tower.h"
#include "ops/cuda/device_under_test.h"

namespace saccade {
namespace {

struct Case {
  std::string name;
  std::shared_ptr<const PatchCutter> cutter;
  int width, height;
  std::size_t frames;
  std::int64_t rows;
};

TileTowerSettings tower(std::int64_t image, std::int64_t patch) {
  TileTowerSettings settings;
  settings.image = image;
  settings.patch = patch;
  return settings;
}

std::vector<Case> cases() {
  const NormalizeTable table;
  const auto patches = [&](int patch, int merge, int depth) {
    return std::make_shared<PatchRows>(PatchLayout{patch, merge, depth}, table);
  };
  return {{"Qwen2-VL's image", patches(14, 2, 2), 84, 56, 1, 24},
          {"two frames", patches(14, 2, 2), 56, 56, 2, 16},
          {"Qwen3-VL's image", patches(16, 2, 2), 64, 96, 1, 24},
          {"Pixtral's image", patches(14, 1, 1), 70, 42, 1, 15},
          {"odd patches", patches(7, 3, 1), 42, 21, 1, 18},
          {"tiles with a rest", std::make_shared<TileRows>(tower(30, 14), table), 30, 90, 1, 12},
          {"squares of slices", std::make_shared<SquareRows>(14, table), 56, 112, 1, 32},
          {"tiles in their places", HdImages(tower(28, 14), 4, table).cutter(), 84, 56, 1, 28}};
}

Pixels random_pixels(int width, int height, Rng& rng) {
  Pixels pixels{width, height, {}};
  pixels.rgb.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  for (auto& sample : pixels.rgb) sample = static_cast<std::uint8_t>(rng.below(256));
  return pixels;
}

TEST(DevicePatches, AreTheHostsToTheBit) {
  for (const DType type : {DType::kBf16, DType::kF32}) {
    auto made = cuda::make_device_under_test(type);
    if (!made) GTEST_SKIP() << made.error().message;
    Device& device = **made;
    ASSERT_TRUE(device.cuts_patches());
    Stream& stream = device.lane(Lane::kEncode);
    Rng rng(8);
    for (const Case& of : cases()) {
      PreparedImage image;
      for (std::size_t i = 0; i < of.frames; ++i)
        image.frames.push_back(random_pixels(of.width, of.height, rng));
      image.cutter = of.cutter;
      const std::int64_t length = of.cutter->row_length();
      Scratch memory;
      PatchCut cut;
      cut.add(memory, type, of.rows, length);
      ASSERT_TRUE(memory.allocate(device));
      for (const auto& [begin, end] : {std::pair{std::int64_t{0}, of.rows},
                                       {std::int64_t{3}, of.rows - 1},
                                       {of.rows / 2, of.rows / 2 + 1}}) {
        SCOPED_TRACE(fmt::format("{}, rows [{}, {}) of {}", of.name, begin, end, name_of(type)));
        const std::int64_t count = (end - begin) * length;
        std::vector<float> floats(static_cast<std::size_t>(count));
        cut_rows(device.pool(), image, begin, end, floats);
        const Buffer host =
            *device.allocate(static_cast<std::size_t>(count) * size_of(type), Space::kHost);
        const View got = host.view(type, end - begin, length);
        stream.download(cut.cut(stream, image, begin, end), got);
        stream.synchronize();
        for (std::int64_t i = 0; i < count; ++i) {
          const float want = floats[static_cast<std::size_t>(i)];
          if (type == DType::kF32)
            ASSERT_EQ(got.row<float>(0)[i], want) << "element " << i;
          else
            ASSERT_EQ(got.row<Bf16>(0)[i].bits, to_bf16(want).bits) << "element " << i;
        }
      }
      stream.retire();
    }
  }
}

}  // namespace
}  // namespace saccade
