// Encoders apart from prefill and decode, with real processes: the answer is a solo run's, token
// for token, however the rows came, and whatever happens to encoders meanwhile.
#include <csignal>
#include <thread>

#include "tests/e2e/cluster_setup.h"
#include "tests/support/fault_relay.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

class Cluster : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    solo_ = std::make_unique<ServerProcess>(SACCADE_BINARY, serve(kCheckpoint));
  }
  static void TearDownTestSuite() { solo_.reset(); }
  static std::unique_ptr<ServerProcess> solo_;
};
std::unique_ptr<ServerProcess> Cluster::solo_;

TEST_F(Cluster, TcpAndUnixGiveTheSolosTokens) {
  const std::string path = testing::TempDir() + "/saccade-" + std::to_string(getpid()) + ".sock";
  EncoderRole encoder(kCheckpoint, {"--cluster-listen", "unix:" + path});
  for (const std::string& address : {encoder.address(), "unix:" + path}) {
    SCOPED_TRACE(address);
    ServerProcess server(SACCADE_BINARY,
                         serve(kCheckpoint, pd(address, {"--encoder-fallback", "refuse"})));
    wait_until_connected(server);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const std::string body = chat({noise(seed), noise(seed + 10, 64, 200)});
      EXPECT_EQ(ask(server, body), ask(*solo_, body));
    }
    EXPECT_EQ(images_from(server, "local"), 0);
    EXPECT_EQ(images_from(server, "remote") + images_from(server, "cache"), 6);
    expect_nothing_left(server);
    EXPECT_EQ(server.stop(), 0) << server.log();
  }
  // The second server found what the first had made.
  EXPECT_EQ(metric(encoder.process(), "saccade:images_encoded_total"), 6);
  EXPECT_EQ(metric(encoder.process(), "saccade:lent_cached_total"), 6);
  EXPECT_EQ(exchange(encoder.process().port(), "GET", "/health", "").status, 200);
  EXPECT_EQ(exchange(encoder.process().port(), "POST", "/v1/chat/completions", "{}").status, 400);
  expect_nothing_left_at(encoder.process());
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
}

TEST_F(Cluster, AServerThatAnswersLendsItsEncoder) {
  ServerProcess lender(SACCADE_BINARY, serve(kCheckpoint, {"--cluster-listen", "127.0.0.1:0"}));
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd("127.0.0.1:" + std::to_string(listening_port(lender)),
                                             {"--encoder-fallback", "refuse"})));
  wait_until_connected(server);
  // Both are asked at once, by turns for the same images and for others.
  for (std::uint64_t round = 0; round < 6; ++round) {
    const std::string one = chat({noise(300 + round), noise(400 + round, 64, 200)});
    const std::string other = chat({noise(round % 2 == 0 ? 300 + round : 500 + round)});
    std::vector<std::int64_t> of_lender;
    std::thread beside([&] { of_lender = ask(lender, other); });
    const auto of_server = ask(server, one);
    beside.join();
    EXPECT_EQ(of_server, ask(*solo_, one)) << round;
    EXPECT_EQ(of_lender, ask(*solo_, other)) << round;
  }
  EXPECT_EQ(images_from(server, "remote") + images_from(server, "cache"), 12);
  EXPECT_EQ(metric(lender, "saccade:lent_made_total"), 12);
  expect_nothing_left(server);
  expect_nothing_left_at(lender);
  // A lender that ends finishes its own answers, and what it has promised.
  EXPECT_EQ(lender.stop(), 0) << lender.log();
  EXPECT_EQ(exchange(server.port(), "POST", "/v1/chat/completions", chat({noise(600)})).status,
            503);
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST_F(Cluster, ServersLendEachOther) {
  const std::string folder = testing::TempDir() + "/saccade-" + std::to_string(getpid());
  const std::string a = "unix:" + folder + "-a.sock";
  const std::string b = "unix:" + folder + "-b.sock";
  ServerProcess first(SACCADE_BINARY, serve(kCheckpoint, {"--cluster-listen", a, "--encoders", b}));
  ServerProcess second(SACCADE_BINARY,
                       serve(kCheckpoint, {"--cluster-listen", b, "--encoders", a}));
  wait_until_connected(first);
  wait_until_connected(second);
  std::vector<std::string> bodies;
  std::vector<std::vector<std::int64_t>> expected;
  for (std::uint64_t seed = 700; seed < 712; ++seed) {
    bodies.push_back(chat({noise(seed), noise(seed + 50, 200, 64), noise(seed + 100)}));
    expected.push_back(ask(*solo_, bodies.back()));
  }
  const auto ask_all = [&](const ServerProcess& server) {
    std::vector<std::vector<std::int64_t>> answers(bodies.size());
    std::vector<std::thread> clients;
    for (std::size_t i = 0; i < bodies.size(); ++i)
      clients.emplace_back([&, i] { answers[i] = ask(server, bodies[i]); });
    for (auto& client : clients) client.join();
    return answers;
  };
  std::vector<std::vector<std::int64_t>> of_second;
  std::thread beside([&] { of_second = ask_all(second); });
  EXPECT_EQ(ask_all(first), expected);
  beside.join();
  EXPECT_EQ(of_second, expected);
  expect_nothing_left(first);
  expect_nothing_left(second);
  // One of them is killed while the other's images are there.
  exchange(first.port(), "POST", "/reset_mm_cache", "");
  exchange(first.port(), "POST", "/reset_prefix_cache", "");
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    second.signal(SIGKILL);
  });
  EXPECT_EQ(ask_all(first), expected);
  killer.join();
  expect_nothing_left(first);
  EXPECT_EQ(first.stop(), 0) << first.log();
}

