// SIGTERM and SIGINT: the first lets a server end in order, the second at once.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/e2e/checkpoints.h"
#include "tests/e2e/serve_requests.h"
#include "tests/support/occurrences.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"

namespace saccade::test {
namespace {

// So many answers at once that the stream is still running when a test has looked at what runs: a
// second and more where nothing else runs, longer where there does.
std::string long_stream(int answers) {
  return R"({"prompt": "x", "max_tokens": 1500, "ignore_eos": true, "stream": true, "n": )" +
         std::to_string(answers) + "}";
}

// A stream that has begun.
TcpSocket begin_stream(std::uint16_t port, int answers) {
  const std::string body = long_stream(answers);
  TcpSocket socket = TcpSocket::connect(port);
  socket.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_NE(socket.receive_until("data: ").find(" 200 "), std::string::npos);
  return socket;
}

void await(const ServerProcess& server, const std::string& words) {
  for (int i = 0; i < 6000 && count(server.log(), words) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(count(server.log(), words), 1u) << server.log();
}

class Signals : public ::testing::TestWithParam<int> {};

TEST_P(Signals, TheFirstDrains) {
  ServerProcess server(SACCADE_BINARY, serve({"--drain-seconds", "600"}));
  TcpSocket stream = begin_stream(server.port(), 6);
  server.signal(GetParam());
  await(server, "shutting down: 1 answers are running");
  // Whoever asks is told, and new work is refused; both on new connections.
  EXPECT_EQ(exchange(server.port(), "GET", "/health", "").status, 503);
  const RawAnswer refused =
      exchange(server.port(), "POST", "/v1/completions", R"({"prompt": "a"})");
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_NE(refused.body.find("shutting down"), std::string::npos) << refused.body;
  EXPECT_NE(stream.receive_all().find("data: [DONE]"), std::string::npos);
  EXPECT_EQ(server.wait(), 0) << server.log();
}

TEST_P(Signals, TheSecondEndsAtOnce) {
  ServerProcess server(SACCADE_BINARY, serve({"--drain-seconds", "600"}));
  TcpSocket stream = begin_stream(server.port(), 128);
  server.signal(GetParam());
  await(server, "shutting down");
  const auto before = std::chrono::steady_clock::now();
  server.signal(GetParam());
  EXPECT_EQ(server.wait(), 128 + GetParam());
  EXPECT_LT(std::chrono::steady_clock::now() - before,
            std::chrono::seconds(60));  // draining may take ten minutes
  EXPECT_EQ(stream.receive_all().find("data: [DONE]"), std::string::npos);
}

TEST_P(Signals, AnIdleServerEndsWithNothingToCut) {
  ServerProcess server(SACCADE_BINARY, serve({}));
  server.signal(GetParam());
  EXPECT_EQ(server.wait(), 0) << server.log();
  EXPECT_EQ(count(server.log(), "were cut"), 0u) << server.log();
}

INSTANTIATE_TEST_SUITE_P(TerminateAndInterrupt, Signals, ::testing::Values(SIGTERM, SIGINT));

TEST(Draining, HasAnEnd) {
  ServerProcess server(SACCADE_BINARY, serve({"--drain-seconds", "0"}));
  TcpSocket stream = begin_stream(server.port(), 64);
  const std::string before = stream.receive_until("\n\n");
  EXPECT_EQ(server.stop(), 0) << server.log();
  EXPECT_EQ(count(server.log(), "1 answers were cut"), 1u) << server.log();
  // It is told, in the words of its stream, and the stream ends as streams do.
  const std::string rest = stream.receive_all();
  EXPECT_NE(rest.find("data: {\"error\""), std::string::npos) << before << rest;
  EXPECT_NE(rest.find("the time for running answers is over"), std::string::npos) << rest;
  EXPECT_TRUE(rest.ends_with("0\r\n\r\n")) << rest;
}

}  // namespace
}  // namespace saccade::test
