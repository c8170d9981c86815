#include "net/shown_host.h"

#include <gtest/gtest.h>

namespace saccade::net {
namespace {

TEST(ShownHost, AnIpv6AddressHasBrackets) {
  EXPECT_EQ(shown_host("::1"), "[::1]");
  EXPECT_EQ(shown_host("[::1]"), "[::1]");
  EXPECT_EQ(shown_host("fe80::1%eth0"), "[fe80::1%eth0]");
  EXPECT_EQ(shown_host("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(shown_host("example.org"), "example.org");
}

}  // namespace
}  // namespace saccade::net
