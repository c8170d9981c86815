// A cluster that finds itself by a registry, and shares rows in it, with a real redis-server: the
// answers are a solo run's, token for token, whatever becomes of the store.
#include <csignal>
#include <fstream>

#include "cluster/store/row_manifest.h"
#include "tests/e2e/cluster_setup.h"
#include "tests/support/redis_process.h"

namespace saccade::test {
namespace {

// Of a request while the store is gone, on a busy machine: it would be for ever.
constexpr auto kLimit = std::chrono::seconds(30);

Flags registry(const RedisProcess& redis, const Flags& more = {}) {
  return EncoderRole::join({"--registry", redis.url()}, more);
}
Flags pd_of(const RedisProcess& redis, const Flags& more = {}) {
  return serve(kCheckpoint, EncoderRole::join({"--role", "pd", "--encoder-fallback", "refuse",
                                               "--registry", redis.url()},
                                              more));
}
double stored(const ServerProcess& process) {
  return metric(process, "saccade:store_publications_total", "result=\"stored\"");
}
double lookups(const ServerProcess& process, const std::string& result) {
  return metric(process, "saccade:store_lookups_total", "result=\"" + result + "\"");
}

class ClusterRegistry : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (RedisProcess::binary().empty()) return;
    solo_ = std::make_unique<ServerProcess>(SACCADE_BINARY, serve(kCheckpoint));
  }
  static void TearDownTestSuite() { solo_.reset(); }
  void SetUp() override {
    if (RedisProcess::binary().empty()) GTEST_SKIP() << "no redis-server, no valkey-server";
    redis_ = std::make_unique<RedisProcess>();
  }
  static std::unique_ptr<ServerProcess> solo_;
  std::unique_ptr<RedisProcess> redis_;
};
std::unique_ptr<ServerProcess> ClusterRegistry::solo_;

TEST_F(ClusterRegistry, FormsByItselfAndFollowsWhoComesAndGoes) {
  ServerProcess proxy(SACCADE_BINARY,
                      {"proxy", "--registry", redis_->url(), "--probe-period", "200ms"});
  EXPECT_EQ(exchange(proxy.port(), "POST", "/v1/chat/completions", chat({})).status, 503);
  ServerProcess server(SACCADE_BINARY, pd_of(*redis_));
  auto encoder = std::make_unique<EncoderRole>(kCheckpoint, registry(*redis_));
  wait_until_connected(server);
  ASSERT_TRUE(eventually([&] {
    return exchange(proxy.port(), "GET", "/health", "").status == 200;
  })) << proxy.log();
  const auto through_proxy = [&](const std::string& body) {
    return tokens_of(exchange(proxy.port(), "POST", "/v1/chat/completions", body));
  };
  EXPECT_EQ(through_proxy(chat({noise(1), noise(2)})), ask(*solo_, chat({noise(1), noise(2)})));

  // The same address, another process: nothing of the old one is believed, and it is found.
  const std::string address = encoder->address();
  encoder->process().signal(SIGKILL);
  encoder->process().wait();
  encoder = std::make_unique<EncoderRole>(kCheckpoint, registry(*redis_), address);
  wait_until_connected(server);
  EXPECT_EQ(through_proxy(chat({noise(3)})), ask(*solo_, chat({noise(3)})));
  // One that is killed is forgotten when its lease has ended; one that ends says so.
  EXPECT_EQ(encoder->process().stop(), 0) << encoder->process().log();
  EXPECT_TRUE(eventually([&] { return redis_->keys("saccade:node:*").size() == 1; }));
  EXPECT_TRUE(eventually(
      [&] { return metric(server, "saccade:registry_nodes", "role=\"encoder\"") == 0; }));
  EXPECT_TRUE(eventually([&] { return metric(server, "saccade:encoder_up", address) == -1; }));
  EXPECT_EQ(server.stop(), 0) << server.log();
  EXPECT_TRUE(redis_->keys("saccade:node:*").empty());
  // Out after two failures, and then forgotten.
  EXPECT_TRUE(eventually([&] {
    return exchange(proxy.port(), "GET", "/health", "").body.find("\"servers\":0") !=
           std::string::npos;
  })) << proxy.log();
  EXPECT_EQ(exchange(proxy.port(), "POST", "/v1/chat/completions", chat({})).status, 503);
  EXPECT_EQ(proxy.stop(), 0) << proxy.log();
}

