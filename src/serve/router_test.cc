// Whatever a handler runs into is that request's alone: the next ones are answered.
#include "serve/router.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "base/json.h"
#include "tests/support/tcp_socket.h"

namespace saccade::serve {
namespace {

using test::TcpSocket;

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    settings_.served_model_name = {"tiny"};
    settings_.quantization = "int8";
    router_ = std::make_unique<Router>(settings_, clock_);
    const auto work = [&](std::string_view path, Router::JsonHandler handler) {
      router_->add_json("POST", path, true, std::move(handler));
    };
    work("/memory", [](const net::HttpRequest&) -> Result<std::string> { throw std::bad_alloc(); });
    work("/bug", [](const net::HttpRequest&) -> Result<std::string> {
      throw std::length_error("vector::_M_default_append");
    });
    work("/fine", [](const net::HttpRequest&) -> Result<std::string> { return "{}"; });
    router_->add_info_routes({.max_model_len = 512, .max_running = 4},
                             [] { return api::ServerLoad{2, 3, 0.5}; });
    net::HttpServerSettings http;
    http.port = 0;
    server_ = *net::HttpServer::listen(http, [this](net::HttpRequest request, net::Responder to) {
      router_->handle(std::move(request), std::move(to));
    });
  }

  std::string ask(const std::string& method, const std::string& path) {
    TcpSocket socket = TcpSocket::connect(server_->port());
    EXPECT_TRUE(socket.send(method + " " + path +
                            " HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\n"
                            "\r\n{}"));
    return socket.receive_all();
  }

  ServeSettings settings_;
  SteadyClock clock_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<net::HttpServer> server_;  // goes first
};

TEST_F(RouterTest, ExceptionsEndAtTheirRequest) {
  for (int i = 0; i < 3; ++i) {
    const std::string memory = ask("POST", "/memory");
    EXPECT_NE(memory.find("HTTP/1.1 503"), std::string::npos) << memory;
    EXPECT_NE(memory.find("memory"), std::string::npos) << memory;
    EXPECT_NE(memory.find("Retry-After"), std::string::npos) << memory;
    const std::string bug = ask("POST", "/bug");
    EXPECT_NE(bug.find("HTTP/1.1 500"), std::string::npos) << bug;
    EXPECT_EQ(bug.find("vector"), std::string::npos) << bug;
    EXPECT_NE(ask("POST", "/fine").find("HTTP/1.1 200"), std::string::npos);
  }
}

TEST_F(RouterTest, SaysOfItselfWhatRoutersInFrontAsk) {
  const auto body = [&](const std::string& path) {
    const std::string answer = ask("GET", path);
    EXPECT_NE(answer.find("HTTP/1.1 200"), std::string::npos) << answer;
    return json::parse(answer.substr(answer.find("\r\n\r\n") + 4)).value();
  };
  for (const char* path : {"/server_info", "/get_server_info", "/model_info", "/get_model_info"}) {
    const json::value info = body(path);
    EXPECT_EQ(info.at("served_model_name").as_string(), "tiny") << path;
    EXPECT_EQ(info.at("max_model_len").as_int64(), 512) << path;
    EXPECT_TRUE(info.at("is_generation").as_bool()) << path;
  }
  EXPECT_EQ(body("/server_info").at("quantization").as_string(), "int8");
  const json::value loads = body("/v1/loads");
  EXPECT_EQ(loads.at("aggregate").at("num_waiting_reqs").as_int64(), 3);
  EXPECT_EQ(loads.at("loads").as_array().at(0).at("num_running_reqs").as_int64(), 2);
}

}  // namespace
}  // namespace saccade::serve
