// Sizes through families' own layouts, under the published rule and under the level; the work that
// both are decided by.
#include "serve/image_sizes/image_sizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "model/prompts/processor.h"

namespace saccade::serve {
namespace {

// The published configuration of a family, as its golden token counts were made with.
std::unique_ptr<Processor> published(const std::string& family) {
  std::ifstream file(SACCADE_SOURCE_DIR "/tests/golden/" + family + "/token_counts.tsv");
  std::string line;
  std::getline(file, line);
  const auto about = json::parse(line);
  EXPECT_TRUE(about) << family;
  if (!about) return nullptr;
  const json::object& members = about->get_object();
  auto processor = Processor::open({"published",
                                    members.at("config").get_object(),
                                    {},
                                    members.at("preprocessor").get_object()});
  EXPECT_TRUE(processor) << processor.error().message;
  return processor ? *std::move(processor) : nullptr;
}

ImageToSize image_of(const Processor& processor, int width, int height, std::uint8_t content = 1,
                     ImageControls controls = {}) {
  ImageToSize image;
  image.controls = std::move(controls);
  image.content.fill(content);
  const auto layout = processor.image_layout(width, height, image.controls);
  EXPECT_TRUE(layout) << layout.error().message;
  if (layout) image.layout = *layout;
  return image;
}

ImageSizeSettings settings(std::string_view mode) {
  ImageSizeSettings settings;
  EXPECT_TRUE(choose_image_size(mode, settings));
  return settings;
}

// A millisecond a token for both stages together.
cluster::StageCosts costs() {
  cluster::StageCosts costs;
  costs.encode.linear = 0.7;
  costs.prefill.linear = 0.3;
  return costs;
}

constexpr std::int64_t kStored = 100'000;

class Sizer {
 public:
  explicit Sizer(const ImageSizeSettings& chosen, const std::string& family = "qwen2_5_vl")
      : processor(published(family)), sizer(chosen, *processor, costs(), kStored, clock) {}

  // One image alone; its tokens.
  std::int64_t size(ImageToSize image, SizingRequest request = {}) {
    request.arrival = clock.now();
    sized = {};
    const auto done = sizer.size({&image, 1}, request, sized);
    EXPECT_TRUE(done) << done.error().message;
    if (!done) return -1;
    sizer.submitted(*sized.work, request.text_tokens + image.layout.tokens);
    layout = image.layout;
    return image.layout.tokens;
  }
  ImageToSize image(int width, int height, std::uint8_t content = 1, ImageControls controls = {}) {
    return image_of(*processor, width, height, content, std::move(controls));
  }
  // So much is waiting from now on.
  void wait_for(std::int64_t tokens) {
    SizedRequest other;
    SizingRequest text;
    text.arrival = clock.now();
    text.text_tokens = tokens * 10 / 3;
    EXPECT_TRUE(sizer.size({}, text, other));
    work = other.work;
  }

