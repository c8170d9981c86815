// Images that do not come hold up those who asked for them, and nobody else.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"

namespace saccade::test {
namespace {

constexpr int kSlowImages = 64;

std::string chat_with(const std::string& parts) {
  return R"({"max_tokens": 1, "messages": [{"role": "user", "content": [)" + parts +
         R"({"type": "text", "text": "?"}]}]})";
}

std::string images_of(const TcpListener& host) {
  std::string parts;
  for (int i = 0; i < kSlowImages; ++i)
    parts += R"({"type": "image_url", "image_url": {"url": "http://127.0.0.1:)" +
             std::to_string(host.port()) + "/" + std::to_string(i) + R"(.png"}},)";
  return parts;
}

// Takes connections and answers none.
class SilentHost {
 public:
  // Waits until all images of a request have been asked for: none waits for another.
  void expect_everything() {
    for (int i = 0; i < kSlowImages; ++i) {
      connections_.push_back(listener_.accept(60'000));
      ASSERT_TRUE(connections_.back().valid()) << "only " << i << " connections";
    }
  }
  void hang_up() {
    listener_.close();
    connections_.clear();
  }
  const TcpListener& listener() const { return listener_; }

 private:
  TcpListener listener_;
  std::vector<TcpSocket> connections_;
};

TEST(SlowMedia, TextIsAnsweredWhileImageHostsStall) {
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kCheckpoint, "--allowed-media-domains",
                                        "127.0.0.1", "--allow-private-media-addresses",
                                        "--media-timeout", "3600", "--worker-threads", "1"});
  std::array<SilentHost, 2> hosts;
  std::array<RawAnswer, 2> stalled;
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    clients.emplace_back([&, i] {
      stalled[i] = exchange(server.port(), "POST", "/v1/chat/completions",
                            chat_with(images_of(hosts[i].listener())));
    });
  }
  for (SilentHost& host : hosts) host.expect_everything();
  // With the only worker held, none of these would come before the hour is over.
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(exchange(server.port(), "POST", "/v1/chat/completions", chat_with("")).status, 200);
  for (SilentHost& host : hosts) host.hang_up();
  for (std::thread& client : clients) client.join();
  for (const RawAnswer& answer : stalled) {
    EXPECT_EQ(answer.status, 422) << answer.body;
    EXPECT_NE(answer.body.find("cannot be fetched"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(SlowMedia, AClientThatLeavesTakesItsTransfersAlong) {
  ServerProcess server(SACCADE_BINARY,
                       {"serve", "--model", kCheckpoint, "--allowed-media-domains", "127.0.0.1",
                        "--allow-private-media-addresses", "--media-timeout", "3600"});
  TcpListener host;
  const std::string body = chat_with(images_of(host));
  TcpSocket client = TcpSocket::connect(server.port());
  ASSERT_TRUE(
      client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body));
  std::vector<TcpSocket> connections;
  for (int i = 0; i < kSlowImages; ++i) {
    connections.push_back(host.accept(60'000));
    ASSERT_TRUE(connections.back().valid());
  }
  client.close();
  for (TcpSocket& connection : connections) {
    connection.receive_until("\r\n\r\n");
    EXPECT_TRUE(connection.at_end(60'000));
  }
  EXPECT_EQ(server.stop(), 0) << server.log();
}

}  // namespace
}  // namespace saccade::test
