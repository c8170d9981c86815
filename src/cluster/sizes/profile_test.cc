// Costs from measurements, and their file.
#include "cluster/sizes/profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace saccade::cluster {
namespace {

std::vector<CostPoint> points_of(double base, double linear, double square) {
  std::vector<CostPoint> points;
  for (const std::int64_t n : {256, 512, 1024, 2048, 4096, 8192}) {
    const auto tokens = static_cast<double>(n);
    points.push_back({n, base + tokens * (linear + tokens * square)});
  }
  return points;
}

TEST(StageCost, FindsAParabola) {
  const StageCost cost = fit_stage_cost(points_of(30, 0.048, 0.75e-6));
  EXPECT_NEAR(cost.base, 30, 1e-6);
  EXPECT_NEAR(cost.linear, 0.048, 1e-9);
  EXPECT_NEAR(cost.square, 0.75e-6, 1e-12);
  EXPECT_LT(cost.worst_residual, 1e-9);
}

TEST(StageCost, NothingIsNegative) {
  // The published line, through points that it would give: its intercept is below 0.
  std::vector<CostPoint> points;
  for (const std::int64_t n : {3721, 6400, 9025, 12'544, 16'384})
    points.push_back({n, 0.1197 * static_cast<double>(n) - 36.72});
  const StageCost cost = fit_stage_cost(points);
  EXPECT_GE(cost.base, 0);
  EXPECT_GE(cost.linear, 0);
  EXPECT_GE(cost.square, 0);
  EXPECT_LT(cost.worst_residual, 0.03);
  EXPECT_GT(cost.ms(10), 0);  // where the line says -35 ms

  // Falling costs are a constant, and growth ever slower is a line.
  const StageCost falling = fit_stage_cost({{100, 50}, {200, 40}, {400, 30}});
  EXPECT_GT(falling.base, 0);
  EXPECT_EQ(falling.linear, 0);
  EXPECT_EQ(falling.square, 0);
  const StageCost slower = fit_stage_cost({{100, 10}, {200, 18}, {400, 30}, {800, 50}});
  EXPECT_GE(slower.base, 0);
  EXPECT_EQ(slower.square, 0);
}

TEST(StageCost, FewPointsAreEnough) {
  EXPECT_EQ(fit_stage_cost({}).ms(1000), 0);
  EXPECT_NEAR(fit_stage_cost({{100, 20}}).ms(200), 40, 1e-9);
  EXPECT_NEAR(fit_stage_cost({{100, 20}, {100, 22}}).ms(100), 21, 0.2);
  EXPECT_NEAR(fit_stage_cost({{100, 20}, {200, 30}}).ms(400), 50, 20);
}

TEST(StageCost, NoiseDoesNotBendIt) {
  std::vector<CostPoint> points = points_of(20, 0.05, 4e-7);
  double sign = 1;
  for (CostPoint& point : points) point.ms *= 1 + 0.05 * (sign = -sign);
  const StageCost cost = fit_stage_cost(points);
  for (const CostPoint& point : points_of(20, 0.05, 4e-7))
    EXPECT_NEAR(cost.ms(static_cast<double>(point.tokens)) / point.ms, 1, 0.08);
}

TEST(StraightLine, IsLeastSquaresWithItsR2) {
  const StraightLine exact = fit_line({{1000, 83}, {2000, 203}, {3000, 323}});
  EXPECT_NEAR(exact.slope, 0.12, 1e-9);
  EXPECT_NEAR(exact.intercept, -37, 1e-6);
  EXPECT_NEAR(exact.r_squared, 1, 1e-12);
  const StraightLine bent = fit_line({{1, 1}, {2, 4}, {3, 9}});
  EXPECT_NEAR(bent.slope, 4, 1e-9);
  EXPECT_NEAR(bent.r_squared, 48.0 / 49, 1e-9);
  EXPECT_EQ(fit_line({}).r_squared, 0);
  EXPECT_EQ(fit_line({{5, 7}}).intercept, 7);
}

TEST(Profile, ComesBackFromItsFile) {
  Profile profile{"a machine, 2 threads", "abc", points_of(30, 0.05, 1e-6),
                  points_of(10, 0.2, 0),  {},    {}};
  profile.fit();
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("saccade-profile-{}", getpid()))
          .string();
  const std::string path = profile_path(folder, profile.machine, profile.model);
  EXPECT_NE(path, profile_path(folder, profile.machine, "abd"));
  EXPECT_NE(path, profile_path(folder, "another", profile.model));
  ASSERT_EQ(load_profile(path, profile.machine, profile.model).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(save_profile(path, profile));
  const auto again = load_profile(path, profile.machine, profile.model);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->encode.size(), 6u);
  EXPECT_DOUBLE_EQ(again->prefill_cost.ms(1234), profile.prefill_cost.ms(1234));
  EXPECT_EQ(load_profile(path, "another", profile.model).error().code, ErrorCode::kNotFound);

  std::ofstream(path) << R"({"format": "saccade.profile.v1", "machine": "m", "model": "x",)"
                         R"("encode": [], "prefill": [{"tokens": 5, "ms": -1}]})";
  EXPECT_EQ(load_profile(path, "m", "x").error().code, ErrorCode::kInvalid);
  for (const char* bad : {"", "[]", "{}", R"({"format": "other"})",
                          R"({"format": "saccade.profile.v1", "machine": "m", "model": "x",
                              "encode": [], "prefill": []})"})
    EXPECT_FALSE(parse_profile(bad)) << bad;
  std::filesystem::remove_all(folder);
}

TEST(SpeedCorrection, FollowsSlowlyAndStaysWithinItsBounds) {
  SpeedCorrection correction;
  correction.observe(150, 100);
  EXPECT_NEAR(correction.factor(), 1.025, 1e-9);
  for (int i = 0; i < 200; ++i) correction.observe(150, 100);
  EXPECT_NEAR(correction.factor(), 1.5, 1e-3);
  for (int i = 0; i < 500; ++i) correction.observe(1e9, 1);
  EXPECT_LE(correction.factor(), 3);
  for (int i = 0; i < 500; ++i) correction.observe(1, 1e9);
  EXPECT_GE(correction.factor(), 0.5);
  const double before = correction.factor();
  correction.observe(0, 100);
  correction.observe(100, 0);
  correction.observe(std::nan(""), 1);
  EXPECT_EQ(correction.factor(), before);
}

}  // namespace
}  // namespace saccade::cluster
