// A processor from a checkpoint's small files alone, against the goldens: the reference's tokens,
// positions and pixels without a weight.
#include "model/prompts/processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "image/pixels.h"
#include "model/checkpoint/mapped_file.h"
#include "model/given/given_rows.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::golden_folder;

// Everything of a golden checkpoint but its tensors.
std::string without_weights(const std::string& name) {
  const std::string to = ::testing::TempDir() + "/saccade_processor";
  fs::remove_all(to);
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(golden_folder(name))) {
    const std::string file = entry.path().filename();
    if (entry.is_regular_file() && !file.starts_with("model"))
      fs::copy(entry.path(), fs::path(to) / file);
  }
  return to;
}

TEST(Processor, LaysOutPreparesAndExpandsWithoutWeights) {
  for (const std::string name :
       {"qwen2_vl/odd_heads", "qwen3_vl/odd_heads", "internvl2/internlm2", "phi_3_vision/su",
        "gemma3/pooled", "smolvlm2/thirds", "llava_onevision/newlines", "paligemma/first",
        "mistral3/squares", "pixtral/rows", "mllama/quarters", "glm4v/odd_heads",
        "minicpmv/slices"}) {
    SCOPED_TRACE(name);
    const std::string directory = without_weights(name);
    const auto checkpoint = open_checkpoint(directory);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto processor = Processor::open(*checkpoint);
    ASSERT_TRUE(processor) << processor.error().message;
    EXPECT_TRUE((*processor)->shape().has_vision);
    EXPECT_EQ((*processor)->shape().tower_fingerprint, "");
    const auto tokenizer = load_tokenizer(directory);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;

    const auto golden = read_golden(golden_folder(name) + "/golden/one_image.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto file = MappedFile::open(golden->images.front().sources.front());
    ASSERT_TRUE(file) << file.error().message;
    const auto pixels = decode_image(file->bytes());
    ASSERT_TRUE(pixels) << pixels.error().message;
    const auto layout = (*processor)->image_layout(pixels->width, pixels->height, {});
    ASSERT_TRUE(layout) << layout.error().message;
    EXPECT_GT(layout->tokens, 0);
    EXPECT_LE(layout->tokens, (*processor)->shape().max_image_tokens);
    const auto prompt =
        (*processor)->build_prompt(**tokenizer, golden->rendered, {&*layout, 1}, false);
    ASSERT_TRUE(prompt) << prompt.error().message;
    EXPECT_EQ(prompt->ids, golden->ids);
    for (std::size_t axis = 0; axis < std::min(prompt->positions.size(), golden->positions.size());
         ++axis)
      EXPECT_EQ(prompt->positions[axis], golden->positions[axis]);

    // What the encoder takes is what the model with its weights makes of the image.
    const auto device = make_reference_device();
    const auto model = test::load(golden_folder(name), *device);
    ASSERT_NE(model, nullptr);
    const auto want = test::prepare_golden_images(*model->processor, *golden);
    ASSERT_TRUE(want) << want.error().message;
    const auto prepared = (*processor)->prepare_image(*pixels, *layout, {});
    ASSERT_TRUE(prepared) << prepared.error().message;
    const PreparedImage& made = want->front();
    EXPECT_EQ(prepared->frames.front().rgb, made.frames.front().rgb);
    const std::int64_t rows = made.patch_rows();
    const std::int64_t length = made.cutter->row_length();
    std::vector<float> whole(static_cast<std::size_t>(rows * length));
    made.cutter->cut(made.frames, 0, rows, whole);
    // In any pieces, and by either, the same floats.
    for (std::int64_t begin = 0; begin < rows; begin += 7) {
      const std::int64_t end = std::min(begin + 7, rows);
      std::vector<float> piece(static_cast<std::size_t>((end - begin) * length));
      prepared->cutter->cut(prepared->frames, begin, end, piece);
      ASSERT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + begin * length)) << begin;
    }
    EXPECT_EQ(layout->key, want->front().layout.key);
  }
  fs::remove_all(::testing::TempDir() + "/saccade_processor");
}

