#include "serve/handlers/origin.h"

#include <gtest/gtest.h>

#include <vector>

#include "net/authority.h"

namespace saccade::serve {
namespace {

bool allows(std::string_view origin, std::string_view host = "127.0.0.1:8000",
            const std::vector<std::string>& named = {}, bool keyed = false) {
  return may_use(origin, host, named, keyed || net::names_this_server(host, {}));
}

TEST(Origin, PagesOfThisMachineAndNoPages) {
  for (const char* origin : {"", "http://localhost", "http://localhost:3000", "https://LOCALHOST",
                             "http://app.localhost:1", "http://127.0.0.1:8000", "http://127.9.9.9",
                             "http://[::1]:8000"}) {
    EXPECT_TRUE(allows(origin)) << origin;
  }
}

TEST(Origin, OtherPagesMayNot) {
  for (const char* origin : {"null",
                             "file://",
                             "http://",
                             "http://a.example",
                             "https://localhost.example",
                             "http://127.0.0.1.example",
                             "http://example/127.0.0.1",
                             "http://128.0.0.1",
                             "http://[::2]",
                             "http://[::1",
                             "http://localhost:80@evil.example",
                             "http://localhost@evil.example",
                             "http://127.0.0.1:8000/evil",
                             "http://localhost:8000.evil.example",
                             "http://[::1]evil.example",
                             "http://localhost:",
                             "http://localhost#a",
                             "http://localhost http://evil.example",
                             "chrome-extension://abc",
                             "ftp://localhost"}) {
    EXPECT_FALSE(allows(origin)) << origin;
  }
}

TEST(Origin, TheServersOwnByItsAddress) {
  EXPECT_TRUE(allows("http://192.168.1.5:8000", "192.168.1.5:8000"));
  EXPECT_TRUE(allows("http://[fd00::1]:8000", "[FD00::1]:8000"));
  EXPECT_FALSE(allows("http://192.168.1.5:9000", "192.168.1.5:8000"));
  EXPECT_FALSE(allows("http://192.168.1.6:8000", "192.168.1.5:8000"));
}

// A page of rebound.example whose name was pointed at this machine sends just this.
TEST(Origin, ANameInHostIsNobodysProof) {
  EXPECT_FALSE(allows("http://rebound.example:8000", "rebound.example:8000"));
  EXPECT_TRUE(allows("http://api.example:8000", "api.example:8000", {}, true));
  EXPECT_FALSE(allows("http://other.example", "api.example", {}, true));
}

TEST(Origin, WhatTheOperatorNames) {
  EXPECT_TRUE(allows("https://a.example", "x", {"https://a.example", "null"}));
  EXPECT_TRUE(allows("null", "x", {"https://a.example", "null"}));
  EXPECT_FALSE(allows("http://a.example", "x", {"https://a.example"}));
  EXPECT_TRUE(allows("anything", "x", {"*"}));
}

}  // namespace
}  // namespace saccade::serve
