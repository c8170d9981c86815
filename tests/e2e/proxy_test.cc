// `saccade proxy` in front of real servers: equal answers, streams as they come, servers that die
// and drain, clients that leave, bodies of any kind.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/value.hpp>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <thread>

#include "base/json.h"
#include "base/rng.h"
#include "base/text/base64.h"
#include "image/pixels.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/command.h"
#include "tests/support/eventually.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"

namespace saccade::test {
namespace {

constexpr const char* kChat = "/v1/chat/completions";

std::string noise_png(int side) {
  Rng rng(static_cast<std::uint64_t>(side));
  Pixels pixels{side, side, std::vector<std::uint8_t>(static_cast<std::size_t>(side * side * 3))};
  for (std::uint8_t& value : pixels.rgb) value = static_cast<std::uint8_t>(rng());
  const auto png = encode_png(pixels);
  return base64_encode({reinterpret_cast<const char*>(png->data()), png->size()});
}

std::string text_chat(const std::string& text, const std::string& members = "") {
  return R"({"temperature": 0, "max_tokens": 6, "messages": [{"role": "user", "content": ")" +
         text + R"("}])" + members + "}";
}

std::string chat_with_image(int side) {
  return R"({"temperature": 0, "max_tokens": 6, "messages": [{"role": "user", "content": [)"
         R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,)" +
         noise_png(side) + R"("}}, {"type": "text", "text": "What is it?"}]}]})";
}

std::string text_or_error(const RawAnswer& answer) {
  const auto tree = json::parse(answer.body);
  if (answer.status != 200 || !tree) return fmt::format("{}: {}", answer.status, answer.body);
  return std::string(tree->at("choices").at(0).at("message").at("content").as_string());
}

std::string url_of(std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); }

std::unique_ptr<ServerProcess> served_glimpse() {
  return std::make_unique<ServerProcess>(SACCADE_BINARY,
                                         std::vector<std::string>{"serve", kGlimpse});
}

std::unique_ptr<ServerProcess> proxy_for(const std::string& pds,
                                         std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"proxy", "--pd", pds, "--probe-period", "200ms"});
  return std::make_unique<ServerProcess>(SACCADE_BINARY, std::move(more));
}

// Two servers and a proxy before them.
struct ProxiedPair {
  ProxiedPair() : ProxiedPair(served_glimpse(), served_glimpse()) {}
  ProxiedPair(std::shared_ptr<ServerProcess> one, std::shared_ptr<ServerProcess> other,
              std::vector<std::string> more = {})
      : a(std::move(one)),
        b(std::move(other)),
        proxy(proxy_for(url_of(a->port()) + "," + url_of(b->port()), std::move(more))) {}
  std::string usable(const ServerProcess& pd) const {
    return "saccade:proxy_server_usable{server=\"" + url_of(pd.port()) + "\"}";
  }
  std::shared_ptr<ServerProcess> a;
  std::shared_ptr<ServerProcess> b;
  std::unique_ptr<ServerProcess> proxy;
};

// Servers that nothing happens to: the proxy before them is each test's own.
class ProxyOfTwo : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    a_ = served_glimpse();
    b_ = served_glimpse();
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(a_->stop(), 0) << a_->log();
    EXPECT_EQ(b_->stop(), 0) << b_->log();
    a_.reset();
    b_.reset();
  }
  static ProxiedPair cluster_with(std::vector<std::string> more = {}) {
    return {a_, b_, std::move(more)};
  }
  static std::shared_ptr<ServerProcess> a_;
  static std::shared_ptr<ServerProcess> b_;
};
std::shared_ptr<ServerProcess> ProxyOfTwo::a_;
std::shared_ptr<ServerProcess> ProxyOfTwo::b_;

