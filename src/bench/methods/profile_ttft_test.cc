#include "bench/methods/profile_ttft.h"

#include <gtest/gtest.h>

namespace saccade::bench {
namespace {

TEST(ProfileTtft, Sides) {
  EXPECT_EQ(parse_sides("256,512,1024").value(), (std::vector<std::int32_t>{256, 512, 1024}));
  EXPECT_EQ(parse_sides("100..300:100").value(), (std::vector<std::int32_t>{100, 200, 300}));
  EXPECT_EQ(parse_sides("100..250:100").value(), (std::vector<std::int32_t>{100, 200, 250}));
  EXPECT_EQ(parse_sides("1700..3840").value().front(), 1700);
  EXPECT_EQ(parse_sides("1700..3840").value().back(), 3840);
  for (const char* bad : {"", "0", "x", "5..3", "1..99999", "3,,4", "1..9:0"})
    EXPECT_FALSE(parse_sides(bad)) << bad;
}

// The published profile's end points: 61^2 and, shrunk to 12,845,056 pixels, 128^2.
TEST(ProfileTtft, VisionTokens) {
  EXPECT_EQ(qwen_vision_tokens(1700, 1700), 3721);
  EXPECT_EQ(qwen_vision_tokens(3840, 3840), 16384);
  EXPECT_EQ(qwen_vision_tokens(1536, 1536), 3025);
  EXPECT_EQ(qwen_vision_tokens(28, 28), 4);  // grown to 56 x 56
  EXPECT_EQ(qwen_vision_tokens(56, 112), 8);
}

std::vector<TtftPoint> points_on(double a, double b, double c) {
  std::vector<TtftPoint> points;
  for (const std::int64_t tokens : {1000, 4000, 9000, 16000}) {
    TtftPoint point;
    point.tokens = tokens;
    const double t = static_cast<double>(tokens);
    point.median_s = a + t * (b + t * c);
    points.push_back(std::move(point));
  }
  return points;
}

TEST(ProfileTtft, CurvesAreFoundAgain) {
  const TtftCurve bent = fit_curve(points_on(0.05, 1e-4, 2e-9));
  EXPECT_NEAR(bent.a, 0.05, 1e-9);
  EXPECT_NEAR(bent.b, 1e-4, 1e-12);
  EXPECT_NEAR(bent.c, 2e-9, 1e-15);
  const TtftCurve straight = fit_curve(points_on(0.05, 1e-4, 0));
  EXPECT_NEAR(straight.at(8000), 0.85, 1e-9);
  // A curve that bends downwards would promise large images for nothing: a line is taken.
  EXPECT_EQ(fit_curve(points_on(0.05, 3e-4, -5e-9)).c, 0);
  EXPECT_EQ(fit_curve({}).at(100), 0);
}

}  // namespace
}  // namespace saccade::bench
