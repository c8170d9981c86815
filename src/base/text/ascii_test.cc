#include "base/text/ascii.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(Ascii, EveryByteIsWhatItSays) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const std::string_view digits = "0123456789";
    const std::string_view small = "abcdefghijklmnopqrstuvwxyz";
    const std::string_view capital = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const std::size_t letter = capital.find(c);
    EXPECT_EQ(ascii::is_digit(c), digits.find(c) != std::string_view::npos) << byte;
    EXPECT_EQ(ascii::is_letter(c),
              letter != std::string_view::npos || small.find(c) != std::string_view::npos)
        << byte;
    EXPECT_EQ(ascii::lower(c), letter == std::string_view::npos ? c : small[letter]) << byte;
    const std::size_t hex = std::string_view("0123456789abcdef").find(ascii::lower(c));
    EXPECT_EQ(ascii::hex_value(c), hex == std::string_view::npos ? -1 : static_cast<int>(hex))
        << byte;
  }
  EXPECT_EQ(ascii::lower("Grüße, WELT"), "grüße, welt");
}

}  // namespace
}  // namespace saccade
