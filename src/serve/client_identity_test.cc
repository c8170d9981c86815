#include "serve/client_identity.h"

#include <gtest/gtest.h>

namespace saccade::serve {
namespace {

TEST(ClientIdentity, ByKeyElseByAddress) {
  EXPECT_EQ(client_of("key", "1.2.3.4:5"), client_of("key", "9.9.9.9:9"));
  EXPECT_NE(client_of("key", "1.2.3.4:5"), client_of("other", "1.2.3.4:5"));
  EXPECT_EQ(client_of("", "1.2.3.4:5"), client_of("", "1.2.3.4:678"));
  EXPECT_NE(client_of("", "1.2.3.4:5"), client_of("", "1.2.3.5:5"));
  EXPECT_NE(client_of("1.2.3.4", ""), client_of("", "1.2.3.4:5"));
}

TEST(ClientIdentity, OneNetworkOfIpv6IsOneClient) {
  EXPECT_EQ(client_of("", "[2001:db8::1]:5"), client_of("", "[2001:db8::ffff:1]:6"));
  EXPECT_NE(client_of("", "[2001:db8::1]:5"), client_of("", "[2001:db8:0:1::1]:5"));
  EXPECT_EQ(client_of("", "[::ffff:1.2.3.4]:5"), client_of("", "1.2.3.4:5"));
}

}  // namespace
}  // namespace saccade::serve