TEST_F(Cluster, EqualImagesAreEncodedOnce) {
  EncoderRole encoder;
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(encoder.address(), {"--encoder-fallback", "refuse"})));
  wait_until_connected(server);
  const std::string body = chat({noise(20), noise(20)});
  std::vector<std::vector<std::int64_t>> answers(6);
  std::vector<std::thread> clients;
  for (auto& answer : answers) clients.emplace_back([&] { answer = ask(server, body); });
  for (auto& client : clients) client.join();
  const auto expected = ask(*solo_, body);
  for (const auto& answer : answers) EXPECT_EQ(answer, expected);
  EXPECT_EQ(metric(encoder.process(), "saccade:images_encoded_total"), 1);
}

// An encoder lays an image out under the bounds that were applied, not under those that its client
// gave.
TEST_F(Cluster, SizesThatAreDecidedHereAreMadeThere) {
  const Flags sizes = {"--image-size", "static:6"};
  ServerProcess alone(SACCADE_BINARY, serve(kCheckpoint, sizes));
  EncoderRole encoder;
  Flags flags = pd(encoder.address(), {"--encoder-fallback", "refuse"});
  flags.insert(flags.end(), sizes.begin(), sizes.end());
  ServerProcess server(SACCADE_BINARY, serve(kCheckpoint, flags));
  wait_until_connected(server);
  const std::string body = chat({noise(30), noise(31, 64, 200)});
  const auto answer = ask(server, body);
  EXPECT_EQ(answer, ask(alone, body));
  EXPECT_NE(answer, ask(*solo_, body));
  EXPECT_EQ(images_from(server, "remote"), 2);
  expect_nothing_left(server);
}

// At a high rate the encoder gets a smaller image; the answer is made from the image as it came,
// encoded here after that, as the published code does.
TEST(ClusterSizes, AsPublished) {
  const std::string glimpse = SACCADE_SOURCE_DIR "/models/glimpse";  // 256 tokens an image
  const ServerProcess alone(SACCADE_BINARY, serve(glimpse));
  EncoderRole encoder(glimpse);
  // At over two requests a second, which a slow machine sends too; as published it is 33.
  ServerProcess server(SACCADE_BINARY,
                       serve(glimpse, pd(encoder.address(), {"--image-size", "seed-as-published",
                                                             "--seed-line", "2,0"})));
  wait_until_connected(server);
  const auto made = [&] { return metric(encoder.process(), "saccade:lent_made_total"); };
  const auto encoded = [&] { return metric(server, "saccade:images_encoded_total"); };
  // A small image goes by as in any cluster: its rows are the encoder's.
  const std::string small = chat({noise(800, 60, 60)});
  EXPECT_EQ(ask(server, small), ask(alone, small));
  EXPECT_EQ(made(), 1);
  EXPECT_EQ(encoded(), 0);
  const std::string large = chat({noise(801, 448, 448)});
  // Requests that come to nothing count.
  for (int i = 0; i < 400; ++i)
    EXPECT_EQ(exchange(server.port(), "POST", "/v1/chat/completions",
                       chat({"data:image/png;base64,AAAA"}))
                  .status,
              422);
  const auto answer = ask(server, large);  // at once: `alone` takes long where a machine is busy
  EXPECT_EQ(answer, ask(alone, large));
  EXPECT_EQ(made(), 2);
  EXPECT_EQ(encoded(), 1);
  EXPECT_EQ(metric(server, "saccade:images_reduced_total"), 1);
  // Asked again, it is there.
  exchange(server.port(), "POST", "/reset_prefix_cache", "");
  EXPECT_EQ(ask(server, large), ask(alone, large));
  EXPECT_EQ(made(), 2);
  EXPECT_EQ(encoded(), 1);
  expect_nothing_left(server);
  // Without the encoder both sizes are encoded here.
  encoder.process().signal(SIGKILL);
  for (const std::uint64_t seed : {802, 803}) {
    const std::string other = chat({noise(seed, 448, 448), noise(seed + 10, 60, 60)});
    EXPECT_EQ(ask(server, other), ask(alone, other));
  }
  EXPECT_EQ(encoded(), 5);
  expect_nothing_left(server);
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST_F(Cluster, WithoutEncodersAndTowerItIs503) {
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd("127.0.0.1:1", {"--encoder-fallback", "refuse"})));
  const RawAnswer answer =
      exchange(server.port(), "POST", "/v1/chat/completions", chat({noise(1)}));
  EXPECT_EQ(answer.status, 503) << answer.body;
  EXPECT_NE(answer.head.find("Retry-After"), std::string::npos) << answer.head;
  EXPECT_NE(answer.body.find("no encoder can be reached"), std::string::npos) << answer.body;
  EXPECT_EQ(exchange(server.port(), "POST", "/v1/chat/completions", chat({})).status, 200);
  expect_nothing_left(server);
}

