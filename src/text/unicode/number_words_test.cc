#include "text/unicode/number_words.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace saccade {
namespace {

// Made by tools/goldens/tile_video.py: a number, a tab, and num2words's.
TEST(NumberWords, AreThePackages) {
  std::ifstream file(SACCADE_SOURCE_DIR "/tests/golden/smolvlm2/number_words.tsv");
  int numbers = 0;
  for (std::string line; std::getline(file, line); ++numbers) {
    const std::size_t tab = line.find('\t');
    ASSERT_NE(tab, std::string::npos) << line;
    EXPECT_EQ(number_words(std::stoll(line.substr(0, tab))), line.substr(tab + 1));
  }
  EXPECT_EQ(numbers, 162);
}

}  // namespace
}  // namespace saccade
