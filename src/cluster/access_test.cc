#include "cluster/access.h"

#include <gtest/gtest.h>

namespace saccade::cluster {
namespace {

TEST(Access, KnowsWhoIsOfThisMachine) {
  for (const char* local : {"127.0.0.1:7100", "127.8.0.1:1", "localhost:7100", "[::1]:7100",
                            "unix:/run/saccade.sock", "unix:relative"}) {
    EXPECT_TRUE(check_address(local)) << local;
    EXPECT_TRUE(is_local_address(local)) << local;
  }
  for (const char* far : {"0.0.0.0:7100", "[::]:7100", "10.0.0.1:7100", "encoder-1:7100"}) {
    EXPECT_TRUE(check_address(far)) << far;
    EXPECT_FALSE(is_local_address(far)) << far;
  }
}

TEST(Access, SaysWhatIsNoAddress) {
  for (const char* none :
       {"", "7100", "host", "host:", ":7100", "host:70000", "host:7x", "unix:"}) {
    const auto checked = check_address(none);
    ASSERT_FALSE(checked) << none;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
  }
  EXPECT_FALSE(check_address("unix:" + std::string(108, 'x')));
}

TEST(Access, AProofFollowsFromKeyAndParts) {
  const std::string one = proof("key", {"ask", "nonce"});
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(proof("key", {"ask", "nonce"}), one);
  EXPECT_NE(proof("kez", {"ask", "nonce"}), one);
  EXPECT_NE(proof("key", {"askn", "once"}), one);  // the same bytes in other parts
  EXPECT_NE(proof(std::string(65, 'k'), {"ask"}), proof(std::string(66, 'k'), {"ask"}));
  EXPECT_EQ(proof("", {"ask"}), "");
  EXPECT_TRUE(equal_proofs(one, proof("key", {"ask", "nonce"})));
  EXPECT_FALSE(equal_proofs(one, ""));
  EXPECT_FALSE(equal_proofs(one, one.substr(1)));
}

}  // namespace
}  // namespace saccade::cluster
