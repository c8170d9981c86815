#include "base/text/base64.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace saccade {
namespace {

std::string random_bytes(Rng& rng, std::size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng());
  return bytes;
}

TEST(Base64, KnownPairs) {
  const std::pair<std::string, std::string> pairs[] = {
      {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
      {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xfb\xff\xfe", "+//+"}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(base64_encode(bytes), text);
    EXPECT_EQ(base64_decode(text).value(), bytes);
  }
}

TEST(Base64, RoundTripsEveryLength) {
  Rng rng(3);
  for (std::size_t length = 0; length < 300; ++length) {
    const std::string bytes = random_bytes(rng, length);
    const std::string text = base64_encode(bytes);
    EXPECT_EQ(text.size(), (length + 2) / 3 * 4);
    EXPECT_GE(base64_decoded_bound(text), length);
    EXPECT_LE(base64_decoded_bound(text), length + 2);
    ASSERT_EQ(base64_decode(text).value(), bytes) << length;
  }
}

// Whatever one byte is changed to, the text is either refused at that byte or another valid text.
TEST(Base64, EveryByteAtEveryPlaceIsJudged) {
  Rng rng(4);
  const std::string text = base64_encode(random_bytes(rng, 150));
  for (std::size_t at = 0; at < text.size(); at += 7) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = text;
      changed[at] = static_cast<char>(byte);
      const bool known = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
                         (byte >= '0' && byte <= '9') || byte == '+' || byte == '/';
      const Result<std::string> bytes = base64_decode(changed);
      ASSERT_EQ(bytes.has_value(), known) << at << " " << byte;
      if (bytes) {
        EXPECT_EQ(base64_encode(*bytes), changed);
      } else {
        EXPECT_NE(bytes.error().message.find("at offset " + std::to_string(at)), std::string::npos)
            << bytes.error().message;
      }
    }
  }
}

TEST(Base64, RefusesWhatIsNotCanonical) {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "=",
                           "====", "Z===", "Zg==Zg==", "Zm9v\n", "Zm 9", "Zm9v=AAA", "_-_-"}) {
    const Result<std::string> bytes = base64_decode(text);
    ASSERT_FALSE(bytes.has_value()) << text;
    EXPECT_EQ(bytes.error().code, ErrorCode::kInvalid);
  }
}

// Whatever is done to a text that a client may do, it means the same bytes.
TEST(Base64, ForgivesWhatClientsWrite) {
  Rng rng(5);
  for (std::size_t length = 0; length < 200; ++length) {
    const std::string bytes = random_bytes(rng, length);
    const std::string text = base64_encode(bytes);
    std::string bare = text;
    while (bare.ends_with('=')) bare.pop_back();
    std::string safe = text;
    std::string escaped;
    std::string lines;
    for (char& c : safe) c = c == '+' ? '-' : c == '/' ? '_' : c;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      escaped += c == '+' ? "%2B" : c == '/' ? "%2f" : c == '=' ? "%3D" : std::string(1, c);
      if (i % 76 == 75) lines += "\r\n";
      lines += c;
    }
    for (const std::string& written :
         {text, bare, safe, escaped, lines, text + "\n", " " + text + "\t\f"})
      ASSERT_EQ(base64_decode_forgiving(written).value(), bytes) << written;
  }
  EXPECT_EQ(base64_decode_forgiving("Zh==").value(), "f");  // bits over are dropped
}

TEST(Base64, WhatIsStillWrongIsNamed) {
  const std::pair<std::string_view, std::string_view> wrong[] = {
      {"Zm9v!", "'!' at offset 4"},
      {"Zm\n9*", "'*' at offset 4"},
      {"Zg==Zg==", "'=' at offset 2"},
      {"Zg=", "'=' at offset 2"},
      {"Zm9v====", "'=' at offset 4"},
      {"Zm9vY", "'Y', the last of 5 characters"},
      {"Zm%2G", "'%' at offset 2"},
      {"Zm%", "'%' at offset 2"},
      {std::string_view("Zm\0v", 4), "byte 0x00 at offset 2"},
      {"Zm9v\xe2\x82\xac", "byte 0xe2 at offset 4"}};
  for (const auto& [text, message] : wrong) {
    const auto bytes = base64_decode_forgiving(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_NE(bytes.error().message.find(message), std::string::npos) << bytes.error().message;
  }
}

TEST(Base64, IsSaidByADataUrlsHead) {
  for (const char* head : {"data:image/png;base64", "data:;BASE64", "data:image/png; base64",
                           "data:image/png;charset=utf-8;Base64 ", "data:image/png ; base64"})
    EXPECT_TRUE(says_base64(head)) << head;
  for (const char* head :
       {"data:image/png", "data:base64", "base64", "data:image/png;base64;x", ""})
    EXPECT_FALSE(says_base64(head)) << head;
}

}  // namespace
}  // namespace saccade
