#include "engine/images/lent_images.h"

#include <gtest/gtest.h>

#include "ops/device.h"

namespace saccade {
namespace {

TEST(LentImages, AfterItsEndEveryImageHasAnAnswer) {
  const auto device = make_reference_device();
  const VirtualClock clock;
  int woken = 0;
  LentImages lent(*device, clock, 16, [&] { ++woken; });
  std::vector<ErrorCode> answers;
  const auto done = [&](const Digest&, const Result<EncodedImage>& image) {
    ASSERT_FALSE(image);
    answers.push_back(image.error().code);
  };
  lent.encode(Digest{1}, nullptr, done);  // nobody has taken it yet
  EXPECT_EQ(woken, 1);
  lent.close({ErrorCode::kCancelled, "the engine has stopped", {}});
  EXPECT_EQ(answers, (std::vector{ErrorCode::kCancelled}));
  lent.encode(Digest{2}, nullptr, done);
  EXPECT_EQ(answers.size(), 2u);
  EXPECT_EQ(lent.size(), 0u);
}

}  // namespace
}  // namespace saccade
