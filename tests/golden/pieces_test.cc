// An encoding in pieces, wherever it is cut, gives the embeddings of one that is not, bit for bit:
// of every kind of tower, whose whole run the other tests compare with transformers.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "image/pixels.h"
#include "model/piecewise_run.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

using test::golden_folder;

constexpr std::int64_t kPatches = 8192;

std::int64_t patches_of(const std::vector<PreparedImage>& images) {
  std::int64_t patches = 0;
  for (const PreparedImage& image : images) patches += image.patch_rows();
  return patches;
}

// Of all images in one run. `seconds` says how long each piece may be, at a million multiply-adds a
// second; without it the run is whole.
struct Encoded {
  std::vector<std::vector<float>> rows;
  std::int64_t pieces = 0;
  double cost = 0;
  double least_unit = 0;  // the largest cost of a piece that was given no time
};
Encoded encode_in_pieces(const Model& model, Device& device,
                         const std::vector<PreparedImage>& images,
                         const std::function<double()>& seconds) {
  Encoded encoded;
  std::vector<View> out;
  std::vector<const PreparedImage*> pointers;
  for (const PreparedImage& image : images) {
    const std::int64_t width = model.shape().embedding_width();
    std::vector<float>& rows =
        encoded.rows.emplace_back(static_cast<std::size_t>(image.layout.tokens * width), -1.0f);
    out.emplace_back(rows.data(), DType::kF32, image.layout.tokens, width);
    pointers.push_back(&image);
  }
  Stream& stream = device.lane(Lane::kEncode);
  const auto run = model.network->begin_encode(stream, pointers, out);
  auto* const cut = dynamic_cast<PiecewiseRun*>(run.get());
  EXPECT_NE(cut, nullptr);
  for (bool complete = cut == nullptr; !complete; ++encoded.pieces) {
    if (!seconds) {
      complete = run->advance().value();
      continue;
    }
    const double most = seconds();
    const Piece piece = cut->advance_piece({1e6, 1e6}, most).value();
    complete = piece.complete;
    const double cost = piece.cost[0] + piece.cost[1];
    encoded.cost += cost;
    if (most == 0) encoded.least_unit = std::max(encoded.least_unit, cost);
  }
  stream.synchronize();
  stream.retire();
  return encoded;
}

void expect_same_in_pieces(const Model& model, Device& device,
                           const std::vector<PreparedImage>& images) {
  ASSERT_LE(patches_of(images), kPatches);
  const Encoded whole = encode_in_pieces(model, device, images, nullptr);
  const Encoded stages = encode_in_pieces(model, device, images, [] { return 1e9; });
  EXPECT_EQ(stages.pieces, whole.pieces);
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const double scale = stages.cost / 1e6 / 40;
    const Encoded cut = encode_in_pieces(
        model, device, images, [&] { return rng.below(4) == 0 ? 0 : scale * rng.uniform(); });
    EXPECT_GT(cut.pieces, 2 * whole.pieces);
    EXPECT_LT(cut.least_unit, 30e6) << "a unit takes a millisecond on any machine";
    for (std::size_t i = 0; i < images.size(); ++i) EXPECT_EQ(cut.rows[i], whole.rows[i]) << i;
  }
}

class InPieces : public ::testing::TestWithParam<std::string> {};

TEST_P(InPieces, EmbeddingsAreThoseOfOneGo) {
  const std::string directory = golden_folder(GetParam());
  const auto device = make_cpu_device(1).value();
  const auto model = test::load(directory, *device);
  ASSERT_NE(model, nullptr);
  ASSERT_TRUE(model->network->reserve(
      *device,
      {.rows = 16, .sequences = 1, .logit_rows = 1, .image_patches = kPatches, .length = 16}));
  for (const std::string name : {"three_images", "video_mixed", "video_odd"}) {
    const std::string path = directory + "/golden/" + name + ".safetensors";
    if (!std::filesystem::exists(path)) continue;
    SCOPED_TRACE(name);
    const auto golden = read_golden(path);
    ASSERT_TRUE(golden) << golden.error().message;
    const auto media = prepare_golden_media(*model->processor, *golden);
    ASSERT_TRUE(media) << media.error().message;
    expect_same_in_pieces(*model, *device, media->prepared);
  }
}

// A picture of as many patches as have their keys made ready apart.
TEST_P(InPieces, ALargePictureIsThatOfOneGo) {
  const auto device = make_cpu_device(1).value();
  const auto model = test::load(golden_folder(GetParam()), *device);
  ASSERT_NE(model, nullptr);
  ASSERT_TRUE(model->network->reserve(
      *device,
      {.rows = 16, .sequences = 1, .logit_rows = 1, .image_patches = kPatches, .length = 16}));
  model->processor->limit_image_patches(kPatches);
  ImageControls controls;
  controls.max_pixels = 512 * 512;
  auto layout = model->processor->image_layout(500, 440, controls);
  if (!layout) layout = model->processor->image_layout(500, 440, {});
  ASSERT_TRUE(layout) << layout.error().message;
  Pixels pixels{.width = 500, .height = 440, .rgb = {}};
  Rng rng(5);
  for (int i = 0; i < 500 * 440 * 3; ++i)
    pixels.rgb.push_back(static_cast<std::uint8_t>(rng.below(256)));
  auto prepared = model->processor->prepare_image(pixels, *layout, {});
  ASSERT_TRUE(prepared) << prepared.error().message;
  std::vector<PreparedImage> images;
  images.push_back(*std::move(prepared));
  expect_same_in_pieces(*model, *device, images);
}

INSTANTIATE_TEST_SUITE_P(Towers, InPieces,
                         ::testing::Values("qwen2_vl/odd_heads", "qwen2_5_vl/wide_window",
                                           "qwen3_vl/odd_heads", "glm4v/odd_heads",
                                           "mistral3/ninths", "pixtral/rows", "minicpmv/slices",
                                           "minicpmv/plain", "internvl2/internlm2",
                                           "internvl2/big_tower", "llava_onevision/newlines",
                                           "phi_3_vision/su", "paligemma/first", "smolvlm2/thirds",
                                           "gemma3/pooled", "mllama/quarters"),
                         [](const auto& made) {
                           std::string name = made.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace saccade