// `count` requests, several at once; what each was answered.
std::vector<RawAnswer> load(std::uint16_t port, int count, std::atomic<int>* done = nullptr) {
  std::atomic<int> next{0};
  std::vector<RawAnswer> answers(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = next++; i < count; i = next++) {
        answers[static_cast<std::size_t>(i)] =
            exchange(port, "POST", kChat, text_chat(fmt::format("Number {}.", i)));
        if (done != nullptr) ++*done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return answers;
}

// Requests of both servers that ended because their client had gone.
double aborted(const ProxiedPair& cluster) {
  double sum = 0;
  for (const auto& pd : {cluster.a, cluster.b}) {
    const std::string page = exchange(pd->port(), "GET", "/metrics", "").body;
    const std::size_t at = page.find("finished_reason=\"abort\"");
    if (at != std::string::npos)
      sum += std::strtod(page.c_str() + page.find("} ", at) + 2, nullptr);
  }
  return sum;
}

TEST_F(ProxyOfTwo, AnswersAreTheServersOwn) {
  const ProxiedPair cluster = cluster_with();
  for (const std::string& body : {text_chat("Hello."), chat_with_image(64), chat_with_image(448),
                                  text_chat("A \\u0022quote\\\".")}) {
    const std::string direct = text_or_error(exchange(cluster.a->port(), "POST", kChat, body));
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(text_or_error(exchange(cluster.proxy->port(), "POST", kChat, body)), direct);
  }
  const RawAnswer models = exchange(cluster.proxy->port(), "GET", "/v1/models", "");
  EXPECT_EQ(models.status, 200);
  EXPECT_NE(models.body.find("glimpse"), std::string::npos) << models.body;
  EXPECT_EQ(exchange(cluster.proxy->port(), "GET", "/health", "").status, 200);
  EXPECT_EQ(cluster.proxy->stop(), 0) << cluster.proxy->log();
}

TEST_F(ProxyOfTwo, BothServersWork) {
  const ProxiedPair cluster = cluster_with();
  for (const RawAnswer& answer : load(cluster.proxy->port(), 40)) EXPECT_EQ(answer.status, 200);
  for (const ServerProcess* pd : {cluster.a.get(), cluster.b.get()})
    EXPECT_GE(metric(cluster.proxy->port(),
                     "saccade:proxy_server_requests_total{server=\"" + url_of(pd->port()) + "\"}"),
              5);
}

TEST_F(ProxyOfTwo, EightMegabytesGoThrough) {
  const ProxiedPair cluster = cluster_with();
  const std::string body = chat_with_image(1600);  // noise: 7.7 MB, 10 MB as base64
  ASSERT_GT(body.size(), 8u << 20);
  const std::string direct = text_or_error(exchange(cluster.a->port(), "POST", kChat, body));
  EXPECT_EQ(text_or_error(exchange(cluster.proxy->port(), "POST", kChat, body)), direct);
  // The body is held once; the answer holds none of it.
  EXPECT_LT(cluster.proxy->peak_resident_bytes() - cluster.proxy->resident_bytes(),
            static_cast<std::int64_t>(4 * body.size()));
  EXPECT_TRUE(
      eventually([&] { return metric(cluster.proxy->port(), "saccade:proxy_held_bytes") == 0; }));
}

// An event is at the client before the server has made the next one, and when the server dies the
// client is told so in the stream.
TEST(Proxy, EventsComeOneByOneAndADeadServerEndsTheStream) {
  MockProcess mock(SACCADE_BINARY, {"--itl", "600000"});
  const auto proxy = proxy_for(mock.url());
  TcpSocket socket = TcpSocket::connect(proxy->port());
  const std::string body = text_chat("Hello.", R"(, "stream": true, "model": "mock")");
  ASSERT_TRUE(
      socket.send(fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                              "application/json\r\nContent-Length: {}\r\n\r\n{}",
                              kChat, body.size(), body)));
  const std::string head = socket.receive_until("\r\n\r\n", 60'000);
  EXPECT_NE(head.find("200"), std::string::npos) << head;
  EXPECT_NE(head.find("text/event-stream"), std::string::npos) << head;
  EXPECT_NE(socket.receive_until("\n\n", 60'000).find("data: "), std::string::npos);
  mock.signal(SIGKILL);
  const std::string rest = socket.receive_until("0\r\n\r\n", 60'000);
  EXPECT_NE(rest.find("BadGatewayError"), std::string::npos) << rest;
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
  EXPECT_TRUE(rest.ends_with("0\r\n\r\n"));
}

TEST(Proxy, AKilledServerCostsNoRequest) {
  const ProxiedPair cluster;
  std::atomic<int> done{0};
  auto answers =
      std::async(std::launch::async, [&] { return load(cluster.proxy->port(), 60, &done); });
  while (done < 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  cluster.a->signal(SIGKILL);
  for (const RawAnswer& answer : answers.get()) EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(
      eventually([&] { return metric(cluster.proxy->port(), cluster.usable(*cluster.a)) == 0; }));
  EXPECT_EQ(metric(cluster.proxy->port(), cluster.usable(*cluster.b)), 1);
  for (const RawAnswer& answer : load(cluster.proxy->port(), 5)) EXPECT_EQ(answer.status, 200);

  cluster.b->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const RawAnswer answer = exchange(cluster.proxy->port(), "POST", kChat, text_chat("Hello."));
    return answer.status == 503 && answer.head.find("Retry-After") != std::string::npos;
  }));
  EXPECT_EQ(exchange(cluster.proxy->port(), "GET", "/health", "").status, 503);
}

TEST(Proxy, AServerThatDrainsCostsNoRequest) {
  const ProxiedPair cluster;
  std::atomic<int> done{0};
  auto answers =
      std::async(std::launch::async, [&] { return load(cluster.proxy->port(), 60, &done); });
  while (done < 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(cluster.a->stop(), 0);
  for (const RawAnswer& answer : answers.get()) EXPECT_EQ(answer.status, 200) << answer.body;
}

// Names that nobody has yet, as a StatefulSet's that grows: they are passed over at once, whatever
// retries there may be.
TEST_F(ProxyOfTwo, WhoCannotBeReachedIsNoRetry) {
  std::string pds;
  for (int port = 1; port <= 12; ++port) pds += url_of(static_cast<std::uint16_t>(port)) + ",";
  for (int i = 0; i < 4; ++i) {
    const auto proxy = proxy_for(pds + url_of(a_->port()), {"--retries", "0"});
    const RawAnswer answer = exchange(proxy->port(), "POST", kChat, text_chat("Hello."));
    EXPECT_EQ(answer.status, 200) << i << ": " << answer.body;
    EXPECT_EQ(proxy->stop(), 0) << proxy->log();
  }
}

// When its time is over: streams get an error and their end, other answers a 503. The server makes
// one token in ten minutes: what is asked stays open.
TEST(Proxy, WhatIsCutIsTold) {
  MockProcess mock(SACCADE_BINARY, {"--itl", "600000"});
  const auto proxy = proxy_for(mock.url(), {"--drain-seconds", "8"});
  const std::uint16_t port = proxy->port();
  const auto begin = [&](const char* stream) {
    TcpSocket socket = TcpSocket::connect(port);
    const std::string body = fmt::format(
        R"({{"model": "mock", "stream": {}, "max_tokens": 900, "messages": [{{"role": "user", "content": "Go on."}}]}})",
        stream);
    socket.send(
        fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                    "application/json\r\nContent-Length: {}\r\n\r\n{}",
                    kChat, body.size(), body));
    return socket;
  };
  TcpSocket stream = begin("true");
  EXPECT_NE(stream.receive_until("\n\n", 60'000).find("data: "), std::string::npos);
  TcpSocket whole = begin("false");
  EXPECT_TRUE(eventually([&] { return metric(port, "saccade:proxy_requests_total") >= 2; }));
  auto told = std::async(std::launch::async,
                         [&] { return std::pair(stream.receive_all(), whole.receive_all()); });
  proxy->signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return exchange(port, "GET", "/health", "").status == 503; }));
  EXPECT_EQ(exchange(port, "POST", kChat, text_chat("Hello.")).status, 503);
  EXPECT_EQ(proxy->wait(), 0) << proxy->log();
  const auto [events, answer] = told.get();
  EXPECT_EQ(events.find("[DONE]"), std::string::npos) << events;
  EXPECT_NE(events.find("the time for running answers is over"), std::string::npos) << events;
  EXPECT_TRUE(events.ends_with("0\r\n\r\n")) << events;
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
}

// A page of another's name (DNS rebinding), and bodies whose ends two readers see in different
// places, get no further.
TEST(Proxy, NamesAndTransferEncodingsThatNobodyKnowsAreRefused) {
  MockProcess mock(SACCADE_BINARY, {});
  const auto status = [](std::uint16_t port, const std::string& head) {
    TcpSocket socket = TcpSocket::connect(port);
    socket.send(head + "\r\nConnection: close\r\n\r\n");
    return socket.receive_all().substr(9, 3);
  };
  const std::string models = "GET /v1/models HTTP/1.1\r\nHost: ";
  const std::string body = "POST " + std::string(kChat) + " HTTP/1.1\r\nHost: localhost";
  const auto proxy = proxy_for(mock.url(), {});
  EXPECT_EQ(status(proxy->port(), models + "localhost"), "200");
  EXPECT_EQ(status(proxy->port(), models + "evil.example"), "403");
  EXPECT_EQ(status(proxy->port(), body + "\r\nTransfer-Encoding: cow"), "501");
  EXPECT_EQ(status(proxy->port(), body + "\r\nTransfer-Encoding: chunked, chunked"), "400");
  const auto named = proxy_for(mock.url(), {"--allowed-hosts", "api.example"});
  EXPECT_EQ(status(named->port(), models + "api.example"), "200");
  EXPECT_EQ(status(named->port(), models + "evil.example"), "403");
}

// The proxy's own drain: what runs ends well, nothing new begins.
TEST_F(ProxyOfTwo, DrainsItself) {
  const ProxiedPair cluster = cluster_with();
  std::vector<std::future<RawAnswer>> running;
  for (int i = 0; i < 4; ++i)
    running.push_back(std::async(std::launch::async, [&, i] {
      return exchange(cluster.proxy->port(), "POST", kChat,
                      text_chat(fmt::format("Number {}.", i), R"(, "stream": true)"));
    }));
  EXPECT_TRUE(eventually(
      [&] { return metric(cluster.proxy->port(), "saccade:proxy_requests_total") >= 4; }));
  EXPECT_EQ(cluster.proxy->stop(), 0) << cluster.proxy->log();
  for (auto& each : running) {
    const RawAnswer answer = each.get();
    EXPECT_EQ(answer.status, 200);
    EXPECT_NE(answer.body.find("[DONE]"), std::string::npos) << answer.body;
  }
}

TEST_F(ProxyOfTwo, AClientThatLeavesIsGoneAtTheServer) {
  const ProxiedPair cluster = cluster_with();
  const double before = aborted(cluster);
  TcpSocket socket = TcpSocket::connect(cluster.proxy->port());
  // So much to say that it is still at it when the client has left.
  const std::string body =
      R"({"stream": true, "ignore_eos": true, "n": 64, "max_tokens": 900, "messages": [{"role": "user", "content": "Go on."}]})";
  socket.send(fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
                          kChat, body.size(), body));
  EXPECT_NE(socket.receive_until("\n\n", 60'000).find("data: "), std::string::npos);
  socket.close();
  EXPECT_TRUE(eventually([&] { return aborted(cluster) > before; }));
  EXPECT_EQ(metric(cluster.proxy->port(), "saccade:proxy_clients_left_total"), 1);
}

TEST_F(ProxyOfTwo, WhatIsWrongIsAnsweredAndNothingEnds) {
  const ProxiedPair cluster = cluster_with({"--max-body-mib", "1"});
  const std::uint16_t port = cluster.proxy->port();
  for (const std::string& body :
       {std::string("not json"), std::string("{"), std::string(100'000, '['), std::string("\"\\u"),
        std::string("{\"messages\": \"\xff\xfe\"}"), std::string(1, '\0'), std::string("[]")})
    EXPECT_EQ(exchange(port, "POST", kChat, body).status, 400) << body.substr(0, 20);
  EXPECT_EQ(exchange(port, "POST", kChat, "").status, 400);
  EXPECT_EQ(exchange(port, "POST", kChat, std::string((1u << 20) + 1, 'x')).status, 413);
  EXPECT_EQ(exchange(port, "GET", "/nowhere", "").status, 404);
  EXPECT_EQ(exchange(port, "GET", kChat, "").status, 405);
  // Headers of this hop are not the next one's business, nor are two lengths.
  EXPECT_EQ(text_or_error(exchange(port, "POST", kChat, text_chat("Hello."), -1,
                                   "Connection: x-secret\r\nX-Secret: 1\r\nTE: trailers\r\n")),
            text_or_error(exchange(cluster.a->port(), "POST", kChat, text_chat("Hello."))));
  TcpSocket garbage = TcpSocket::connect(port);
  garbage.send("\x16\x03\x01 no HTTP at all\r\n\r\n");
  EXPECT_NE(garbage.receive().find("400"), std::string::npos);
  EXPECT_EQ(exchange(port, "POST", kChat, text_chat("Hello.")).status, 200);
  EXPECT_EQ(cluster.proxy->stop(), 0) << cluster.proxy->log();
}

TEST(Proxy, KeysOfClientsAndOfServers) {
  const ServerProcess server(SACCADE_BINARY, {"serve", kGlimpse, "--api-key", "inner"});
  const auto proxy =
      proxy_for(url_of(server.port()), {"--api-key", "outer", "--pd-api-key", "inner"});
  const auto status = [&](const std::string& header) {
    return exchange(proxy->port(), "POST", kChat, text_chat("Hello."), -1, header).status;
  };
  EXPECT_EQ(status(""), 401);
  EXPECT_EQ(status("Authorization: Bearer inner\r\n"), 401);
  EXPECT_EQ(status("Authorization: Bearer outer\r\n"), 200);
  EXPECT_EQ(exchange(proxy->port(), "GET", "/v1/models", "").status, 401);
  EXPECT_EQ(exchange(proxy->port(), "GET", "/health", "").status, 200);
}

TEST(Proxy, AnyServerOfTheApiWillDo) {
  MockProcess mock(SACCADE_BINARY);
  const auto proxy = proxy_for(mock.url());
  const RawAnswer answer = exchange(proxy->port(), "POST", kChat, text_chat("Hello."));
  EXPECT_EQ(answer.status, 200) << answer.body;
  const CommandOutcome no_server = run_command(SACCADE_BINARY, {"proxy", "--port", "0"});
  EXPECT_NE(no_server.exit_code, 0);
  const CommandOutcome bad =
      run_command(SACCADE_BINARY, {"proxy", "--pd", "ftp://x", "--port", "0"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_NE((bad.out + bad.err).find("--pd"), std::string::npos);
}

}  // namespace
}  // namespace saccade::test
