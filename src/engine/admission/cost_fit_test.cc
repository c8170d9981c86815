#include "engine/admission/cost_fit.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

constexpr CostFit::Terms kOne = {1};

TEST(CostFit, SumsItsTerms) {
  CostFit fit(4);
  for (int i = 0; i < 40; ++i) {
    const CostFit::Terms terms = {1, static_cast<double>(i % 4)};
    fit.observe(terms, static_cast<std::size_t>(i % 4), 2 + 3 * terms[1]);
  }
  EXPECT_NEAR(fit.predict({1, 2}), 8, 1e-3);
  EXPECT_NEAR(fit.predict({0, 5}), 15, 1e-2);
}

TEST(CostFit, WhatLiesFarOutCountsLess) {
  CostFit fit(1);
  for (int i = 0; i < 12; ++i) fit.observe(kOne, 0, i % 4 == 3 ? 3.0 : 1.0);
  EXPECT_NEAR(fit.predict(kOne), 1, 0.03);  // 1.07 if all counted alike
}

// Another stratum's samples are kept however old they are, but say less and less.
TEST(CostFit, WhatIsOldCountsLess) {
  CostFit fit(2);
  for (int i = 0; i < 12; ++i) fit.observe(kOne, 0, 1);
  for (int i = 0; i < 20; ++i) fit.observe(kOne, 1, 2);
  const double soon = fit.predict(kOne);
  for (int i = 0; i < 4000; ++i) fit.observe(kOne, 1, 2);
  EXPECT_GT(fit.predict(kOne), 1.75);
  EXPECT_LT(soon, fit.predict(kOne) - 0.3);
}

}  // namespace
}  // namespace saccade
