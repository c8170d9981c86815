#include "model/images/patch_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

using ::testing::HasSubstr;

json::object object(std::string_view text) { return json::parse(text).value().get_object(); }

PatchImages published() {
  return PatchImages::parse(object(R"({"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14,
      "temporal_patch_size": 2, "merge_size": 2, "image_processor_type": "Qwen2VLImageProcessor"})"))
      .value();
}

TEST(PatchImages, CountsTokensAsTheReference) {
  struct Case {
    int height, width;
    std::int64_t tokens, tokens_of_1280;
  };
  const PatchImages images = published();
  ImageControls small;
  small.max_pixels = 1280 * 28 * 28;
  for (const Case& c :
       {Case{224, 224, 64, 64}, Case{480, 640, 391, 391}, Case{1024, 1024, 1369, 1225},
        Case{1080, 1920, 2691, 1222}, Case{2160, 3840, 10549, 1222}, Case{100, 2000, 284, 284}}) {
    EXPECT_EQ(images.layout(c.width, c.height, {}).value().tokens, c.tokens)
        << c.height << "x" << c.width;
    EXPECT_EQ(images.layout(c.width, c.height, small).value().tokens, c.tokens_of_1280) << c.height;
  }
  EXPECT_EQ(images.max_tokens(), 16384);
  EXPECT_EQ(images.max_patches(), 65536);
}

TEST(PatchImages, TokenBudgetsHold) {
  const PatchImages images = published();
  for (const std::int64_t budget : {4, 16, 256, 1000}) {
    ImageControls controls;
    controls.max_tokens = budget;
    for (const int height : {28, 500, 1333, 4000}) {
      const ImageLayout layout = images.layout(1000, height, controls).value();
      EXPECT_LE(layout.tokens, budget) << height;
      EXPECT_NE(layout.key, images.layout(4000, 4000, {}).value().key);
    }
  }
}

TEST(PatchImages, ReadsControls) {
  const PatchImages images = published();
  ImageControls controls;
  controls.processor_kwargs =
      object(R"({"size": {"shortest_edge": 3136, "longest_edge": 200704}})");
  EXPECT_LE(images.layout(1000, 1000, controls).value().tokens, 256);
  controls.min_pixels = 2000 * 2000;  // of the request, over the kwargs' maximum
  EXPECT_THAT(images.layout(100, 100, controls).error().message, HasSubstr("over max_pixels"));
  controls.processor_kwargs = object(R"({"min_pixels": 1000000})");
  controls.min_pixels.reset();
  EXPECT_GE(images.layout(100, 100, controls).value().tokens, 1000000 / 784);

  for (const char* kwargs : {R"({"crop_size": 3})", R"({"min_pixels": 0})",
                             R"({"max_pixels": "big"})", R"({"max_pixels": 99999999999999})"}) {
    controls.processor_kwargs = object(kwargs);
    const auto layout = images.layout(100, 100, controls);
    ASSERT_FALSE(layout) << kwargs;
    EXPECT_EQ(layout.error().code, ErrorCode::kInvalid);
  }
  controls.processor_kwargs = {};
  controls.max_tokens = 0;
  EXPECT_FALSE(images.layout(100, 100, controls));
  EXPECT_FALSE(images.layout(10, 3000, {}));
}

TEST(PatchImages, RefusesWhatItCannotHonour) {
  for (const char* config :
       {R"({"do_resize": false})", R"({"resample": 6})", R"({"patch_size": 0})",
        R"({"image_mean": [1, 2]})", R"({"image_std": [1, 0, 1]})", R"({"image_std": [1, -1, 1]})",
        R"({"image_std": [1, 1e-60, 1]})", R"({"min_pixels": -1})",
        R"({"min_pixels": 2000, "max_pixels": 1000})",
        R"({"size": {"shortest_edge": 2000, "longest_edge": 1000}})"})
    EXPECT_FALSE(PatchImages::parse(object(config))) << config;
  EXPECT_EQ(PatchImages::parse({}).value().max_tokens(), 1280);  // the class's own default
}

}  // namespace
}  // namespace saccade
