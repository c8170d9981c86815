#include "model/position_grid.h"

#include <gtest/gtest.h>

#include <numeric>

namespace saccade {
namespace {

TEST(PositionGrid, TheSameSizeIsTheSameNumbers) {
  std::vector<float> rows(4 * 4 * 3);
  std::iota(rows.begin(), rows.end(), 0.5f);
  EXPECT_EQ(resample_positions(rows, 4, 4, 3), rows);
}

// torch.nn.functional.interpolate(torch.tensor([[[[1., 2.], [3., 5.]]]]), size=(3, 3),
// mode="bicubic", align_corners=False) of torch 2.13.
TEST(PositionGrid, TapsAreTorchs) {
  const std::vector<float> out = resample_positions({1, 2, 3, 5}, 2, 3, 1);
  const std::vector<float> expected = {0.7471f, 1.2830f, 1.8189f, 1.8698f, 2.7500f,
                                       3.6302f, 2.9925f, 4.2170f, 5.4416f};
  ASSERT_EQ(out.size(), expected.size());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 6e-5f) << i;
}

TEST(PositionGrid, AConstantStaysConstant) {
  for (const float value : resample_positions(std::vector<float>(5 * 5 * 2, 1.5f), 5, 8, 2))
    EXPECT_NEAR(value, 1.5f, 1e-6f);
}

}  // namespace
}  // namespace saccade