// Whoever prepares an image that nobody wants any more is told so within a few rows.
TEST(Processor, PreparingEndsWhenItIsCancelled) {
  for (const std::string name :
       {"qwen2_vl/odd_heads", "internvl2/internlm2", "phi_3_vision/su", "gemma3/pooled",
        "smolvlm2/thirds", "llava_onevision/newlines", "paligemma/first", "mistral3/squares",
        "pixtral/rows", "mllama/quarters", "glm4v/odd_heads", "minicpmv/slices"}) {
    SCOPED_TRACE(name);
    const auto checkpoint = open_checkpoint(golden_folder(name));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto processor = Processor::open(*checkpoint);
    ASSERT_TRUE(processor) << processor.error().message;
    Pixels tall{170, 330, {}};
    tall.rgb.resize(std::size_t{3} * 170 * 330, 9);
    const auto layout = (*processor)->image_layout(tall.width, tall.height, {});
    ASSERT_TRUE(layout) << layout.error().message;
    int all = 0;
    const auto whole = (*processor)->prepare_image(tall, *layout, [&] {
      ++all;
      return false;
    });
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_GE(all, 10);
    for (const int told_at : {1, all / 2, all}) {
      int asks = 0;
      const auto ended =
          (*processor)->prepare_image(tall, *layout, [&] { return ++asks >= told_at; });
      ASSERT_FALSE(ended) << "told at " << told_at << " of " << all;
      EXPECT_EQ(ended.error().code, ErrorCode::kCancelled) << ended.error().message;
      EXPECT_LE(asks, told_at + 4);  // each resize that follows, and the end
    }
  }
}

GivenRows some_rows(std::int64_t count, std::optional<PatchGrid> grid = std::nullopt) {
  GivenRows rows;
  rows.rows = count;
  rows.grid = grid;
  return rows;
}

// An image that came as rows makes the reference's prompt, too, without a look at its size.
TEST(Processor, GivenRowsMakeThePromptOfTheirImage) {
  for (const std::string name : {"qwen2_vl/odd_heads", "qwen2_5_vl/odd_heads", "qwen3_vl/odd_heads",
                                 "qwen3_vl_moe/every_layer", "internvl2/internlm2", "internvl3/hf3",
                                 "phi_3_vision/su", "gemma3/pooled", "llava_onevision/newlines",
                                 "paligemma/first", "paligemma/second", "glm4v/odd_heads"}) {
    for (const char* const conversation : {"one_image", "three_images"}) {
      SCOPED_TRACE(name + "/" + conversation);
      const auto checkpoint = open_checkpoint(golden_folder(name));
      ASSERT_TRUE(checkpoint) << checkpoint.error().message;
      const auto processor = Processor::open(*checkpoint);
      ASSERT_TRUE(processor) << processor.error().message;
      const auto tokenizer = load_tokenizer(golden_folder(name));
      ASSERT_TRUE(tokenizer) << tokenizer.error().message;
      const auto golden =
          read_golden(golden_folder(name) + "/golden/" + conversation + ".safetensors");
      ASSERT_TRUE(golden) << golden.error().message;
      const auto images = test::prepare_golden_images(**processor, *golden);
      ASSERT_TRUE(images) << images.error().message;
      std::vector<ImageLayout> layouts;
      for (const PreparedImage& image : *images) {
        const PatchGrid grid{1, image.layout.grid_h, image.layout.grid_w};
        const auto layout = (*processor)->given_layout(some_rows(image.layout.tokens, grid));
        ASSERT_TRUE(layout) << layout.error().message;
        EXPECT_EQ(layout->tokens, image.layout.tokens);
        EXPECT_NE(layout->key, image.layout.key);
        layouts.push_back(*layout);
      }
      const auto prompt = (*processor)->build_prompt(**tokenizer, golden->rendered, layouts, false);
      ASSERT_TRUE(prompt) << prompt.error().message;
      EXPECT_EQ(prompt->ids, golden->ids);
      for (std::size_t axis = 0;
           axis < std::min(prompt->positions.size(), golden->positions.size()); ++axis)
        EXPECT_EQ(prompt->positions[axis], golden->positions[axis]);
      const auto many = (*processor)
                            ->given_layout(some_rows((*processor)->shape().max_image_tokens + 1,
                                                     PatchGrid{1, 2, 2}));
      ASSERT_FALSE(many);
      EXPECT_EQ(many.error().code, ErrorCode::kInvalid);
    }
  }
}

// Prompts that say how an image was cut do not follow from its rows.
TEST(Processor, FamiliesWithoutGivenRowsSayIt) {
  for (const std::string name : {"smolvlm2/thirds", "mistral3/squares", "pixtral/rows"}) {
    const auto processor = Processor::open(open_checkpoint(golden_folder(name)).value());
    ASSERT_TRUE(processor) << processor.error().message;
    const auto layout = (*processor)->given_layout(some_rows(1'000'000));
    ASSERT_FALSE(layout);
    EXPECT_EQ(layout.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(layout.error().message.find((*processor)->shape().family), std::string::npos)
        << layout.error().message;
  }
}

TEST(Processor, WhatIsNotServedIsSaid) {
  auto checkpoint = open_checkpoint(golden_folder("minilm/mean_short"));
  ASSERT_TRUE(checkpoint);
  const auto processor = Processor::open(*checkpoint);
  ASSERT_FALSE(processor);
  EXPECT_EQ(processor.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace saccade