TEST_F(ClusterRegistry, RowsOutliveTheirEncoders) {
  const std::string body = chat({noise(10), noise(11, 64, 200)});
  const auto expected = ask(*solo_, body);
  auto encoder = std::make_unique<EncoderRole>(kCheckpoint, registry(*redis_));
  {
    ServerProcess first(SACCADE_BINARY, pd_of(*redis_));
    wait_until_connected(first);
    EXPECT_EQ(ask(first, body), expected);
    EXPECT_EQ(lookups(first, "miss") + lookups(first, "late"), 2);
    EXPECT_TRUE(eventually([&] { return stored(encoder->process()) == 2; }));
  }
  encoder->process().signal(SIGKILL);
  encoder.reset();
  ServerProcess second(SACCADE_BINARY, pd_of(*redis_));
  // Again where the store answered too late, as it does on a busy machine: nobody else has them.
  RawAnswer answer;
  EXPECT_TRUE(eventually([&] {
    answer = exchange(second.port(), "POST", "/v1/chat/completions", body);
    return answer.status == 200;
  })) << answer.body;
  EXPECT_EQ(tokens_of(answer), expected);
  EXPECT_GE(images_from(second, "store"), 2);
  EXPECT_GE(lookups(second, "hit"), 2);
  // What is not there needs an encoder, and there is none.
  EXPECT_EQ(exchange(second.port(), "POST", "/v1/chat/completions", chat({noise(12)})).status, 503);
  expect_nothing_left(second);
  EXPECT_EQ(second.stop(), 0) << second.log();
}

TEST_F(ClusterRegistry, LosingTheStoreStopsNothing) {
  EncoderRole encoder(kCheckpoint, registry(*redis_));
  ServerProcess server(SACCADE_BINARY, pd_of(*redis_));
  wait_until_connected(server);
  std::uint64_t seed = 100;
  const auto ask_one = [&](const std::string& what) {
    const std::string body = chat({noise(++seed), noise(++seed)});
    const auto expected = ask(*solo_, body);
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(ask(server, body), expected) << what;
    EXPECT_LT(std::chrono::steady_clock::now() - begun, kLimit) << what;
  };
  ask_one("as it should be");
  // Frozen: connections stand, and nothing comes.
  redis_->signal(SIGSTOP);
  for (int i = 0; i < 6; ++i) ask_one("frozen");
  // Where lookups took long on a busy machine few are made.
  EXPECT_TRUE(eventually([&] {
    if (lookups(server, "late") >= 1) return true;
    ask_one("frozen");
    return false;
  }));
  EXPECT_TRUE(eventually([&] { return metric(server, "saccade:registry_up") == 0; }));
  EXPECT_EQ(metric(server, "saccade:encoder_up", "state=\"up\""), 1);
  redis_->signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return metric(server, "saccade:registry_up") == 1; }));
  // Killed in the middle of requests.
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    redis_->end(SIGKILL);
  });
  for (int i = 0; i < 4; ++i) ask_one("killed");
  killer.join();
  ask_one("gone");
  EXPECT_EQ(metric(server, "saccade:encoder_up", "state=\"up\""), 1);
  // Back, and empty.
  redis_->start();
  EXPECT_TRUE(eventually([&] {
    ask_one("back");
    return metric(server, "saccade:registry_up") == 1 && lookups(server, "miss") > 2 &&
           !redis_->keys("saccade:rows:*").empty();
  })) << server.log();
  EXPECT_TRUE(eventually([&] { return redis_->keys("saccade:node:*").size() == 2; }));
  expect_nothing_left(server);
  expect_nothing_left_at(encoder.process());
  EXPECT_EQ(server.stop(), 0) << server.log();
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
}