TEST_F(Cluster, AKilledEncoderTakesNoRequestWithIt) {
  auto encoder = std::make_unique<EncoderRole>();
  FaultRelay relay(encoder->cluster_port());
  // Without a tower, so that it has to be asked; the other one stands in for it.
  EncoderRole other;
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(relay.address() + "," + other.address(),
                                             {"--encoder-fallback", "refuse"})));
  wait_until_connected(server, 2);
  // The link is held at more and more bytes of the answer, then the encoder is killed: before it
  // has accepted, while it has, in the middle of the rows, and before their end.
  std::uint64_t seed = 100;
  for (const std::int64_t held : {0, 60, 400, 4'000, 12'000}) {
    SCOPED_TRACE(held);
    // Several images: some belong to the one, some to the other.
    const std::string body =
        chat({noise(++seed), noise(++seed), noise(++seed), noise(++seed), noise(++seed)});
    const auto expected = ask(*solo_, body);
    relay.set({.stall_after = relay.passed_back() + held});
    const double wanted = metric(server, "saccade:exchange_wanted_total");
    std::vector<std::int64_t> answer;
    std::thread client([&] { answer = ask(server, body); });
    EXPECT_TRUE(
        eventually([&] { return metric(server, "saccade:exchange_wanted_total") >= wanted + 5; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    encoder->process().signal(SIGKILL);
    relay.set({});
    relay.cut_all();
    client.join();
    EXPECT_EQ(answer, expected);
    encoder = std::make_unique<EncoderRole>();
    relay.set_target(encoder->cluster_port());
    wait_until_connected(server, 2);
  }
  expect_nothing_left(server);
  expect_nothing_left_at(other.process());
  EXPECT_GT(metric(server, "saccade:exchange_failures_total", "reason=\"lost\""), 0);
  EXPECT_EQ(metric(server, "saccade:exchange_lost_total"), 0);
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST_F(Cluster, AnEncoderThatStandsIsHedged) {
  EncoderRole encoder;
  ServerProcess server(SACCADE_BINARY, serve(kCheckpoint, pd(encoder.address())));
  wait_until_connected(server);
  const std::string first = chat({noise(200)});
  EXPECT_EQ(ask(server, first), ask(*solo_, first));
  encoder.process().signal(SIGSTOP);
  const std::string second = chat({noise(201)});
  EXPECT_EQ(ask(server, second), ask(*solo_, second));
  encoder.process().signal(SIGCONT);
  const std::string third = chat({noise(202)});
  EXPECT_EQ(ask(server, third), ask(*solo_, third));
  EXPECT_EQ(metric(server, "saccade:embedding_mismatch_total"), 0);
  EXPECT_EQ(metric(server, "saccade:exchange_lost_total"), 0);
  expect_nothing_left(server);
  expect_nothing_left_at(encoder.process());
}

TEST_F(Cluster, AnEncoderThatComesBackOnItsPortIsAnother) {
  auto encoder = std::make_unique<EncoderRole>();
  const std::string address = encoder->address();
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(address, {"--encoder-fallback", "refuse"})));
  wait_until_connected(server);
  for (std::uint64_t seed = 300; seed < 303; ++seed) {
    const std::string body = chat({noise(seed)});
    EXPECT_EQ(ask(server, body), ask(*solo_, body));
    encoder->process().signal(SIGKILL);
    encoder->process().wait();
    encoder = std::make_unique<EncoderRole>(kCheckpoint, Flags{}, address);
    wait_until_connected(server);
  }
  expect_nothing_left(server);
}

TEST_F(Cluster, AnotherCheckpointIsIncompatible) {
  EncoderRole encoder(kGoldens + "qwen2_vl/mixed_window");
  ServerProcess server(SACCADE_BINARY, serve(kCheckpoint, pd(encoder.address())));
  ASSERT_TRUE(eventually([&] {
    return metric(server, "saccade:encoder_up", "state=\"incompatible\"") == 0;
  })) << server.log();
  EXPECT_NE(server.log().find("is not asked: its tower is"), std::string::npos) << server.log();
  const std::string body = chat({noise(400)});
  EXPECT_EQ(ask(server, body), ask(*solo_, body));
  EXPECT_EQ(images_from(server, "local"), 1);
  EXPECT_EQ(metric(encoder.process(), "saccade:lent_orders_total"), 0);
}

std::string key_file(const std::string& name, const std::string& key) {
  const std::string path = testing::TempDir() + "/saccade-" + std::to_string(getpid()) + name;
  std::ofstream(path) << key << "\n";
  return path;
}

TEST_F(Cluster, WhoDoesNotKnowTheKeyIsLeftOut) {
  const std::string right = key_file("right", "0123456789abcdef");
  const std::string wrong = key_file("wrong", "0123456789abcdeF");
  EncoderRole encoder(kCheckpoint, {"--cluster-key-file", right});
  const std::string body = chat({noise(500)});
  const auto expected = ask(*solo_, body);
  {
    ServerProcess server(SACCADE_BINARY,
                         serve(kCheckpoint, pd(encoder.address(), {"--cluster-key-file", wrong})));
    EXPECT_TRUE(eventually([&] {
      return server.log().find("it does not know the key") != std::string::npos;
    })) << server.log();
    EXPECT_EQ(ask(server, body), expected);
    EXPECT_EQ(images_from(server, "local"), 1);
  }
  {
    // One without a key believes the encoder, which does not believe it.
    ServerProcess server(SACCADE_BINARY, serve(kCheckpoint, pd(encoder.address())));
    EXPECT_EQ(ask(server, body), expected);
    EXPECT_EQ(images_from(server, "local"), 1);
    EXPECT_EQ(metric(encoder.process(), "saccade:lent_orders_total"), 0);
  }
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(encoder.address(), {"--cluster-key-file", right,
                                                                 "--encoder-fallback", "refuse"})));
  wait_until_connected(server);
  EXPECT_EQ(ask(server, body), expected);
  fs::remove(right);
  fs::remove(wrong);
}

