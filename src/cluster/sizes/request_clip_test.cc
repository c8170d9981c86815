// Sizes of one request under its deadline and its client's bounds.
#include "cluster/sizes/request_clip.h"

#include <gtest/gtest.h>

namespace saccade::cluster {
namespace {

using Sizes = std::vector<std::int64_t>;

// A millisecond a token for encoding, half of one for prefill.
StageCosts costs() {
  StageCosts costs;
  costs.encode.linear = 1;
  costs.prefill.linear = 0.5;
  return costs;
}

const SizeLadder kLadder = SizeLadder::halving(16384, 256);

ClippedSizes clip(const std::vector<SizeAsk>& images, std::int64_t cap,
                  const StageWaits& waits = {}, std::int64_t text = 0, Nanos elapsed = 0,
                  const StageCosts& by = costs()) {
  return clip_request(kLadder, cap, by, waits, {images, text, elapsed, 3 * kSecond});
}

TEST(RequestClip, InTimeTheCapIsAll) {
  const ClippedSizes sizes = clip({{.native = 3000}, {.native = 500}}, 1024);
  EXPECT_EQ(sizes.tokens, (Sizes{1024, 500}));
  EXPECT_TRUE(sizes.in_time);
  EXPECT_EQ(sizes.predicted, static_cast<Nanos>(1524 * 1.5) * kMillisecond);
}

TEST(RequestClip, ImagesOfARequestShareOneLevel) {
  // 2.7 s of room: 1,800 tokens. Both under 1,024 make 2,048, under 724 they make 1,448.
  EXPECT_EQ(clip({{.native = 8000}, {.native = 4000}}, 4096).tokens, (Sizes{724, 724}));
  // A small one keeps what it has: what it does not use is the others'.
  EXPECT_EQ(clip({{.native = 8000}, {.native = 300}, {.native = 400}}, 4096).tokens,
            (Sizes{1024, 300, 400}));
}

TEST(RequestClip, WaitsTextAndElapsedTimeTakeOfTheRoom) {
  const std::vector<SizeAsk> one = {{.native = 8000}};
  EXPECT_EQ(clip(one, 16384).tokens, (Sizes{1448}));
  EXPECT_EQ(clip(one, 16384, {kSecond, 0}).tokens, (Sizes{1024}));
  EXPECT_EQ(clip(one, 16384, {0, kSecond}).tokens, (Sizes{1024}));
  EXPECT_EQ(clip(one, 16384, {}, 2000).tokens, (Sizes{1024}));
  EXPECT_EQ(clip(one, 16384, {}, 0, kSecond).tokens, (Sizes{1024}));
  EXPECT_EQ(clip(one, 16384, {kSecond, kSecond}).tokens, (Sizes{362}));
}

TEST(RequestClip, WhatIsSlowerThanItsProfileGetsLess) {
  StageCosts slow = costs();
  slow.encode_factor = slow.prefill_factor = 2;
  EXPECT_EQ(clip({{.native = 8000}}, 16384, {}, 0, 0, slow).tokens, (Sizes{724}));
}

TEST(RequestClip, LowestSizesAndHowLateWhereNothingHelps) {
  const ClippedSizes sizes = clip({{.native = 8000}, {.native = 100}}, 4096, {10 * kSecond, 0});
  EXPECT_EQ(sizes.tokens, (Sizes{256, 100}));  // never enlarged
  EXPECT_FALSE(sizes.in_time);
  EXPECT_EQ(sizes.predicted, (10'000 + 356 * 3 / 2) * kMillisecond);
  EXPECT_EQ(sizes.late, sizes.predicted - 2700 * kMillisecond);
  EXPECT_EQ(retry_after_seconds(sizes.late), 8);
  EXPECT_EQ(retry_after_seconds(0), 1);
  EXPECT_EQ(retry_after_seconds(kSecond + 1), 2);
}

TEST(RequestClip, ClientsBoundsHold) {
  EXPECT_EQ(clip({{.native = 8000, .least = 1200}}, 1024).tokens, (Sizes{1200}));
  // Also one above what is in time.
  const ClippedSizes late = clip({{.native = 8000, .least = 5000}}, 4096);
  EXPECT_EQ(late.tokens, (Sizes{5000}));
  EXPECT_FALSE(late.in_time);
  EXPECT_EQ(clip({{.native = 900, .least = 5000}}, 4096).tokens, (Sizes{900}));
}

TEST(RequestClip, HighDetailIsNeverReduced) {
  const ClippedSizes sizes =
      clip({{.native = 1200, .fixed = true}, {.native = 8000}}, 256, {100 * kSecond, 0});
  EXPECT_EQ(sizes.tokens, (Sizes{1200, 256}));
}

TEST(RequestClip, AStoredSizeIsTakenAgainWhileItFits) {
  // Its encoding is there: 4,096 tokens take 2,048 ms of prefill, and no cap concerns it.
  const std::vector<SizeAsk> turn = {{.native = 8000, .stored = {512, 4096}}};
  EXPECT_EQ(clip(turn, 724).tokens, (Sizes{4096}));
  // In a hurry the next one below; and no smaller than the floor.
  EXPECT_EQ(clip(turn, 724, {kSecond, 0}).tokens, (Sizes{512}));
  EXPECT_EQ(clip({{.native = 8000, .stored = {100}}}, 724).tokens, (Sizes{724}));
  // Nor over what its client allows now.
  EXPECT_EQ(clip({{.native = 600, .stored = {512, 4096}}}, 724).tokens, (Sizes{512}));
}

TEST(RequestClip, NoImagesIsAPredictionToo) {
  const ClippedSizes sizes = clip({}, 4096, {0, 100 * kSecond}, 1000);
  EXPECT_TRUE(sizes.tokens.empty());
  EXPECT_FALSE(sizes.in_time);
}

}  // namespace
}  // namespace saccade::cluster
