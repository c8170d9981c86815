#include "model/images/anyres.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

// As in the reference, whose comparison is strict: max_pixels can leave a square image such a pair.
TEST(Anyres, OfEqualPinpointsTheFirst) {
  const ImageExtent wide{384, 768};
  const ImageExtent tall{768, 384};
  EXPECT_EQ(best_pinpoint({600, 600}, {wide, tall}), wide);
  EXPECT_EQ(best_pinpoint({600, 600}, {tall, wide}), tall);
  EXPECT_EQ(best_pinpoint({601, 600}, {wide, tall}), tall);
}

// Ten tiles have 1.05 times the side of nine, which the reference leaves; twelve have 1.15.
TEST(Anyres, FeaturesAreScaledDownFromATenthOn) {
  const AnyresSettings settings;
  const AnyresFeatures ten = anyres_features({768, 1920}, {768, 1920}, settings);
  EXPECT_EQ(ten.rows, 54);
  EXPECT_EQ(ten.columns, 135);
  EXPECT_EQ(ten.out_rows, ten.rows);
  EXPECT_EQ(ten.out_columns, ten.columns);
  const AnyresFeatures twelve = anyres_features({1152, 1536}, {1152, 1536}, settings);
  EXPECT_EQ(twelve.rows, 81);
  EXPECT_EQ(twelve.columns, 108);
  EXPECT_EQ(twelve.out_rows, 70);     // 81 / 1.1547
  EXPECT_EQ(twelve.out_columns, 93);  // 108 / 1.1547
}

}  // namespace
}  // namespace saccade