TEST_F(Cluster, OthersAreNotListenedToWithoutAKey) {
  const Ended ended = run_to_end(
      SACCADE_BINARY,
      serve(kCheckpoint, {"--port", "0", "--role", "encoder", "--cluster-listen", "0.0.0.0:0"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.output.find("--cluster-listen 0.0.0.0:0: others than this machine reach it"),
            std::string::npos)
      << ended.output;
}

TEST_F(Cluster, ABadLinkCostsTimeAndNothingElse) {
  EncoderRole encoder;
  FaultRelay relay(encoder.cluster_port());
  EncoderRole other;
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(relay.address() + "," + other.address(),
                                             {"--encoder-fallback", "refuse"})));
  wait_until_connected(server, 2);
  const std::vector<RelayScript> scripts = {
      {.cut_after = 700},         {.cut_after = 9'000},
      {.stall_after = 2'000},     {.flip_after = 600, .seed = 7},
      {.refuse = true},           {.delay_ms = 20},
      {.bytes_a_second = 40'000},
  };
  std::uint64_t seed = 600;
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    SCOPED_TRACE(i);
    // Of what passes from now on: the encoder is known, and is asked.
    RelayScript script = scripts[i];
    for (std::int64_t* const place : {&script.cut_after, &script.stall_after, &script.flip_after})
      if (*place >= 0) *place += relay.passed_back();
    relay.set(script);
    if (script.refuse) relay.cut_all();
    for (int k = 0; k < 2; ++k) {
      const std::string body = chat({noise(++seed), noise(++seed), noise(++seed), noise(++seed)});
      EXPECT_EQ(ask(server, body), ask(*solo_, body));
    }
    relay.set({});
    relay.cut_all();
    wait_until_connected(server, 2);
  }
  EXPECT_GT(metric(server, "saccade:exchange_failures_total", "reason=\"lost\""), 0);
  EXPECT_EQ(metric(server, "saccade:embedding_mismatch_total"), 0);
  EXPECT_EQ(metric(server, "saccade:exchange_lost_total"), 0);
  expect_nothing_left(server);
  expect_nothing_left_at(encoder.process());
}

TEST_F(Cluster, TwoServersShareAnEncoder) {
  EncoderRole encoder;
  ServerProcess one(SACCADE_BINARY,
                    serve(kCheckpoint, pd(encoder.address(), {"--encoder-fallback", "refuse"})));
  ServerProcess two(SACCADE_BINARY,
                    serve(kCheckpoint, pd(encoder.address(), {"--encoder-fallback", "refuse"})));
  wait_until_connected(one);
  wait_until_connected(two);
  std::vector<std::thread> clients;
  for (std::uint64_t k = 0; k < 6; ++k) {
    clients.emplace_back([&, k] {
      const std::string body = chat({noise(700 + k)});
      EXPECT_EQ(ask(k % 2 == 0 ? one : two, body), ask(*solo_, body));
    });
  }
  for (auto& client : clients) client.join();
  expect_nothing_left(one);
  expect_nothing_left(two);
  expect_nothing_left_at(encoder.process());
}

// Servers do not speak with each other: an image's name leads both to one encoder, which makes it
// once for all who ask.
TEST_F(Cluster, OfTwoServersAndTwoEncodersOneMakesIt) {
  EncoderRole a;
  EncoderRole b;
  const std::string encoders = a.address() + "," + b.address();
  ServerProcess one(SACCADE_BINARY,
                    serve(kCheckpoint, pd(encoders, {"--encoder-fallback", "refuse"})));
  ServerProcess two(SACCADE_BINARY,
                    serve(kCheckpoint, pd(encoders, {"--encoder-fallback", "refuse"})));
  wait_until_connected(one, 2);
  wait_until_connected(two, 2);
  constexpr int kImages = 20;
  for (std::uint64_t k = 0; k < kImages; ++k) {
    const std::string body = chat({noise(900 + k)});
    std::vector<std::int64_t> other;
    std::thread beside([&] { other = ask(two, body); });
    const auto answer = ask(one, body);
    beside.join();
    EXPECT_EQ(answer, other);
  }
  const double encoded = metric(a.process(), "saccade:images_encoded_total") +
                         metric(b.process(), "saccade:images_encoded_total");
  double elsewhere = 0;  // for a reason, which a busy machine has often
  for (const ServerProcess* server : {&one, &two}) {
    elsewhere += metric(*server, "saccade:exchange_away_total") +
                 metric(*server, "saccade:exchange_hedges_total");
  }
  EXPECT_GE(encoded, kImages);
  EXPECT_LE(encoded, kImages + elsewhere);
}

TEST_F(Cluster, OfTwoEncodersTheSlowOneHoldsNobodyUp) {
  EncoderRole fast;
  EncoderRole slow;
  FaultRelay relay(slow.cluster_port());
  relay.set({.delay_ms = 100});
  ServerProcess server(SACCADE_BINARY, serve(kCheckpoint, pd(fast.address() + "," + relay.address(),
                                                             {"--encoder-fallback", "refuse"})));
  wait_until_connected(server, 2);
  for (std::uint64_t k = 0; k < 8; ++k) {
    const std::string body = chat({noise(800 + 2 * k), noise(801 + 2 * k)});
    EXPECT_EQ(ask(server, body), ask(*solo_, body));
  }
  // Both were tried; what is known of the slow way then keeps images off it.
  EXPECT_GT(metric(fast.process(), "saccade:lent_sent_total"),
            metric(slow.process(), "saccade:lent_sent_total"));
  expect_nothing_left(server);
}

TEST_F(Cluster, RowsOfOthersAreMadeAgainAndCompared) {
  EncoderRole encoder;
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(encoder.address(), {"--verify-embeddings", "1"})));
  wait_until_connected(server);
  double remote = 0;
  for (std::uint64_t k = 0; k < 6; ++k) {
    const std::string body = chat({noise(900 + k)});
    EXPECT_EQ(ask(server, body), ask(*solo_, body));
  }
  remote = images_from(server, "remote");
  EXPECT_GT(remote, 0);
  EXPECT_TRUE(
      eventually([&] { return metric(server, "saccade:embedding_verified_total") >= remote; }));
  EXPECT_EQ(metric(server, "saccade:embedding_mismatch_total"), 0);
}

}  // namespace
}  // namespace saccade::test
