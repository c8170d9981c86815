// What is found in bodies, however they are cut, and what is not.
#include "cluster/proxy/body_scan.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace saccade::cluster {
namespace {

ScannedBody scan(std::string_view body) {
  BodyScan scan;
  scan.feed(body);
  return scan.found();
}

// The same by pieces of `size` bytes.
ScannedBody scan_in_pieces(std::string_view body, std::size_t size) {
  BodyScan scan;
  for (std::size_t at = 0; at < body.size(); at += size) scan.feed(body.substr(at, size));
  return scan.found();
}

void expect_equal(const ScannedBody& a, const ScannedBody& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.user, b.user);
  EXPECT_EQ(a.stream, b.stream);
  EXPECT_EQ(a.max_tokens, b.max_tokens);
  EXPECT_EQ(a.messages, b.messages);
  EXPECT_EQ(a.text_bytes, b.text_bytes);
  EXPECT_EQ(a.opening, b.opening);
  EXPECT_EQ(a.complete, b.complete);
  ASSERT_EQ(a.media.size(), b.media.size());
  for (std::size_t i = 0; i < a.media.size(); ++i) {
    EXPECT_EQ(a.media[i].begin, b.media[i].begin);
    EXPECT_EQ(a.media[i].end, b.media[i].end);
    EXPECT_EQ(a.media[i].remote, b.media[i].remote);
  }
}

const std::string kChat = R"({"model": "m", "stream": true, "max_tokens": 17, "user": "u",
  "messages": [{"role": "system", "content": "Be brief."},
               {"role": "user", "content": [
                  {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA",
                                                      "detail": "low"}},
                  {"type": "image_url", "image_url": "http://host/a.png"},
                  {"type": "text", "text": "What is \"this\"?"}]}]})";

TEST(BodyScan, FindsWhatAProxyNeeds) {
  const ScannedBody found = scan(kChat);
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.model, "m");
  EXPECT_EQ(found.user, "u");
  EXPECT_TRUE(found.stream);
  EXPECT_EQ(found.max_tokens, 17);
  EXPECT_EQ(found.messages, 2u);
  ASSERT_EQ(found.media.size(), 2u);
  const auto text = [&](const ScannedMedia& medium) {
    return kChat.substr(medium.begin, medium.end - medium.begin);
  };
  EXPECT_EQ(text(found.media[0]), "data:image/png;base64,AAAA");
  EXPECT_FALSE(found.media[0].remote);
  EXPECT_EQ(text(found.media[1]), "http://host/a.png");
  EXPECT_TRUE(found.media[1].remote);
  EXPECT_EQ(found.text_bytes, std::string(R"(systemBe brief.userWhat is \"this\"?)").size());
  EXPECT_NE(found.opening, 0u);
}

TEST(BodyScan, ItDoesNotMatterHowBytesAreCut) {
  const ScannedBody whole = scan(kChat);
  for (std::size_t size = 1; size < kChat.size(); ++size) {
    SCOPED_TRACE(size);
    expect_equal(whole, scan_in_pieces(kChat, size));
  }
  for (std::size_t at = 0; at <= kChat.size(); ++at) {
    BodyScan cut;
    cut.feed(std::string_view(kChat).substr(0, at));
    cut.feed(std::string_view(kChat).substr(at));
    SCOPED_TRACE(at);
    expect_equal(whole, cut.found());
  }
}

TEST(BodyScan, AMarkBeforeTheTextIsPassedOver) {
  const std::string marked = "\xEF\xBB\xBF" + kChat;
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, marked.size()}) {
    const ScannedBody found = scan_in_pieces(marked, size);
    EXPECT_TRUE(found.complete);
    EXPECT_EQ(found.model, "m");
    EXPECT_EQ(found.opening, scan(kChat).opening);
  }
}

TEST(BodyScan, EscapesAreSeenThrough) {
  EXPECT_EQ(scan(R"({"model": "a\"b\\c\/d\u0041\u0022\u00e9"})").model, "a\"b\\c/dA\"?");
  EXPECT_EQ(scan(R"({"mod\u0065l": "x"})").model, "x");  // a name may be written so too
  // A quote that is escaped, by either way, ends nothing.
  const ScannedBody found =
      scan(R"({"messages": [{"content": "\u0022, \"model\": \"wrong\", \\"}], "model": "right"})");
  EXPECT_EQ(found.model, "right");
  EXPECT_TRUE(found.complete);
}

TEST(BodyScan, NamesInsideTextsAreText) {
  const ScannedBody found = scan(
      R"({"messages": [{"role": "user", "content":
          "{\"image_url\": {\"url\": \"data:image/png;base64,AAAA\"}, \"stream\": true}"}]})");
  EXPECT_TRUE(found.media.empty());
  EXPECT_FALSE(found.stream);
}

TEST(BodyScan, PlacesMatterAndNotNamesAlone) {
  const ScannedBody found = scan(
      R"({"metadata": {"model": "wrong", "messages": [{"content": "no"}], "stream": true},
          "messages": [{"role": "user", "content": [{"type": "text", "text": "hi",
             "extra": {"image_url": {"url": "http://no"}}, "model": "wrong"}]}]})");
  EXPECT_EQ(found.model, "");
  EXPECT_FALSE(found.stream);
  EXPECT_EQ(found.messages, 1u);
  EXPECT_TRUE(found.media.empty());
  EXPECT_EQ(found.text_bytes, std::string("userhi").size());
}

