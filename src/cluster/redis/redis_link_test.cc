#include "cluster/redis/redis_link.h"

#include <gtest/gtest.h>

#include <future>

#include "tests/support/scripted_store.h"

namespace saccade::cluster {
namespace {

using test::ScriptedAnswer;
using test::ScriptedStore;

class RedisLinkTest : public ::testing::Test {
 protected:
  using Replies = Result<std::vector<StoreReply>>;
  StoreAddress address_of(std::uint16_t port) {
    StoreAddress address;
    address.host = "127.0.0.1";
    address.port = port;
    return address;
  }
  static StoreBatch batch(std::vector<std::vector<std::string>> commands,
                          Nanos limit = 30 * kSecond, std::size_t max_bytes = 4096) {
    StoreBatch made;
    for (auto& words : commands) made.commands.push_back({std::move(words), {}});
    made.limit = limit;
    made.max_bytes = max_bytes;
    return made;
  }
  Replies run(StoreLink& link, StoreBatch of) {
    std::promise<Replies> promise;
    link.run(std::move(of), [&](Replies replies) { promise.set_value(std::move(replies)); });
    return promise.get_future().get();
  }
  // What an answer of these bytes becomes, and how long it took.
  Replies answered(const ScriptedAnswer& answer, StoreBatch of) {
    ScriptedStore server({answer});
    const auto link = make_redis_link(address_of(server.port()), clock, thread);
    const Nanos begun = clock.now();
    const Nanos limit = of.limit;
    Replies replies = run(*link, std::move(of));
    EXPECT_LT(clock.now() - begun, limit + 30 * kSecond);  // a busy machine is late
    return replies;
  }

