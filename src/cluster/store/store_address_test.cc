#include "cluster/store/store_address.h"

#include <gtest/gtest.h>

#include "cluster/store/store_circuit.h"

namespace saccade::cluster {
namespace {

TEST(StoreAddressTest, WhatIsTaken) {
  const auto plain = parse_store_address("redis://cache.example:6380/3");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "cache.example");
  EXPECT_EQ(plain->port, 6380);
  EXPECT_EQ(plain->database, 3);
  const auto secret = parse_store_address("valkey://who:p%40ss@[::1]");
  ASSERT_TRUE(secret);
  EXPECT_EQ(secret->host, "::1");
  EXPECT_EQ(secret->port, 6379);
  EXPECT_EQ(secret->user, "who");
  EXPECT_EQ(secret->password, "p@ss");
  EXPECT_EQ(secret->display(), "redis://[::1]:6379/0");  // without who and what
  const auto socket = parse_store_address("unix://:pw@/run/redis.sock?db=2");
  ASSERT_TRUE(socket);
  EXPECT_EQ(socket->path, "/run/redis.sock");
  EXPECT_EQ(socket->password, "pw");
  EXPECT_EQ(socket->database, 2);
}

TEST(StoreAddressTest, WhatIsNotIsNamedAndNoPasswordRepeated) {
  for (const std::string text :
       {"redis://", "redis://:secret@", "redis://:secret@host:0", "redis://:secret@host:70000",
        "redis://:secret@host/x", "redis://secret@host", "redis://:secret%4@host",
        "unix://relative", "http://:secret@host", "host:6379", "unix:///a?base=1",
        "rediss://:secret@host"}) {
    const auto address = parse_store_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().message.find("secret"), std::string::npos) << address.error().message;
  }
  const auto tls = parse_store_address("rediss://host");
  EXPECT_EQ(tls.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(tls.error().message.find("rediss://"), std::string::npos);
  EXPECT_FALSE(parse_store_address(std::string("redis://ho\0st", 13)));
}

TEST(StoreCircuitTest, OpensAfterThreeFailuresAndTriesAgain) {
  VirtualClock clock;
  StoreCircuit circuit(clock);
  circuit.failed();
  circuit.failed();
  clock.advance(6 * kSecond);
  circuit.failed();  // the others were long ago
  EXPECT_FALSE(circuit.open());
  circuit.failed();
  circuit.failed();
  ASSERT_TRUE(circuit.open());
  EXPECT_FALSE(circuit.may());
  Nanos pause = kSecond;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(circuit.pause(), pause);
    clock.advance(pause - 1);
    EXPECT_FALSE(circuit.may());
    clock.advance(1);
    EXPECT_TRUE(circuit.may());
    EXPECT_FALSE(circuit.may());  // one at a time
    circuit.failed();
    pause = std::min(2 * pause, 30 * kSecond);
  }
  clock.advance(pause);
  EXPECT_TRUE(circuit.may());
  circuit.worked();
  EXPECT_TRUE(circuit.may());
  EXPECT_FALSE(circuit.open());
}

}  // namespace
}  // namespace saccade::cluster
