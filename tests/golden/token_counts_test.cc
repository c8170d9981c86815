// How many tokens an image becomes, against the real processors: token_counts.tsv of each family,
// made by tools/goldens/token_counts.py with the published configuration, and size_controls.tsv, by
// size_controls.py, under what a request may say. What bounds of pixels and tokens do to tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "model/families.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

class TokenCounts : public ::testing::TestWithParam<const char*> {};

// The first line is a configuration and the preprocessor's.
std::unique_ptr<Processor> read_model(std::istream& file) {
  std::string line;
  std::getline(file, line);
  const auto about = json::parse(line);
  EXPECT_TRUE(about) << about.error().message;
  if (!about) return nullptr;
  const json::object& members = about->get_object();
  auto model = Processor::open({"published",
                                members.at("config").get_object(),
                                {},
                                members.at("preprocessor").get_object()});
  EXPECT_TRUE(model) << model.error().message;
  return model ? *std::move(model) : nullptr;
}

// Then height, width, tokens, under `controls`.
void expect_counts(const std::string& folder, const Processor& model,
                   const ImageControls& controls) {
  std::ifstream file(test::golden_folder(folder) + "/token_counts.tsv");
  ASSERT_TRUE(file) << folder;
  std::string line;
  std::getline(file, line);
  int sizes = 0;
  int wrong = 0;
  while (std::getline(file, line)) {
    int height = 0;
    int width = 0;
    std::int64_t tokens = 0;
    std::istringstream(line) >> height >> width >> tokens;
    const auto layout = model.image_layout(width, height, controls);
    ++sizes;
    if (tokens == 0) {  // the processor refuses it
      EXPECT_FALSE(layout) << height << "x" << width;
      continue;
    }
    ASSERT_TRUE(layout) << layout.error().message;
    EXPECT_EQ(layout->tokens, tokens) << height << "x" << width;
    EXPECT_LE(layout->tokens, model.shape().max_image_tokens);
    if (layout->tokens != tokens && ++wrong > 10) break;
  }
  EXPECT_GE(sizes, 40);
}

class VideoCounts : public ::testing::TestWithParam<const char*> {};

// The same of videos: frames, height, width, tokens, controls; made by tools/goldens/qwen_video.py
// and tile_video.py.
TEST_P(VideoCounts, AreTheProcessors) {
  std::ifstream file(test::golden_folder(GetParam()) + "/video_counts.tsv");
  ASSERT_TRUE(file);
  std::string line;
  std::getline(file, line);
  const auto about = json::parse(line);
  ASSERT_TRUE(about) << about.error().message;
  const json::object& members = about->get_object();
  const auto model = Processor::open({"published",
                                      members.at("config").get_object(),
                                      {},
                                      members.at("preprocessor").get_object()});
  ASSERT_TRUE(model) << model.error().message;
  int videos = 0;
  for (; std::getline(file, line); ++videos) {
    SCOPED_TRACE(line);
    int height = 0;
    int width = 0;
    std::int64_t tokens = 0;
    VideoControls controls;
    std::istringstream fields(line);
    fields >> controls.frames >> height >> width >> tokens;
    std::string said;
    std::getline(fields, said);
    controls.frame.processor_kwargs = json::parse(said).value().get_object();
    const auto layout = (*model)->video_layout(width, height, controls);
    ASSERT_EQ(layout.has_value(), tokens > 0);
    if (!layout) continue;
    EXPECT_EQ(layout->tokens, tokens);
    const std::int64_t depth = (*model)->shape().frames_per_grid;
    EXPECT_EQ(layout->grid_t, (controls.frames + depth - 1) / depth);
    EXPECT_EQ(layout->frames, controls.frames);
  }
  EXPECT_GE(videos, 40);
}

INSTANTIATE_TEST_SUITE_P(Families, VideoCounts,
                         ::testing::Values("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava_onevision",
                                           "smolvlm2", "internvl2", "glm4v", "minicpmv"),
                         [](const auto& family) { return std::string(family.param); });