  SteadyClock clock;
  EventThread thread{clock};
};

TEST_F(RedisLinkTest, RepliesOfEveryKind) {
  const auto replies = answered({"+OK\r\n:42\r\n$-1\r\n$5\r\na\r\nbc\r\n*3\r\n$1\r\nx\r\n$-1\r\n:-"
                                 "7\r\n-ERR it is so\r\n*0\r\n",
                                 1, 3},
                                batch({{"A"}, {"B"}, {"C"}, {"D"}, {"E"}, {"F"}, {"G"}}));
  ASSERT_TRUE(replies) << replies.error().message;
  using Kind = StoreReply::Kind;
  ASSERT_EQ(replies->size(), 7u);
  EXPECT_EQ((*replies)[0].text, "OK");
  EXPECT_EQ((*replies)[1].number, 42);
  EXPECT_EQ((*replies)[2].kind, Kind::kNothing);
  EXPECT_EQ((*replies)[3].text, "a\r\nbc");
  ASSERT_EQ((*replies)[4].list.size(), 3u);
  EXPECT_EQ((*replies)[4].list[0].text, "x");
  EXPECT_EQ((*replies)[4].list[1].kind, Kind::kNothing);
  EXPECT_EQ((*replies)[4].list[2].number, -7);
  EXPECT_EQ((*replies)[5].kind, Kind::kError);
  EXPECT_EQ(reason_of_reply((*replies)[5].text), "other");
  EXPECT_EQ((*replies)[6].kind, Kind::kList);
}

TEST_F(RedisLinkTest, WhatIsNoReplyEndsTheConnection) {
  for (const std::string& bytes : {
           std::string("HTTP/1.1 400 Bad Request\r\n\r\n"),
           std::string(200'000, '\0'),
           std::string("$99999999999999999999\r\n"),
           std::string("$-2\r\n"),
           std::string("*2147483647\r\n"),
           std::string("*9223372036854775807\r\n:1\r\n"),
           std::string("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"),
           "$100000\r\n" + std::string(100'000, 'x') + "\r\n",  // more than was asked for
           "*2\r\n$3\r\nabc\r\n$1000000\r\n" + std::string(500'000, 'x'),
           std::string("+OK\r\n+once more\r\n"),
           std::string("%1\r\n+a\r\n:1\r\n"),
           std::string(",1.5\r\n"),
           std::string("#t\r\n"),
       }) {
    const auto replies = answered({bytes}, batch({{"GET", "x"}}, 400 * kMillisecond, 1024));
    ASSERT_FALSE(replies) << bytes.substr(0, 40);
    EXPECT_TRUE(replies.error().code == ErrorCode::kCorrupt ||
                replies.error().code == ErrorCode::kTimeout)
        << replies.error().message;
  }
}

TEST_F(RedisLinkTest, SlowCutAndSilentServersEndInTime) {
  const auto slow = answered({"$4\r\nabcd\r\n", 100, 1}, batch({{"GET", "x"}}, 300 * kMillisecond));
  ASSERT_FALSE(slow);
  EXPECT_EQ(slow.error().code, ErrorCode::kTimeout);
  const auto cut = answered({"$4\r\nab", 0, 0, true}, batch({{"GET", "x"}}));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kUnavailable);
  const auto silent = answered({""}, batch({{"GET", "x"}}, 200 * kMillisecond));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kTimeout);
}

TEST_F(RedisLinkTest, AfterAFailureTheConnectionIsANewOne) {
  // The first answer comes when nobody waits for it any more: it must not be the second's.
  ScriptedStore server({{"+first\r\n", 1500}, {"+second\r\n"}});
  const auto link = make_redis_link(address_of(server.port()), clock, thread);
  EXPECT_FALSE(run(*link, batch({{"ONE"}}, 500 * kMillisecond)));
  const auto second = run(*link, batch({{"TWO"}}));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->front().text, "second");
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(RedisLinkTest, SignsInBeforeAnythingElse) {
  ScriptedStore server({{"+OK\r\n+OK\r\n"}, {":1\r\n"}});
  StoreAddress address = address_of(server.port());
  address.user = "who";
  address.password = "secret";
  address.database = 3;
  const auto link = make_redis_link(address, clock, thread);
  ASSERT_TRUE(run(*link, batch({{"EXISTS", "x"}})));
  const std::string said = server.received();
  EXPECT_EQ(
      said.find("*3\r\n$4\r\nAUTH\r\n$3\r\nwho\r\n$6\r\nsecret\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3"),
      0u)
      << said;
  const auto refused = [&] {
    ScriptedStore strict({{"-WRONGPASS invalid username-password pair\r\n+OK\r\n"}});
    address.port = strict.port();
    return run(*make_redis_link(address, clock, thread), batch({{"EXISTS", "x"}}));
  }();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kDenied);
  EXPECT_EQ(refused.error().message.find("secret"), std::string::npos);
}

TEST_F(RedisLinkTest, NobodyThere) {
  std::uint16_t port = 0;
  {
    const ScriptedStore gone({});
    port = gone.port();
  }
  const auto link = make_redis_link(address_of(port), clock, thread);
  const auto tcp = run(*link, batch({{"GET", "x"}}));
  ASSERT_FALSE(tcp);
  EXPECT_EQ(tcp.error().code, ErrorCode::kUnavailable);
  StoreAddress socket;
  socket.path = ::testing::TempDir() + "/no-such-socket";
  const auto unix_link = make_redis_link(socket, clock, thread);
  EXPECT_EQ(run(*unix_link, batch({{"GET", "x"}})).error().code, ErrorCode::kUnavailable);
}

TEST_F(RedisLinkTest, EndsWhileItWaits) {
  ScriptedStore server({});
  const auto link = make_redis_link(address_of(server.port()), clock, thread);
  const Nanos begun = clock.now();
  for (int i = 0; i < 10; ++i) link->run(batch({{"GET", "x"}}, 60 * kSecond), [](const auto&) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  link->stop();
  EXPECT_LT(clock.now() - begun, 30 * kSecond);
}

TEST_F(RedisLinkTest, LargeValuesGoAndCome) {
  const std::string large(std::size_t{1} << 20, 'v');
  ScriptedStore server({{"$" + std::to_string(large.size()) + "\r\n" + large + "\r\n"}});
  const auto link = make_redis_link(address_of(server.port()), clock, thread);
  StoreBatch of = batch({{"SET", "x"}}, 30 * kSecond, large.size() + 1024);
  const auto held = std::make_shared<std::string>(large);
  of.commands[0].value = std::as_bytes(std::span(held->data(), held->size()));
  of.held = held;
  const auto replies = run(*link, std::move(of));
  ASSERT_TRUE(replies) << replies.error().message;
  EXPECT_EQ(replies->front().text, large);
  // The server answers at the first bytes; the rest may still be on its way.
  for (int i = 0; i < 3000 && server.received().size() < large.size(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_NE(server.received().find("$1048576\r\nvvvv"), std::string::npos);
}

}  // namespace
}  // namespace saccade::cluster
