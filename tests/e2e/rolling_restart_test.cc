// Every process of a cluster is restarted in turn while clients ask: no request fails, and every
// answer is the solo run's. With a real redis-server; skipped without one.
#include <atomic>
#include <future>

#include "tests/e2e/cluster_setup.h"
#include "tests/support/redis_process.h"

namespace saccade::test {
namespace {

constexpr int kPictures = 6;  // a request has one or two of them
constexpr int kClients = 3;

// Clients that go on asking, with pictures and without, until they are told to end.
class Traffic {
 public:
  Traffic(std::uint16_t port, const ServerProcess& solo) {
    for (int i = 0; i < kPictures; ++i)
      bodies_.push_back(i % 3 == 2 ? chat({noise(200 + i), noise(300 + i, 64, 180)})
                                   : chat({noise(200 + i)}));
    bodies_.push_back(chat({}));
    for (const std::string& body : bodies_) expected_.push_back(ask(solo, body));
    for (int client = 0; client < kClients; ++client)
      clients_.push_back(std::async(std::launch::async, [this, port, client] {
        for (std::size_t i = static_cast<std::size_t>(client); !ending_; ++i) {
          const std::size_t which = i % bodies_.size();
          const RawAnswer answer = exchange(port, "POST", "/v1/chat/completions", bodies_[which]);
          EXPECT_EQ(tokens_of(answer), expected_[which]) << "request " << i << " of " << client;
          ++answered_;
        }
      }));
  }
  ~Traffic() { end(); }
  void end() {
    ending_ = true;
    for (auto& client : clients_)
      if (client.valid()) client.get();
  }
  // Returns when `count` more have been answered.
  bool more(int count) const {
    const int until = answered_ + count;
    return eventually([&] { return answered_ >= until; });
  }

 private:
  std::vector<std::string> bodies_;
  std::vector<std::vector<std::int64_t>> expected_;
  std::atomic<bool> ending_{false};
  std::atomic<int> answered_{0};
  std::vector<std::future<void>> clients_;
};

TEST(RollingRestart, CostsNoRequest) {
  if (RedisProcess::binary().empty()) GTEST_SKIP() << "no redis-server, no valkey-server";
  const RedisProcess redis;
  const ServerProcess solo(SACCADE_BINARY, serve(kCheckpoint));
  const auto encoder = [&] {
    return std::make_unique<EncoderRole>(kCheckpoint, Flags{"--registry", redis.url()});
  };
  const auto server = [&] {
    return std::make_unique<ServerProcess>(
        SACCADE_BINARY, serve(kCheckpoint, {"--role", "pd", "--encoder-fallback", "refuse",
                                            "--registry", redis.url()}));
  };
  std::vector<std::unique_ptr<EncoderRole>> encoders;
  std::vector<std::unique_ptr<ServerProcess>> servers;
  for (int i = 0; i < 2; ++i) encoders.push_back(encoder());
  for (int i = 0; i < 2; ++i) servers.push_back(server());
  for (const auto& each : servers) wait_until_connected(*each, 2);
  ServerProcess proxy(SACCADE_BINARY,
                      {"proxy", "--registry", redis.url(), "--probe-period", "200ms"});
  // Neither one that has gone and is still in the table, nor one that is not in it yet.
  const auto known = [&](int count) {
    return eventually([&] {
      return exchange(proxy.port(), "GET", "/health", "")
                 .body.find(fmt::format(R"("servers":{0},"usable":{0})", count)) !=
             std::string::npos;
    });
  };
  ASSERT_TRUE(known(2)) << proxy.log();
  Traffic traffic(proxy.port(), solo);
  ASSERT_TRUE(traffic.more(20));
  // The new one is there before the old one goes, as an orchestrator does it.
  for (auto& each : encoders) {
    auto next = encoder();
    for (const auto& pd : servers) wait_until_connected(*pd, 3);
    EXPECT_EQ(each->process().stop(), 0) << each->process().log();
    each = std::move(next);
    EXPECT_TRUE(traffic.more(15));
  }
  for (auto& each : servers) {
    auto next = server();
    wait_until_connected(*next, 2);
    ASSERT_TRUE(known(3)) << proxy.log();
    EXPECT_EQ(each->stop(), 0) << each->log();
    each = std::move(next);
    EXPECT_TRUE(traffic.more(15));
    ASSERT_TRUE(known(2)) << proxy.log();
  }
  // And without a new one: what is left does it all.
  EXPECT_EQ(encoders[0]->process().stop(), 0) << encoders[0]->process().log();
  EXPECT_TRUE(traffic.more(15));
  EXPECT_EQ(servers[0]->stop(), 0) << servers[0]->log();
  EXPECT_TRUE(traffic.more(15));
  traffic.end();
  expect_nothing_left(*servers[1]);
  expect_nothing_left_at(encoders[1]->process());
  EXPECT_EQ(proxy.stop(), 0) << proxy.log();
  if (HasFailure()) std::cout << proxy.log();
}

}  // namespace
}  // namespace saccade::test