TEST(BodyScan, TheLastOfTwoMembersHolds) {
  const ScannedBody found =
      scan(R"({"model": "a", "stream": true, "model": "b", "stream": false, "max_tokens": 5})");
  EXPECT_EQ(found.model, "b");
  EXPECT_FALSE(found.stream);
  EXPECT_EQ(found.max_tokens, 5);
}

TEST(BodyScan, PromptsAreTextsToo) {
  EXPECT_EQ(scan(R"({"prompt": "abc"})").text_bytes, 3u);
  EXPECT_EQ(scan(R"({"prompt": ["abc", "de"]})").text_bytes, 5u);
  EXPECT_EQ(scan(R"({"prompt": [1, 2, 3]})").text_bytes, 0u);
  EXPECT_EQ(scan(R"({"input": "abcd"})").text_bytes, 4u);
}

TEST(BodyScan, VideosAreMedia) {
  const ScannedBody found = scan(
      R"({"messages": [{"content": [{"type": "video", "video": ["data:image/png;base64,A",
          "https://host/b.png"]}, {"type": "video_url", "video_url": {"url": "data:x"}}]}]})");
  ASSERT_EQ(found.media.size(), 3u);
  EXPECT_TRUE(found.media[1].remote);
}

TEST(BodyScan, RequestsThatBeginAlikeHaveOneOpening) {
  const auto chat = [](const std::string& first, const std::string& then) {
    return scan(R"({"messages": [{"role": "user", "content": ")" + first +
                R"("}, {"role": "user", "content": ")" + then + R"("}]})")
        .opening;
  };
  const std::string long_text(2000, 'x');
  EXPECT_EQ(chat(long_text, "a"), chat(long_text, "b"));
  EXPECT_NE(chat("short", "a"), chat("short", "b"));
  EXPECT_NE(chat("y" + long_text, "a"), chat(long_text, "a"));
  const auto image = [](const std::string& url) {
    return scan(R"({"messages": [{"content": [{"image_url": {"url": ")" + url + R"("}}]}]})")
        .opening;
  };
  EXPECT_EQ(image("data:aaa"), image("data:aaa"));
  EXPECT_NE(image("data:aaa"), image("data:aab"));
  EXPECT_NE(image("data:" + std::string(5000, 'a')), image("data:" + std::string(5001, 'a')));
  EXPECT_EQ(scan(R"({"model": "m"})").opening, 0u);
}

TEST(BodyScan, EightMegabytesOfOneImage) {
  std::string body = R"({"model": "m", "messages": [{"content": [{"image_url": {"url": "data:)";
  const std::size_t begin = body.size() - 5;
  body += std::string(8u << 20, 'A');
  const std::size_t end = body.size();
  body += R"("}}, {"type": "text", "text": "?"}]}], "stream": true})";
  const ScannedBody whole = scan(body);
  EXPECT_TRUE(whole.complete);
  EXPECT_TRUE(whole.stream);
  ASSERT_EQ(whole.media.size(), 1u);
  EXPECT_EQ(whole.media[0].begin, begin);
  EXPECT_EQ(whole.media[0].end, end);
  EXPECT_EQ(whole.text_bytes, 1u);
  for (const std::size_t size : {1u << 10, 65'536u, 65'537u, 1'000'003u})
    expect_equal(whole, scan_in_pieces(body, size));
  expect_equal(whole, scan_in_pieces(body, 1));
}

TEST(BodyScan, WhatIsNoJsonIsLetGo) {
  for (const char* body :
       {"", "   ", "x", "{", "[", "}", "{]", R"({"a")", R"({"a": "b)", R"({"a": "\x"})",
        R"({"a": "\u12)", R"({"a": "\uzzzz"})", R"({"a": tru"e"})", R"({"model": "m"} x)",
        R"({"model": "m"}})", ",", ":", R"({1: 2})", R"({{}: 1})"}) {
    const ScannedBody found = scan(body);
    EXPECT_FALSE(found.complete) << body;
    expect_equal(found, scan_in_pieces(body, 1));
  }
  EXPECT_TRUE(scan(R"("text")").complete);
  EXPECT_TRUE(scan("[]").complete);
  EXPECT_TRUE(scan(" {} \n").complete);
  // As deep as a body can be: nothing grows with it.
  BodyScan deep;
  deep.feed(std::string(1u << 20, '['));
  EXPECT_TRUE(deep.lost());
}

TEST(BodyScan, RandomBytesAreFoundAlikeHoweverCut) {
  Rng rng(7);
  constexpr std::string_view kPieces[] = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          ":",
                                          "\"",
                                          "\\",
                                          "u0041",
                                          "a",
                                          " ",
                                          "1",
                                          "true",
                                          "\"model\"",
                                          "\"messages\"",
                                          "\"content\"",
                                          "\"image_url\"",
                                          "\"url\"",
                                          "\"text\"",
                                          "\"data:x\"",
                                          "\n",
                                          "\x80"};
  for (int round = 0; round < 2000; ++round) {
    std::string body;
    for (std::uint64_t i = rng() % 40; i > 0; --i) body += kPieces[rng() % std::size(kPieces)];
    SCOPED_TRACE(body);
    expect_equal(scan(body), scan_in_pieces(body, 1));
    expect_equal(scan(body), scan_in_pieces(body, 1 + rng() % 7));
  }
}

}  // namespace
}  // namespace saccade::cluster