TEST_F(ClusterRegistry, CorruptAndPoisonedRowsAreNotTaken) {
  const std::string key = testing::TempDir() + "/saccade-key-" + std::to_string(getpid());
  std::ofstream(key) << "a key that all of this cluster share\n";
  const Flags with_key = {"--cluster-key-file", key};
  EncoderRole encoder(kCheckpoint, registry(*redis_, with_key));
  const auto fill = [&](const std::string& body) {
    ServerProcess server(SACCADE_BINARY, pd_of(*redis_, with_key));
    wait_until_connected(server);
    return ask(server, body);
  };
  const std::string body = chat({noise(20), noise(21), noise(22)});
  const auto expected = ask(*solo_, body);
  EXPECT_EQ(fill(body), expected);
  ASSERT_TRUE(eventually([&] { return stored(encoder.process()) == 3; }));
  // Of the first a byte is changed; of the second the rows are others, and their digest fits; the
  // third's manifest is no text at all.
  const std::vector<std::string> manifests = redis_->keys("saccade:rows:*:m");
  ASSERT_EQ(manifests.size(), 3u);
  const auto base = [&](std::size_t i) { return manifests[i].substr(0, manifests[i].size() - 2); };
  const std::string first = redis_->run({"GET", manifests[0]}).text;
  const std::string rows = redis_->run({"GET", base(0) + ":c:0"}).text;
  std::string others = redis_->run({"GET", base(1) + ":c:0"}).text;
  others[3] = static_cast<char>(others[3] ^ 1);
  auto manifest = cluster::read_manifest(redis_->run({"GET", manifests[1]}).text, base(1), "");
  ASSERT_TRUE(manifest);
  manifest->digest = sha256(others);
  const auto spoil = [&] {
    redis_->run({"FLUSHALL"});
    redis_->run({"SET", manifests[0], first});
    redis_->run({"SET", base(0) + ":c:0", rows});
    redis_->run({"SETRANGE", base(0) + ":c:0", "40", "X"});
    redis_->run({"SET", manifests[1], cluster::write_manifest(*manifest, base(1), "")});
    redis_->run({"SET", base(1) + ":c:0", others});
    redis_->run({"LPUSH", manifests[2], "a list"});
  };
  // With nobody else, and no measurement of its own yet, every image is looked up: an encoder that
  // has said how quick it is with so small a model makes a lookup not worth it.
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
  double corrupt = 0;
  for (int tries = 0; corrupt < 3 && tries < 20; ++tries) {
    spoil();
    ServerProcess server(SACCADE_BINARY, serve(kCheckpoint, registry(*redis_, with_key)));
    EXPECT_EQ(ask(server, body), expected);
    // On a busy machine an answer of the store may come when nobody waits for it any more: then
    // the next server is to see it.
    corrupt = std::max(corrupt, lookups(server, "corrupt"));
    EXPECT_EQ(lookups(server, "corrupt") + lookups(server, "late"), 3);
    EXPECT_EQ(images_from(server, "store"), 0);
    expect_nothing_left(server);
  }
  EXPECT_GE(corrupt, 1);
}

