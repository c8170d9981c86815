// What long work says of itself, in virtual time.
#include "base/progress.h"

#include <gtest/gtest.h>

#include <vector>

namespace saccade {
namespace {

struct Written {
  VirtualClock clock;
  std::vector<std::string> texts;

  Progress::Output output(bool terminal) {
    return {terminal, [this](const std::string& text) { texts.push_back(text); }};
  }
};

TEST(Progress, SaysNothingOfWhatEndsAtOnce) {
  for (const bool terminal : {false, true}) {
    Written written;
    {
      Progress progress("loading", written.clock, written.output(terminal));
      for (int i = 0; i < 9; ++i) {
        progress.show(0.1 * i, 1000, "more");
        written.clock.advance(100 * kMillisecond);
      }
    }
    EXPECT_TRUE(written.texts.empty());
  }
}

TEST(Progress, IsALineEveryFewSecondsInALog) {
  Written written;
  Progress progress("loading", written.clock, written.output(false));
  for (int i = 0; i < 100; ++i) {
    progress.show(0.01 * i, static_cast<std::uint64_t>(i) * 20'000'000, "layers.3");
    written.clock.advance(100 * kMillisecond);
  }
  progress.end();
  ASSERT_EQ(written.texts.size(), 2U);
  EXPECT_EQ(written.texts[0], "loading: 10 %, 0.20 GB, 0.20 GB/s, 9 s left, next layers.3");
  EXPECT_EQ(written.texts[1], "loading: 60 %, 1.20 GB, 0.20 GB/s, 4 s left, next layers.3");
}

TEST(Progress, IsABarOnATerminalThatGoesAwayAtTheEnd) {
  Written written;
  {
    Progress progress("loading", written.clock, written.output(true));
    written.clock.advance(2 * kSecond);
    progress.show(0.5, 3'000'000'000, "");
    progress.show(0.6, 3'000'000'000, "");  // too soon
    written.clock.advance(kSecond);
    progress.show(0.75, 3'000'000'000, std::string(200, 'x').append("\n"));
  }
  ASSERT_EQ(written.texts.size(), 3U);
  EXPECT_EQ(written.texts[0],
            "loading [############............] 50 %, 3.00 GB, 1.50 GB/s, 2 s left");
  EXPECT_TRUE(written.texts[1].starts_with("loading [##################......] 75 %"));
  EXPECT_EQ(written.texts[1].size(), 78U);
  EXPECT_EQ(written.texts[2], "");
}

// Names of tensors are the file's.
TEST(Progress, ShowsNothingThatATerminalObeys) {
  Written written;
  Progress progress("loading", written.clock, written.output(false));
  written.clock.advance(2 * kSecond);
  progress.show(0.5, 0, "a\033[2Jb\nc");
  ASSERT_EQ(written.texts.size(), 1U);
  EXPECT_EQ(written.texts[0].find_first_of("\033\n"), std::string::npos);
}

}  // namespace
}  // namespace saccade
