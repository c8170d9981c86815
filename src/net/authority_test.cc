#include "net/authority.h"

#include <gtest/gtest.h>

#include <vector>

namespace saccade::net {
namespace {

std::string read(std::string_view text) {
  const auto made = parse_authority(text);
  return made ? made->host + "|" + made->port : "none";
}

TEST(Authority, IsReadWhole) {
  EXPECT_EQ(read("Name.example"), "name.example|");
  EXPECT_EQ(read("a_b-c:80"), "a_b-c|80");
  EXPECT_EQ(read("a:"), "a|");
  EXPECT_EQ(read("[::1]:"), "::1|");
  EXPECT_EQ(read("127.0.0.1:8000"), "127.0.0.1|8000");
  EXPECT_EQ(read("[::1]"), "::1|");
  EXPECT_EQ(read("[FD00::1]:8000"), "fd00::1|8000");
  for (const char* const none : {"",
                                 ":80",
                                 "a:b",
                                 "a:80:80",
                                 "a:123456",
                                 "localhost:80@evil.example",
                                 "user@localhost",
                                 "localhost/evil",
                                 "localhost#evil",
                                 "localhost?x",
                                 "localhost\\.evil",
                                 "localhost evil",
                                 "a,b",
                                 "a%2eb",
                                 "::1",
                                 "[::1",
                                 "[::1]evil",
                                 "[::1]80",
                                 "[localhost]",
                                 "[]",
                                 "[::1%25eth0]",
                                 "\xc3\xa9"})
    EXPECT_EQ(read(none), "none") << none;
  EXPECT_EQ(read(std::string("localhost\0.evil", 15)), "none");
}

// A page of rebound.example whose name was given this machine's address sends just this.
TEST(Authority, ANameIsNobodysProof) {
  const auto takes = [](std::string_view host, std::vector<std::string> allowed = {}) {
    return names_this_server(host, allowed);
  };
  for (const char* const own : {"", "localhost", "localhost:", "LOCALHOST:8000", "app.localhost:1",
                                "127.0.0.1:8000", "192.168.1.5", "[::1]:8000", "[fd00::1]"})
    EXPECT_TRUE(takes(own)) << own;
  for (const char* const other :
       {"rebound.example:8000", "localhost.rebound.example", "notlocalhost",
        "127.0.0.1.nip.example", "saccade", "localhost:80@evil.example", "2130706433", "0x7f.1",
        "[::1", "localhost."})
    EXPECT_FALSE(takes(other)) << other;
  EXPECT_TRUE(takes("API.example:8000", {"other", "Api.Example"}));
  EXPECT_FALSE(takes("x.api.example", {"api.example"}));
  EXPECT_TRUE(takes("x.api.example:1", {"*.api.example"}));
  EXPECT_FALSE(takes("api.example", {"*.api.example"}));
  EXPECT_FALSE(takes("evilapi.example", {"*.api.example"}));
  EXPECT_TRUE(takes("rebound.example", {"*"}));
  EXPECT_TRUE(takes("no name", {"*"}));
}

}  // namespace
}  // namespace saccade::net
