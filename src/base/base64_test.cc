#include "base/base64.h"

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

}  // namespace
}  // namespace saccade
