// What the tests of the HTTP server share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "net/server/http_server.h"
#include "tests/support/tcp_socket.h"

namespace saccade::net {

using namespace std::chrono_literals;
using saccade::test::TcpSocket;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

inline HttpServerSettings on_free_port() {
  HttpServerSettings settings;
  settings.port = 0;
  return settings;
}

inline std::unique_ptr<HttpServer> serve(HttpHandler handler,
                                         const HttpServerSettings& settings = on_free_port()) {
  auto server = HttpServer::listen(settings, std::move(handler));
  EXPECT_TRUE(server) << server.error().message;
  return *std::move(server);
}

// Answers "METHOD path body".
inline void echo(const HttpRequest& request, const Responder& responder) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = request.method + " " + request.path + " " + request.body;
  responder.respond(std::move(response));
}

inline std::string receive_answer(TcpSocket& socket) {
  std::string head = socket.receive_until("\r\n\r\n");
  const std::size_t at = head.find("Content-Length: ");
  if (at == std::string::npos) return head;
  return head + socket.receive_bytes(std::stoul(head.substr(at + 16)));
}

template <typename Condition>
bool eventually(Condition&& condition, std::chrono::milliseconds limit = 60s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

}  // namespace saccade::net