  VirtualClock clock;
  std::unique_ptr<Processor> processor;
  ImageSizer sizer;
  SizedRequest sized;
  ImageLayout layout;
  std::shared_ptr<PendingWork> work;
};

// The picture of the published report: 8,030 tokens and 27 of text are its 8,057.
TEST(ImageSizer, ThePublishedPictureHasThePublishedTokens) {
  const auto processor = published("qwen2_5_vl");
  const ImageToSize hato = image_of(*processor, 3082, 2048);
  EXPECT_EQ(hato.layout.tokens, 8030);
  EXPECT_EQ(hato.layout.resized_width, 3080);
  EXPECT_EQ(hato.layout.resized_height, 2044);

  Sizer sizer(settings("static:4096"));
  EXPECT_EQ(sizer.size(sizer.image(3082, 2048)), 2688);
  EXPECT_EQ(sizer.layout.resized_width, 1792);
  EXPECT_EQ(sizer.layout.resized_height, 1176);
  EXPECT_EQ(sizer.layout.width, 3082);  // from its own pixels, once
  EXPECT_EQ(sizer.layout.key, "1792x1176");
  EXPECT_NEAR(sizer.sized.scale(), 2688.0 / 8030, 1e-9);
}

TEST(ImageSizer, StaticLeavesWhatFits) {
  Sizer sizer(settings("static:4096"));
  EXPECT_EQ(sizer.size(sizer.image(640, 480)), 391);
  EXPECT_EQ(sizer.sized.scale(), 1);
  EXPECT_EQ(sizer.size(sizer.image(3840, 3840)), 4096);
  EXPECT_EQ(sizer.size(sizer.image(8000, 2000)), 1024);  // a quarter of its budget, as published
}

TEST(ImageSizer, TheSeedsRuleGoesByTheRate) {
  Sizer sizer(settings("seed"));
  const auto at_rate = [&](double rate) {
    SizingRequest request;
    request.rate = rate;
    return sizer.size(sizer.image(3840, 3840), request);
  };
  // Squares: the whole budget, as far as whole patches of it go.
  for (const auto& [rate, budget] : std::initializer_list<std::pair<double, std::int64_t>>{
           {1, 8507}, {2, 4253}, {4, 2126}, {10, 850}}) {
    const std::int64_t tokens = at_rate(rate);
    EXPECT_LE(tokens, budget + 100) << rate;
    EXPECT_GE(tokens, budget * 9 / 10) << rate;
  }
  EXPECT_EQ(sizer.sizer.arrived(), 1);
  EXPECT_EQ(sizer.sizer.arrived(), 2);  // whatever is asked for
}

TEST(ImageSizer, DynamicLeavesImagesAloneWhileNobodyWaits) {
  ImageSizeSettings chosen = settings("dynamic");
  chosen.ttft_target = 20 * kSecond;
  Sizer sizer(chosen);
  EXPECT_EQ(sizer.size(sizer.image(3082, 2048)), 8030);
  EXPECT_EQ(sizer.sized.predicted, 8030 * kMillisecond);
}

TEST(ImageSizer, DynamicLowersTheLevelWithTheWaitAndRaisesItAgain) {
  ImageSizeSettings chosen = settings("dynamic");
  chosen.ttft_target = 20 * kSecond;
  Sizer sizer(chosen);
  sizer.size(sizer.image(3082, 2048));
  sizer.wait_for(10'000);  // half of the target
  std::int64_t last = 8030;
  for (int i = 0; i < 6; ++i) {
    for (int step = 0; step < 4; ++step) {
      sizer.clock.advance(sizer.sizer.period());
      sizer.sizer.tick();
    }
    const std::int64_t tokens =
        sizer.size(sizer.image(3082, 2048, static_cast<std::uint8_t>(i + 2)));
    EXPECT_LE(tokens, last);
    EXPECT_LE(tokens, sizer.sizer.stats().cap);
    EXPECT_GE(tokens, sizer.sizer.stats().cap * 9 / 10);
    last = tokens;
  }
  EXPECT_LT(last, 2000);
  EXPECT_GT(sizer.sizer.stats().reduced, 0u);

  sizer.work.reset();  // all done
  sizer.sized = {};
  for (int step = 0; step < 400; ++step) {
    sizer.clock.advance(sizer.sizer.period());
    sizer.sizer.tick();
  }
  EXPECT_EQ(sizer.size(sizer.image(3082, 2048, 100)), 8030);
}

TEST(ImageSizer, TheDeadlineOfARequestClipsIt) {
  Sizer sizer(settings("dynamic"));  // 2 s: 1,800 tokens
  EXPECT_EQ(sizer.sizer.stats().cap, 16384);
  const std::int64_t tokens = sizer.size(sizer.image(3082, 2048));
  EXPECT_LE(tokens, 1448);
  EXPECT_GE(tokens, 1300);
  SizingRequest patient;
  patient.target = 60 * kSecond;
  EXPECT_EQ(sizer.size(sizer.image(3082, 2048, 2), patient), 8030);
}

TEST(ImageSizer, DetailAndBoundsAreHonoured) {
  Sizer sizer(settings("dynamic"));
  ImageToSize high = sizer.image(3082, 2048);
  high.high_detail = true;
  EXPECT_EQ(sizer.size(high), 8030);
  ImageControls low;
  low.max_tokens = 256;
  EXPECT_LE(sizer.size(sizer.image(3082, 2048, 2, low)), 256);
  ImageControls least;
  least.min_pixels = 3'000'000;  // about 3,827 tokens: more than is in time
  const std::int64_t tokens = sizer.size(sizer.image(3082, 2048, 3, least));
  EXPECT_GE(std::int64_t{sizer.layout.resized_width} * sizer.layout.resized_height, 3'000'000);
  EXPECT_LE(tokens, 4096);
  ImageControls most;
  most.max_pixels = 200'000;
  EXPECT_LE(sizer.size(sizer.image(3082, 2048, 4, most)), 256);
}

TEST(ImageSizer, ATurnUsesTheSizeOfTheOneBefore) {
  ImageSizeSettings chosen = settings("dynamic");
  chosen.ttft_target = 10 * kSecond;
  Sizer sizer(chosen);
  EXPECT_EQ(sizer.size(sizer.image(3082, 2048, 7)), 8030);
  const std::string first = sizer.layout.key;
  sizer.wait_for(4'000);
  for (int step = 0; step < 12; ++step) {
    sizer.clock.advance(sizer.sizer.period());
    sizer.sizer.tick();
  }
  // Another image is made smaller now; this one has its embedding, and prefill as_published is in
  // time.
  EXPECT_LT(sizer.size(sizer.image(3082, 2048, 8)), 6000);
  sizer.sized = {};
  EXPECT_EQ(sizer.size(sizer.image(3082, 2048, 7)), 8030);
  EXPECT_EQ(sizer.layout.key, first);
  EXPECT_EQ(sizer.sized.work->encode_tokens, (std::vector<std::int64_t>{0}));
  // Nobody else's: a salt keeps tenants apart.
  SizingRequest other;
  other.cache_salt = "tenant";
  EXPECT_LT(sizer.size(sizer.image(3082, 2048, 7), other), 6000);
}

// The first of them takes the place of the second, which is known until then.
TEST(ImageSizer, ARequestMayBringMoreImagesThanAreRemembered) {
  const auto processor = published("qwen2_5_vl");
  VirtualClock clock;
  ImageSizer sizer(settings("dynamic"), *processor, costs(), 0, clock);
  const auto size = [&](std::vector<ImageToSize> images) {
    SizingRequest request;
    request.arrival = clock.now();
    SizedRequest sized;
    const auto done = sizer.size(images, request, sized);
    EXPECT_TRUE(done) << done.error().message;
  };
  size({image_of(*processor, 640, 480, 1)});
  size({image_of(*processor, 640, 480, 2), image_of(*processor, 640, 480, 1)});
}

TEST(ImageSizer, WhatIsTooLateIsRefusedOrCounted) {
  ImageSizeSettings chosen = settings("dynamic");
  Sizer accepting(chosen);
  accepting.wait_for(10'000);
  EXPECT_LE(accepting.size(accepting.image(3082, 2048)), 256);
  EXPECT_EQ(accepting.sizer.stats().late, 1u + 1u);  // that which waits was late too

  chosen.refuse_late = true;
  Sizer refusing(chosen);
  SizedRequest first;
  SizingRequest text;
  text.text_tokens = 5'000;  // 1.5 s
  ASSERT_TRUE(refusing.sizer.size({}, text, first));
  SizedRequest sized;
  ImageToSize image = refusing.image(3082, 2048);
  const auto refused = refusing.sizer.size({&image, 1}, text, sized);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(sized.retry_after, 2);  // 1.5 s before it, 1.5 + 0.256 s itself, 1.8 s of room
  EXPECT_EQ(refusing.sizer.stats().refused, 1u);
  EXPECT_EQ(sized.work, nullptr);  // and it counts for nobody
}

TEST(ImageSizer, WorkCountsUntilItIsDone) {
  Sizer sizer(settings("dynamic"));
  const auto waits = [&] { return sizer.sizer.stats().waits; };
  EXPECT_EQ(waits().encoder, 0);
  const std::int64_t tokens = sizer.size(sizer.image(3082, 2048));
  EXPECT_NEAR(milliseconds(waits().encoder), 0.7 * static_cast<double>(tokens), 1e-3);
  EXPECT_NEAR(milliseconds(waits().prefill), 0.3 * static_cast<double>(tokens), 1e-3);
  RequestProgress& progress = sizer.sized.work->progress;
  progress.set_encoded(0);
  EXPECT_EQ(waits().encoder, 0);
  progress.set_computed(tokens / 2);
  EXPECT_NEAR(milliseconds(waits().prefill), 0.15 * static_cast<double>(tokens), 1);
  progress.set_computed(tokens);
  EXPECT_EQ(waits().prefill, 0);
  // And it is gone with its request.
  sizer.size(sizer.image(3082, 2048, 9));
  EXPECT_GT(waits().encoder, 0);
  sizer.sized = {};
  EXPECT_EQ(waits().encoder, 0);
}

TEST(ImageSizer, LearnsHowFastTheMachineIs) {
  Sizer sizer(settings("dynamic"));
  EngineStats stats;
  for (int i = 0; i < 200; ++i) {
    sizer.size(sizer.image(3082, 2048, static_cast<std::uint8_t>(i)));
    stats.images_encoded += 1;
    stats.encoder_tokens_computed += 1000;
    stats.encoder_busy_seconds += 1.4;  // twice the profile's 0.7
    sizer.sizer.observe(stats);
  }
  EXPECT_NEAR(sizer.sizer.stats().encode_factor, 2, 0.01);
  EXPECT_EQ(sizer.sizer.stats().prefill_factor, 1);
}

// Families of tiles have their counts as rungs, and sizes come in whole tiles.
TEST(ImageSizer, TiledFamiliesStepByTiles) {
  const auto processor = published("internvl2");
  const cluster::SizeLadder ladder = ladder_of(*processor, 256);
  for (const std::int64_t rung : ladder.rungs()) EXPECT_EQ(rung % 256, 0) << rung;
  EXPECT_EQ(ladder.floor(), 256);
  EXPECT_GT(ladder.rungs().size(), 5u);
  Sizer sizer(settings("dynamic"), "internvl2");
  const std::int64_t tokens = sizer.size(sizer.image(3000, 3000));
  EXPECT_EQ(tokens % 256, 0);
  EXPECT_LE(tokens, 1800);
  EXPECT_EQ(ladder_of(*published("qwen2_5_vl"), 256).rungs(),
            cluster::SizeLadder::halving(16384, 256).rungs());
}

// 1,701 tokens at 5 requests a second: the image that answers stays as it came.
TEST(ImageSizer, ThePublishedCodeReducesTheEncodersCopyAlone) {
  for (const char* mode : {"seed", "seed-as-published"}) {
    Sizer sizer(settings(mode));
    ImageToSize large = sizer.image(1536, 1536);
    const std::int64_t native = large.layout.tokens;
    SizingRequest request;
    request.rate = 5;
    SizedRequest sized;
    ASSERT_TRUE(sizer.sizer.size({&large, 1}, request, sized));
    const bool copies = std::string_view(mode) != "seed";
    EXPECT_EQ(large.layout.tokens == native, copies);
    ASSERT_EQ(large.copy.has_value(), copies);
    const std::int64_t reduced = copies ? large.copy->layout.tokens : large.layout.tokens;
    EXPECT_LE(reduced, 1701);
    EXPECT_GT(reduced, 1500);
    EXPECT_EQ(sized.applied_tokens, copies ? native : reduced);
    EXPECT_EQ(sized.work->encode_tokens, std::vector{copies ? native : reduced});
    EXPECT_EQ(sizer.sizer.stats().reduced, 1U);
    if (!copies) continue;
    // What leads to the copy is what an encoder elsewhere is told.
    const auto again = sizer.processor->image_layout(1536, 1536, large.copy->controls);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->key, large.copy->layout.key);
    ImageToSize small = sizer.image(280, 280);
    ASSERT_TRUE(sizer.sizer.size({&small, 1}, request, sized));
    EXPECT_FALSE(small.copy);
  }
}

TEST(ImageSizeFlag, IsReadAndWhatIsNotDoneIsSaid) {
  ImageSizeSettings chosen;
  EXPECT_TRUE(choose_image_size("static:4096", chosen));
  EXPECT_EQ(chosen.static_tokens, 4096);
  for (const char* bad : {"", "static", "static:", "static:0", "static:-1", "static:4k", "Dynamic",
                          "static:99999999999999999999"})
    EXPECT_FALSE(choose_image_size(bad, chosen)) << bad;
  for (const char* good : {"vanilla", "static:1", "seed", "seed-as-published", "dynamic"}) {
    EXPECT_TRUE(choose_image_size(good, chosen)) << good;
  }
}

}  // namespace
}  // namespace saccade::serve
