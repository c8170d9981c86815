#include "model/videos/patch_videos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace saccade {
namespace {

using ::testing::HasSubstr;

json::object video_object(std::string_view text) { return json::parse(text).value().get_object(); }

PatchVideos published_videos() {
  return PatchVideos::parse(
             video_object(R"({"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14,
      "temporal_patch_size": 2, "merge_size": 2})"))
      .value();
}

VideoControls frames(std::int64_t count) {
  VideoControls controls;
  controls.frames = count;
  return controls;
}

TEST(PatchVideos, GroupsFramesByTwo) {
  const PatchVideos videos = published_videos();
  for (const auto& [count, groups] : {std::pair{1, 1}, {2, 1}, {3, 2}, {4, 2}, {33, 17}}) {
    const ImageLayout layout = videos.layout(640, 480, frames(count)).value();
    EXPECT_EQ(layout.grid_t, groups) << count;
    EXPECT_EQ(layout.frames, count);
    EXPECT_EQ(layout.tokens, groups * 17 * 23) << count;
    EXPECT_EQ(layout.fps, 2) << count;
  }
}

TEST(PatchVideos, FramesShareABudget) {
  const PatchVideos videos = published_videos();
  for (const std::int64_t count : {2, 8, 64}) {
    VideoControls controls = frames(count);
    controls.total_pixels = 400'000;
    const ImageLayout layout = videos.layout(1280, 720, controls).value();
    EXPECT_LE(layout.tokens * 784, 400'000) << count;
    EXPECT_GE(layout.tokens * 784, 200'000) << count;
    controls.total_pixels.reset();
    controls.frame.processor_kwargs = video_object(R"({"total_pixels": 400000})");
    EXPECT_EQ(videos.layout(1280, 720, controls).value().tokens, layout.tokens);
  }
  // Never so little that no frame fits: 5 % over the least.
  VideoControls controls = frames(1000);
  controls.total_pixels = 784;
  controls.frame.min_pixels = 100 * 784;
  EXPECT_LE(videos.layout(1280, 720, controls).value().tokens, 500 * 105);
  EXPECT_GE(videos.layout(1280, 720, controls).value().tokens, 500 * 90);
}

TEST(PatchVideos, WithoutBoundsHasTheVideoProcessorsOwn) {
  const PatchVideos videos = PatchVideos::parse({}).value();
  EXPECT_EQ(videos.layout(1920, 1080, frames(2)).value().tokens, 720);  // at most 768
  EXPECT_EQ(videos.layout(28, 28, frames(2)).value().tokens, 144);      // at least 128
}

PatchVideos of_volume(std::string_view config) {
  return PatchVideos::parse(video_object(config), kVolumeVideos).value();
}

TEST(PatchVideos, BoundsAreOfTheWholeVolume) {
  const PatchVideos videos = of_volume(R"({"patch_size": 16,
      "size": {"shortest_edge": 4096, "longest_edge": 25165824}})");
  EXPECT_EQ(videos.layout(1280, 720, frames(2)).value().tokens, 40 * 22);
  for (const std::int64_t count : {28, 64, 768}) {
    const ImageLayout layout = videos.layout(1280, 720, frames(count)).value();
    EXPECT_LE(layout.tokens, 25165824 / 2048) << count;
    EXPECT_GE(layout.tokens, 25165824 / 4096) << count;
  }
  // One frame fills a group, and counts as one.
  EXPECT_EQ(videos.layout(90, 61, frames(1)).value().key,
            videos.layout(90, 61, frames(2)).value().key);
  EXPECT_FALSE(videos.layout(1, 250, frames(2)));
  VideoControls controls = frames(8);
  controls.total_pixels = 400'000;  // what tokens stand for, as for bounds of a frame
  EXPECT_LE(videos.layout(1280, 720, controls).value().tokens * 1024, 400'000);
  EXPECT_GE(videos.layout(1280, 720, controls).value().tokens * 1024, 200'000);
}

TEST(PatchVideos, WithoutBoundsAVolumeHasTheVideoProcessorsOwn) {
  const PatchVideos videos = of_volume(R"({"patch_size": 16})");
  EXPECT_EQ(videos.layout(1920, 1080, frames(2)).value().tokens, 26 * 14);
  EXPECT_EQ(videos.layout(32, 32, frames(2)).value().tokens, 8 * 8);  // 131072 pixels in all
}

TEST(PatchVideos, RefusesWhatIsNoVideo) {
  const PatchVideos videos = published_videos();
  EXPECT_FALSE(videos.layout(100, 100, frames(0)));
  EXPECT_FALSE(videos.layout(100, 100, frames(std::int64_t{1} << 40)));
  EXPECT_FALSE(videos.layout(1, 201, frames(2)));
  for (const double fps : {0.0, -1.0, 1e-9, 1e9, std::nan("")}) {
    VideoControls controls = frames(2);
    controls.fps = fps;
    const auto layout = videos.layout(100, 100, controls);
    ASSERT_FALSE(layout) << fps;
    EXPECT_EQ(layout.error().param, "fps");
  }
  VideoControls few_of_an_hour = frames(8);
  few_of_an_hour.fps = 8 / 3600.0;
  EXPECT_TRUE(videos.layout(100, 100, few_of_an_hour));
  VideoControls controls = frames(2);
  controls.frame.processor_kwargs = video_object(R"({"num_frames": 4})");
  EXPECT_THAT(videos.layout(100, 100, controls).error().message, HasSubstr("num_frames"));
  controls.frame.processor_kwargs = video_object(R"({"total_pixels": 0})");
  EXPECT_THAT(videos.layout(100, 100, controls).error().message, HasSubstr("total_pixels"));
  EXPECT_FALSE(PatchVideos::parse(video_object(R"({"do_resize": false})")));
  EXPECT_FALSE(PatchVideos::parse(video_object(R"({"resample": 6})")));
}

}  // namespace
}  // namespace saccade
