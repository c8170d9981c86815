// Images that are sent once, under a name of the client's own, and referred to afterwards.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/text/base64.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

std::string url_member(const std::string& name) {
  std::ifstream file(kGoldens + "qwen2_vl/images/" + name, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(bytes.empty());
  return R"({"url":"data:image/png;base64,)" + base64_encode(bytes) + R"("})";
}

class ImageUuids : public testing::Test {
 protected:
  ImageUuids()
      : server_(SACCADE_BINARY, {"serve", "--model", kGoldens + "qwen2_vl/odd_heads", "--dtype",
                                 "float32", "--api-key", "one", "two"}) {}
  ~ImageUuids() override { EXPECT_EQ(server_.stop(), 0) << server_.log(); }

  static std::string part(const std::string& url, const std::string& uuid) {
    return R"({"type":"image_url","image_url":)" + url + R"(,"uuid":")" + uuid + R"("})";
  }
  RawAnswer ask(const std::string& parts, const std::string& key = "one",
                const std::string& members = "", const std::string& path = "/v1/chat/completions") {
    return exchange(server_.port(), "POST", path,
                    R"({"messages":[{"role":"user","content":[{"type":"text","text":"What?"},)" +
                        parts + R"(]}],"max_tokens":6,"temperature":0)" + members + "}",
                    -1, "Authorization: Bearer " + key + "\r\n");
  }
  static std::string text_of(const RawAnswer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    const auto tree = json::parse(answer.body);
    if (!tree || answer.status != 200) return "";
    return boost::json::serialize(tree->at("choices").at(0).at("message")) +
           boost::json::serialize(tree->at("usage").at("prompt_tokens"));
  }
  void expect_unknown(const RawAnswer& answer, const std::string& uuid) {
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find("no image is kept under the uuid '" + uuid + "'"), std::string::npos)
        << answer.body;
  }

  ServerProcess server_;
};

TEST_F(ImageUuids, SentOnceAndReferredTo) {
  const std::string wide = url_member("wide.png");
  const std::string tall = url_member("tall.png");
  const std::string of_wide = text_of(ask(part(wide, "a")));
  const std::string of_tall = text_of(ask(part(tall, "b")));
  EXPECT_NE(of_wide, of_tall);
  EXPECT_EQ(text_of(ask(part("null", "a"))), of_wide);
  EXPECT_EQ(text_of(ask(R"({"type":"image_url","uuid":"b"})")), of_tall);
  EXPECT_EQ(text_of(ask(part("null", "a") + "," + part("null", "b"))),
            text_of(ask(part(wide, "c") + "," + part(tall, "d"))));
  // Two names of one image.
  const std::string of_both = text_of(ask(part(wide, "e") + "," + part(wide, "f")));
  EXPECT_EQ(text_of(ask(part("null", "e") + "," + part("null", "f"))), of_both);
  // What is counted without being answered is kept and found alike.
  const std::string counted = ask(part("null", "a"), "one", "", "/tokenize").body;
  EXPECT_EQ(counted, ask(part(wide, ""), "one", "", "/tokenize").body);
  // A name stands for what was sent last.
  text_of(ask(part(tall, "a")));
  EXPECT_EQ(text_of(ask(part("null", "a"))), of_tall);
}

TEST_F(ImageUuids, NobodyElseFindsThem) {
  const std::string wide = url_member("wide.png");
  text_of(ask(part(wide, "mine")));
  expect_unknown(ask(part("null", "mine"), "two"), "mine");
  expect_unknown(ask(part("null", "mine"), "one", R"(,"cache_salt":"tenant")"), "mine");
  expect_unknown(ask(part("null", "never sent")), "never sent");
  text_of(ask(part(wide, "theirs"), "one", R"(,"cache_salt":"tenant")"));
  text_of(ask(part("null", "theirs"), "one", R"(,"cache_salt":"tenant")"));
  expect_unknown(ask(part("null", "theirs")), "theirs");
}

TEST(ImageUuidCache, IsAsLargeAsItsFlagSays) {
  for (const auto& [gib, kept] : {std::pair("0", false), std::pair("0.001", true)}) {
    ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGoldens + "qwen2_vl/odd_heads",
                                          "--dtype", "float32", "--mm-uuid-cache-gb", gib});
    const auto ask = [&](const std::string& url) {
      return exchange(server.port(), "POST", "/v1/chat/completions",
                      R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":)" +
                          url + R"(,"uuid":"a"}]}],"max_tokens":2})");
    };
    EXPECT_EQ(ask(url_member("wide.png")).status, 200);
    EXPECT_EQ(ask("null").status, kept ? 200 : 400) << gib;
    const RawAnswer info = exchange(server.port(), "GET", "/server_info", "");
    EXPECT_NE(
        info.body.find(kept ? R"("mm_uuid_cache_bytes":1073741,)" : R"("mm_uuid_cache_bytes":0,)"),
        std::string::npos)
        << info.body;
    EXPECT_EQ(server.stop(), 0) << server.log();
  }
}

TEST_F(ImageUuids, WhatIsNoImageIsNotKept) {
  const RawAnswer broken = ask(part(R"("data:image/png;base64,AAAA")", "broken"));
  EXPECT_GE(broken.status, 400);
  expect_unknown(ask(part("null", "broken")), "broken");
  for (const std::string bad : {R"({"type":"image_url","image_url":null})",
                                R"({"type":"image_url","image_url":{"url":""}})",
                                R"({"type":"image_url","image_url":null,"uuid":5})",
                                R"({"type":"image_embeds","image_embeds":"AAAA"})"}) {
    const RawAnswer refused = ask(bad);
    EXPECT_EQ(refused.status, 400) << bad << refused.body;
  }
}

}  // namespace
}  // namespace saccade::test