// What SmolVLM2 writes for a video: frames, frames a second, seconds of the file, the text as JSON;
// made by tools/goldens/tile_video.py. A frame has one token there.
TEST(VideoTexts, AreTheProcessors) {
  const std::string folder = test::golden_folder("smolvlm2");
  const auto checkpoint = open_checkpoint(folder + "/thirds");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = Processor::open(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  const auto tokenizer = load_tokenizer(folder + "/thirds");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::ifstream file(test::golden_folder("tables/smolvlm2_video_texts.tsv"));
  ASSERT_TRUE(file);
  int videos = 0;
  for (std::string line; std::getline(file, line); ++videos) {
    VideoControls controls;
    std::istringstream fields(line);
    fields >> controls.frames >> controls.fps >> controls.duration;
    SCOPED_TRACE(fmt::format("{} frames, {} a second, {} s", controls.frames, controls.fps,
                             controls.duration));
    std::string said;
    std::getline(fields, said);
    const std::vector<ImageLayout> layouts = {(*model)->video_layout(90, 61, controls).value()};
    const auto prompt = (*model)->build_prompt(**tokenizer, "See: <video> well", layouts, false);
    ASSERT_TRUE(prompt) << prompt.error().message;
    const std::string text(json::parse(said).value().get_string());
    EXPECT_EQ(prompt->ids,
              (*tokenizer)->encode("See: " + text + " well", {.add_special_tokens = false}));
    EXPECT_EQ(std::ssize(prompt->images), controls.frames);
  }
  EXPECT_EQ(videos, 65);
}

// How a prompt has a video whose times are written.
struct TimedVideo {
  const char* folder;
  std::string_view start;
  std::string_view group;
  std::string_view end;
};

class VideoTimes : public ::testing::TestWithParam<TimedVideo> {};

// Frames, frames a second, the text; "|" is a group. Each has one token here.
TEST_P(VideoTimes, AreTheProcessors) {
  const std::string folder = test::golden_folder(GetParam().folder);
  const auto checkpoint = open_checkpoint(folder + "/odd_heads");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = Processor::open(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  const auto tokenizer = load_tokenizer(folder + "/odd_heads");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const std::string video = (*model)->video_placeholder();

  std::ifstream file(folder + "/video_times.tsv");
  ASSERT_TRUE(file);
  int videos = 0;
  for (std::string line; std::getline(file, line); ++videos) {
    SCOPED_TRACE(line);
    VideoControls controls;
    controls.frame.min_pixels = 1;
    std::istringstream fields(line);
    fields >> controls.frames >> controls.fps;
    fields.ignore(1);
    std::string text(GetParam().start);
    for (char c; fields.get(c);) text += c == '|' ? GetParam().group : std::string_view(&c, 1);
    text += GetParam().end;
    const std::vector<ImageLayout> layouts = {(*model)->video_layout(28, 28, controls).value()};
    ASSERT_EQ(layouts.front().tokens, layouts.front().grid_t);
    const auto prompt =
        (*model)->build_prompt(**tokenizer, "See this: " + video + " well", layouts, false);
    ASSERT_TRUE(prompt) << prompt.error().message;
    EXPECT_EQ(prompt->ids,
              (*tokenizer)->encode("See this: " + text + " well", {.add_special_tokens = false}));
    EXPECT_EQ(std::ssize(prompt->images), layouts.front().grid_t);
  }
  EXPECT_GE(videos, 40);
}

INSTANTIATE_TEST_SUITE_P(
    Families, VideoTimes,
    ::testing::Values(TimedVideo{"qwen3_vl", "", "<|vision_start|><|video_pad|><|vision_end|>", ""},
                      TimedVideo{"glm4v", "<|begin_of_video|>",
                                 "<|begin_of_image|><|image|><|end_of_image|>",
                                 "<|end_of_video|>"}),
    [](const auto& family) { return std::string(family.param.folder); });

TEST_P(TokenCounts, AreTheProcessors) {
  std::ifstream file(test::golden_folder(GetParam()) + "/token_counts.tsv");
  ASSERT_TRUE(file) << GetParam();
  const auto model = read_model(file);
  ASSERT_NE(model, nullptr);
  expect_counts(GetParam(), *model, {});
}

INSTANTIATE_TEST_SUITE_P(Families, TokenCounts,
                         ::testing::Values("qwen2_vl", "qwen2_5_vl", "llava_onevision", "internvl2",
                                           "internvl3", "paligemma", "phi_3_vision",
                                           "phi_3_vision/num_crops_4", "smolvlm2", "qwen3_vl",
                                           "qwen3_vl_moe", "qwen3_5_vl", "gemma3", "mistral3",
                                           "pixtral", "mllama", "glm4v", "minicpmv"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

std::unique_ptr<Processor> published_model(const std::string& family) {
  std::ifstream file(test::golden_folder(family) + "/token_counts.tsv");
  EXPECT_TRUE(file) << family;
  return read_model(file);
}

class SizeControls : public ::testing::TestWithParam<const char*> {};

TEST_P(SizeControls, AreTheProcessors) {
  std::ifstream file(test::golden_folder(GetParam()) + "/size_controls.tsv");
  ASSERT_TRUE(file) << GetParam();
  const auto model = read_model(file);
  ASSERT_NE(model, nullptr);
  std::string line;
  int lines = 0;
  int acted = 0;
  for (; std::getline(file, line); ++lines) {
    int height = 0;
    int width = 0;
    std::string kwargs;
    std::int64_t tokens = 0;
    std::istringstream fields(line);
    fields >> height >> width >> std::ws;
    std::getline(fields, kwargs, '\t');
    fields >> tokens;
    ImageControls controls;
    controls.processor_kwargs = json::parse(kwargs).value().as_object();
    const auto layout = model->image_layout(width, height, controls);
    ASSERT_TRUE(layout) << line << ": " << layout.error().message;
    EXPECT_EQ(layout->tokens, tokens) << line;
    if (model->image_layout(width, height, {})->tokens != tokens) ++acted;
  }
  EXPECT_GE(lines, 48);
  EXPECT_GE(acted, 12);
}

INSTANTIATE_TEST_SUITE_P(Families, SizeControls,
                         ::testing::Values("qwen2_vl", "qwen2_5_vl", "llava_onevision", "internvl2",
                                           "smolvlm2", "mistral3", "pixtral", "minicpmv"),
                         [](const auto& family) { return std::string(family.param); });

class SmallBounds : public ::testing::TestWithParam<const char*> {};

// Thin and small images where a checkpoint's own bounds are small: as many tokens as the processor
// makes, and never more than the model said that it would take.
TEST_P(SmallBounds, AreTheProcessors) {
  std::ifstream file(test::golden_folder(GetParam()) + "/small_bounds.tsv");
  ASSERT_TRUE(file) << GetParam();
  std::string line;
  std::getline(file, line);
  const json::value about = json::parse(line).value();
  const auto changed = [&](const char* part, const json::object& change) {
    json::object members = about.at(part).as_object();
    if (const json::value* more = json::find(change, part); more != nullptr)
      for (const auto& member : more->get_object()) members[member.key()] = member.value();
    return members;
  };
  std::string last_change;
  std::unique_ptr<Processor> model;
  int lines = 0;
  for (; std::getline(file, line); ++lines) {
    SCOPED_TRACE(line);
    int height = 0;
    int width = 0;
    std::string change;
    std::int64_t tokens = 0;
    std::istringstream fields(line);
    fields >> height >> width >> std::ws;
    std::getline(fields, change, '\t');
    fields >> tokens;
    if (change != last_change) {
      const json::object said = json::parse(change).value().get_object();
      auto created =
          Processor::open({"small", changed("config", said), {}, changed("preprocessor", said)});
      ASSERT_TRUE(created) << created.error().message;
      model = *std::move(created);
      last_change = change;
    }
    const auto layout = model->image_layout(width, height, {});
    ASSERT_EQ(layout.has_value(), tokens > 0) << (layout ? "" : layout.error().message);
    if (!layout) continue;
    EXPECT_EQ(layout->tokens, tokens);
    EXPECT_LE(layout->tokens, model->shape().max_image_tokens);
    EXPECT_LE(layout->grid_t * layout->grid_h * layout->grid_w, model->shape().max_image_patches);
  }
  EXPECT_GE(lines, 18);
}

INSTANTIATE_TEST_SUITE_P(Families, SmallBounds,
                         ::testing::Values("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava_onevision",
                                           "internvl2", "smolvlm2", "paligemma", "gemma3",
                                           "mistral3", "pixtral", "glm4v"),
                         [](const auto& family) { return std::string(family.param); });

// Crops of a request are crops of a processor.
TEST(SizeControls, Phi3sCrops) {
  const auto model = published_model("phi_3_vision");
  ASSERT_NE(model, nullptr);
  ImageControls controls;
  controls.processor_kwargs["num_crops"] = 4;
  expect_counts("phi_3_vision/num_crops_4", *model, controls);
}

// Bounds become tiles, crops or pinpoints: within the bound, or the fewest (most) there are.
TEST(SizeControls, BoundsOfPixelsAndTokensAct) {
  struct Case {
    const char* family;
    bool grows;  // min_pixels has something to do
  };
  constexpr std::int64_t kNone = 0;
  for (const auto& [family, grows] :
       {Case{"qwen2_vl", true}, Case{"qwen2_5_vl", true}, Case{"internvl2", true},
        Case{"llava_onevision", true}, Case{"phi_3_vision", false}, Case{"smolvlm2", false},
        Case{"mistral3", true}, Case{"pixtral", true}, Case{"minicpmv", false}}) {
    SCOPED_TRACE(family);
    const auto model = published_model(family);
    ASSERT_NE(model, nullptr);
    const auto layout_of = [&](int width, int height, std::int64_t least, std::int64_t most,
                               std::int64_t tokens) {
      ImageControls controls;
      if (least != kNone) controls.min_pixels = least;
      if (most != kNone) controls.max_pixels = most;
      if (tokens != kNone) controls.max_tokens = tokens;
      return model->image_layout(width, height, controls).value();
    };
    const auto area = [](const ImageLayout& layout) {
      return std::int64_t{layout.resized_width} * layout.resized_height;
    };
    int fewer = 0;
    int more = 0;
    for (const auto& [width, height] :
         {std::pair{640, 480}, {300, 900}, {1000, 990}, {1900, 600}}) {
      SCOPED_TRACE(std::to_string(width) + "x" + std::to_string(height));
      const ImageLayout usual = layout_of(width, height, kNone, kNone, kNone);
      for (const std::int64_t bound : {1, 200'000, 500'000, 1'000'000}) {
        const ImageLayout smaller = layout_of(width, height, kNone, bound, kNone);
        EXPECT_TRUE(area(smaller) <= bound ||
                    smaller.tokens == layout_of(width, height, kNone, 1, kNone).tokens)
            << bound;
        EXPECT_LE(smaller.tokens, usual.tokens);
        fewer += smaller.tokens < usual.tokens ? 1 : 0;
        const ImageLayout larger = layout_of(width, height, bound, kNone, kNone);
        if (grows) {
          EXPECT_TRUE(area(larger) >= bound ||
                      larger.tokens == layout_of(width, height, 4'000'000, kNone, kNone).tokens)
              << bound;
        } else {
          EXPECT_EQ(larger.tokens, usual.tokens);
        }
        more += larger.tokens > usual.tokens ? 1 : 0;
      }
      for (const std::int64_t bound : {1, 256, 1000, 2000}) {
        const ImageLayout smaller = layout_of(width, height, kNone, kNone, bound);
        EXPECT_TRUE(smaller.tokens <= bound ||
                    smaller.tokens == layout_of(width, height, kNone, kNone, 1).tokens)
            << bound;
        fewer += smaller.tokens < usual.tokens ? 1 : 0;
      }
    }
    EXPECT_GE(fewer, 8);
    EXPECT_EQ(more > 0, grows);
  }
}

// One size: bounds change nothing, and there is nothing to ask for.
TEST(SizeControls, PaligemmaHasOneSize) {
  const auto model = published_model("paligemma");
  ASSERT_NE(model, nullptr);
  ImageControls controls;
  controls.min_pixels = 1'000'000;
  controls.max_pixels = 2'000'000;
  controls.max_tokens = 1;
  EXPECT_EQ(model->image_layout(640, 480, controls).value().tokens, 1024);
  controls.processor_kwargs["size"] = {{"height", 224}, {"width", 224}};
  EXPECT_FALSE(model->image_layout(640, 480, controls));
}

TEST(SizeControls, OthersAreRefusedByName) {
  struct Case {
    const char* family;
    const char* kwargs;
    const char* named;
  };
  for (const auto& [family, kwargs, named] : {
           Case{"qwen2_vl", R"({"num_crops": 3})", "num_crops"},
           Case{"internvl2", R"({"num_crops": 3})", "num_crops"},
           Case{"internvl2", R"({"max_patches": 0})", "0 tiles"},
           Case{"llava_onevision", R"({"size": {"height": 384}})", "size"},
           Case{"llava_onevision", R"({"image_grid_pinpoints": []})", "image_grid_pinpoints"},
           Case{"llava_onevision", R"({"image_grid_pinpoints": [[384, 100]]})", "multiples of 384"},
           Case{"llava_onevision", R"({"image_grid_pinpoints": [[3840, 3840]]})", "limit"},
           Case{"phi_3_vision", R"({"max_patches": 3})", "max_patches"},
           Case{"phi_3_vision", R"({"num_crops": 0})", "num_crops"},
           Case{"paligemma", R"({"do_resize": false})", "do_resize"},
           Case{"smolvlm2", R"({"max_patches": 3})", "max_patches"},
           Case{"smolvlm2", R"({"size": {"height": 512, "width": 512}})", "longest_edge"},
           Case{"smolvlm2", R"({"size": {"longest_edge": 4097}})", "4097"},
           Case{"smolvlm2", R"({"size": {"longest_edge": 0}})", "0"},
           Case{"smolvlm2", R"({"size": {"longest_edge": 4096}})", "limit"},
           Case{"smolvlm2", R"({"max_image_size": {"longest_edge": 384}})", "384"},
           Case{"smolvlm2", R"({"do_image_splitting": 1})", "do_image_splitting"},
           Case{"mistral3", R"({"max_patches": 3})", "max_patches"},
           Case{"mistral3", R"({"size": {"height": 512, "width": 512}})", "longest_edge"},
           Case{"pixtral", R"({"size": {"longest_edge": 0}})", "0"},
           Case{"pixtral", R"({"size": {"longest_edge": 16385}})", "16385"},
           Case{"minicpmv", R"({"max_slice_nums": 0})", "max_slice_nums"},
           Case{"minicpmv", R"({"max_slice_nums": 257})", "257"},
           Case{"minicpmv", R"({"downsample_mode": "4x"})", "downsample_mode"},
           Case{"minicpmv", R"({"slice_mode": 1})", "slice_mode"},
       }) {
    SCOPED_TRACE(std::string(family) + kwargs);
    const auto model = published_model(family);
    ASSERT_NE(model, nullptr);
    ImageControls controls;
    controls.processor_kwargs = json::parse(kwargs).value().as_object();
    const auto layout = model->image_layout(640, 640, controls);
    ASSERT_FALSE(layout);
    EXPECT_NE(layout.error().message.find(named), std::string::npos) << layout.error().message;
  }
  for (const char* family : {"qwen2_vl", "internvl2", "paligemma", "pixtral"}) {
    ImageControls controls;
    controls.min_pixels = 500'000;
    controls.max_pixels = 400'000;
    EXPECT_FALSE(published_model(family)->image_layout(640, 640, controls)) << family;
  }
}

}  // namespace
}  // namespace saccade