TEST_F(ClusterRegistry, WithoutAKeyPoisonedRowsAreFoundBySamples) {
  const std::string body = chat({noise(30)});
  const auto expected = ask(*solo_, body);
  EncoderRole encoder(kCheckpoint, registry(*redis_));
  {
    ServerProcess server(SACCADE_BINARY, pd_of(*redis_));
    wait_until_connected(server);
    EXPECT_EQ(ask(server, body), expected);
    ASSERT_TRUE(eventually([&] { return stored(encoder.process()) == 1; }));
  }
  encoder.process().signal(SIGKILL);
  const std::string at = redis_->keys("saccade:rows:*:m").at(0);
  const std::string base = at.substr(0, at.size() - 2);
  std::string rows = redis_->run({"GET", base + ":c:0"}).text;
  rows[3] = static_cast<char>(rows[3] ^ 1);
  redis_->run({"SET", base + ":c:0", rows});
  auto manifest = cluster::read_manifest(redis_->run({"GET", at}).text, base, "");
  ASSERT_TRUE(manifest);
  manifest->digest = sha256(rows);
  redis_->run({"SET", at, cluster::write_manifest(*manifest, base, "")});
  ServerProcess server(SACCADE_BINARY, serve(kCheckpoint, {"--registry", redis_->url(),
                                                           "--verify-embeddings", "1"}));
  // Again where the store answered too late.
  EXPECT_TRUE(eventually([&] {
    ask(server, body);
    if (images_from(server, "store") == 1) return true;
    exchange(server.port(), "POST", "/reset_mm_cache", "");
    exchange(server.port(), "POST", "/reset_prefix_cache", "");
    return false;
  }));
  EXPECT_TRUE(eventually([&] { return metric(server, "saccade:embedding_mismatch_total") == 1; }));
  EXPECT_TRUE(eventually([&] { return redis_->keys("saccade:rows:*:m").empty(); }));
  exchange(server.port(), "POST", "/reset_mm_cache", "");
  exchange(server.port(), "POST", "/reset_prefix_cache", "");
  EXPECT_EQ(ask(server, body), expected);
}

TEST_F(ClusterRegistry, WhoIsNotLetInGoesOnAlone) {
  RedisProcess locked({"--requirepass", "open sesame"});
  locked.password = "open sesame";
  const std::string file = testing::TempDir() + "/saccade-password-" + std::to_string(getpid());
  std::ofstream(file) << "open sesame\n";
  const std::string body = chat({noise(40)});
  const auto expected = ask(*solo_, body);
  {
    ServerProcess shut_out(SACCADE_BINARY, serve(kCheckpoint, {"--registry", locked.url()}));
    EXPECT_EQ(ask(shut_out, body), expected);
    EXPECT_EQ(metric(shut_out, "saccade:registry_up"), 0);
    EXPECT_TRUE(locked.keys("saccade:*").empty());
    EXPECT_EQ(shut_out.stop(), 0) << shut_out.log();
  }
  ServerProcess let_in(SACCADE_BINARY, serve(kCheckpoint, {"--registry", locked.url(),
                                                           "--registry-password-file", file}));
  EXPECT_TRUE(eventually([&] { return metric(let_in, "saccade:registry_up") == 1; }));
  EXPECT_TRUE(eventually([&] { return locked.keys("saccade:node:*").size() == 1; }));
  EXPECT_EQ(ask(let_in, body), expected);
  EXPECT_EQ(let_in.log().find("sesame"), std::string::npos);
}

TEST(ClusterRegistryFlags, WhatCannotBeIsSaid) {
  const auto refused = [](const Flags& more) {
    const Ended ended = run_to_end(SACCADE_BINARY, serve(kCheckpoint, more));
    EXPECT_NE(ended.status, 0);
    return ended.output;
  };
  EXPECT_NE(refused({"--registry", "rediss://:hush@host"}).find("rediss://"), std::string::npos);
  EXPECT_EQ(refused({"--registry", "redis://:hush@host:x"}).find("hush"), std::string::npos);
  EXPECT_NE(refused({"--registry", "redis://host", "--host", "0.0.0.0"}).find("--advertise"),
            std::string::npos);
  EXPECT_NE(refused({"--advertise", "here"}).find("--registry"), std::string::npos);
  EXPECT_NE(refused({"--role", "pd"}).find("--registry"), std::string::npos);
}

}  // namespace
}  // namespace saccade::test
