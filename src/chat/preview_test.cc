#include "chat/preview.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text/base64.h"

namespace saccade::chat {
namespace {

Pixels plain(int width, int height, std::uint8_t red) {
  Pixels pixels{width, height, {}};
  for (int i = 0; i < width * height; ++i) pixels.rgb.insert(pixels.rgb.end(), {red, 0, 0});
  return pixels;
}

TEST(Preview, WhatATerminalSays) {
  EXPECT_EQ(preview_kind("\x1b_Gi=31;OK\x1b\\\x1b[?62;c"), PreviewKind::kKitty);
  EXPECT_EQ(preview_kind("\x1b[?62;4;22c"), PreviewKind::kSixel);
  EXPECT_EQ(preview_kind("\x1b[?4c"), PreviewKind::kSixel);
  EXPECT_EQ(preview_kind("\x1b[?64;14;42c"), PreviewKind::kNone);
  EXPECT_EQ(preview_kind("\x1b_Gi=31;ENOTSUP\x1b\\\x1b[?1;2c"), PreviewKind::kNone);
  EXPECT_EQ(preview_kind(""), PreviewKind::kNone);
  EXPECT_TRUE(is_complete("\x1b[?1;2c"));
  EXPECT_FALSE(is_complete("\x1b_Gi=31;OK\x1b\\\x1b[?1;2"));
}

TEST(Preview, Sixel) {
  // 5 x 7 of the reddest of 216 colours: a band of six rows and one of one.
  const std::string text = preview(PreviewKind::kSixel, plain(5, 7, 255), 100);
  EXPECT_TRUE(text.starts_with("\x1bPq\"1;1;5;7#0;2;0;0;0")) << text.substr(0, 40);
  EXPECT_NE(text.find("#180;2;100;0;0"), std::string::npos);
  EXPECT_TRUE(text.ends_with("#180!5~$-#180!5@$-\x1b\\\n")) << text.substr(text.size() - 40);
  EXPECT_EQ(preview(PreviewKind::kNone, plain(5, 7, 255), 100), "");
}

TEST(Preview, SixelOfTwoColours) {
  Pixels pixels = plain(3, 1, 255);
  pixels.rgb[3] = 0;  // the one in the middle
  const std::string text = preview(PreviewKind::kSixel, pixels, 100);
  EXPECT_TRUE(text.ends_with("#0?@?$#180@?@$-\x1b\\\n")) << text.substr(text.size() - 40);
}

TEST(Preview, KittyInPieces) {
  const std::string text = preview(PreviewKind::kKitty, plain(300, 100, 7), 60);
  std::string data;
  std::size_t commands = 0;
  for (std::size_t at = 0; (at = text.find("\x1b_G", at)) != std::string::npos; ++commands) {
    const std::size_t begin = text.find(';', at) + 1;
    const std::size_t end = text.find("\x1b\\", begin);
    EXPECT_EQ(text.substr(at, begin - at).find("m=1") != std::string::npos,
              text.find("\x1b_G", end) != std::string::npos);
    EXPECT_LE(end - begin, 4096u);
    data += text.substr(begin, end - begin);
    at = end;
  }
  EXPECT_GT(commands, 1u);
  EXPECT_TRUE(text.starts_with("\x1b_Ga=T,f=24,s=60,v=20,")) << text.substr(0, 40);
  EXPECT_EQ(base64_decode(data)->size(), 60u * 20 * 3);
}

}  // namespace
}  // namespace saccade::chat
