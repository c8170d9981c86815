// Whatever a handler runs into is that request's alone: the next ones are answered.
#include "serve/router.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "base/text/base64.h"
#include "serve/handlers/page_bytes.h"
#include "serve/handlers/playground.h"
#include "tests/support/tcp_socket.h"

namespace saccade::serve {
namespace {

using test::TcpSocket;

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    settings_.served_model_name = {"tiny"};
    settings_.quantization = "int8";
    settings_.kv_dtype = DType::kE4m3;
    settings_.kept_image_bytes = 5 << 20;
    settings_.tensor_parallel = 2;
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
    EXPECT_TRUE(
        socket.send(method + " " + path +
                    " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n"
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

TEST_F(RouterTest, WhatIsAskedForAndNotThereIsNamed) {
  router_->add_status_routes([] {
    api::ModelCard card;
    card.id = "tiny";
    return std::vector<api::ModelCard>{card};
  });
  EXPECT_NE(ask("GET", "/v1/models/").find("\"object\":\"list\""), std::string::npos)
      << ask("GET", "/v1/models/");
  EXPECT_NE(ask("GET", "/v1/models/tiny").find("HTTP/1.1 200"), std::string::npos);
  const std::string absent = ask("GET", "/v1/models/large");
  EXPECT_NE(absent.find("HTTP/1.1 404"), std::string::npos) << absent;
  EXPECT_NE(absent.find("The model `large` does not exist. This server answers to `tiny`"),
            std::string::npos)
      << absent;
  TcpSocket socket = TcpSocket::connect(server_->port());
  EXPECT_TRUE(
      socket.send("POST /fine HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
                  "Content-Length: 2\r\nConnection: close\r\n\r\n\x1f\x8b"));
  const std::string packed = socket.receive_all();
  EXPECT_NE(packed.find("HTTP/1.1 415"), std::string::npos) << packed;
  EXPECT_NE(packed.find("Content-Encoding 'gzip'"), std::string::npos) << packed;
  TcpSocket form = TcpSocket::connect(server_->port());
  EXPECT_TRUE(
      form.send("POST /fine HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Type: multipart/form-data; boundary=x\r\n"
                "Content-Length: 5\r\nConnection: close\r\n\r\n--x--"));
  const std::string parts = form.receive_all();
  EXPECT_NE(parts.find("HTTP/1.1 415"), std::string::npos) << parts;
  EXPECT_NE(parts.find("Content-Type 'multipart/form-data'"), std::string::npos) << parts;
}

// A page whose name was given this machine's address asks so, by GET without an Origin.
TEST_F(RouterTest, ANameInHostThatNobodyGaveIsRefused) {
  router_->add_status_routes([] { return std::vector<api::ModelCard>{}; });
  const auto status = [&](const std::string& path, const std::string& host) {
    TcpSocket socket = TcpSocket::connect(server_->port());
    EXPECT_TRUE(socket.send("GET " + path + " HTTP/1.1\r\nHost: " + host +
                            "\r\nConnection: close\r\n\r\n"));
    return socket.receive_all().substr(9, 3);
  };
  for (const char* const path : {"/server_info", "/v1/models", "/load"}) {
    EXPECT_EQ(status(path, "evil.example:8000"), "403") << path;
    EXPECT_EQ(status(path, "localhost:80@evil.example"), "403") << path;
    // As whoever goes through an HTTP proxy asks: the target's host counts, not the header's.
    EXPECT_EQ(status("http://evil.example:8000" + std::string(path), "localhost"), "403") << path;
    EXPECT_EQ(status("http://localhost:8000" + std::string(path), "evil.example"), "200") << path;
    EXPECT_EQ(status(path, "localhost:"), "200") << path;
    EXPECT_EQ(status(path, "localhost:8000"), "200") << path;
    EXPECT_EQ(status(path, "10.0.0.1"), "200") << path;
  }
  EXPECT_EQ(status("/version", "evil.example"), "200") << "needs no key where there are keys";
  settings_.allowed_hosts = {"api.example"};
  EXPECT_EQ(status("/load", "API.example:8000"), "200");
  EXPECT_EQ(status("/load", "evil.example"), "403");
  settings_.host = "evil.example";
  EXPECT_EQ(status("/load", "evil.example"), "200") << "what it listens as";
}

TEST_F(RouterTest, ThePageIsServedAtTheRootAlone) {
  if (page_html().empty()) GTEST_SKIP() << "built without npm";
  EXPECT_NE(ask("GET", "/").find("HTTP/1.1 404"), std::string::npos);
  add_playground(*router_);
  const std::string page = ask("GET", "/");
  EXPECT_NE(page.find("HTTP/1.1 200"), std::string::npos) << page.substr(0, 500);
  EXPECT_NE(page.find("<title>Saccade</title>"), std::string::npos);
  const std::string head = page.substr(0, page.find("\r\n\r\n"));
  for (const char* words :
       {"Content-Type: text/html", "default-src 'none'; script-src 'sha256-", "style-src 'sha256-",
        "connect-src 'self'", "frame-ancestors 'none'", "X-Content-Type-Options: nosniff"})
    EXPECT_NE(head.find(words), std::string::npos) << words << " in " << head;
  EXPECT_EQ(head.find("unsafe"), std::string::npos) << head;
  // It is no route for what lies below it, and no part of the API's description.
  EXPECT_NE(ask("GET", "/nothing").find("there is no /nothing"), std::string::npos);
  const std::string refusal = ask("POST", "/");
  EXPECT_NE(refusal.find("HTTP/1.1 405"), std::string::npos);
  EXPECT_NE(refusal.find("Allow: GET, HEAD\r\n"), std::string::npos) << refusal;
  EXPECT_EQ(ask("GET", "/openapi.json").find("\"/{id}\""), std::string::npos);
}

// What a browser holds against the policy, held against it here: a hash that is not the script's
// would leave the page dead.
TEST_F(RouterTest, ThePolicyIsOfThePagesOwnScriptAndStyle) {
  if (page_html().empty()) GTEST_SKIP() << "built without npm";
  const std::string html(page_html());
  const auto between = [&](const std::string& tag) {
    const std::size_t begin = html.find("<" + tag + ">") + tag.size() + 2;
    return html.substr(begin, html.find("</" + tag + ">", begin) - begin);
  };
  for (const char* tag : {"script", "style"}) {
    const Digest digest = sha256(between(tag));
    const std::string hash =
        base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
    EXPECT_NE(page_policy().find(std::string(tag) + "-src 'sha256-" + hash + "'"),
              std::string::npos)
        << tag << " " << hash;
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
  EXPECT_EQ(body("/server_info").at("tp_size").as_int64(), 2);
  EXPECT_EQ(body("/server_info").at("quantization").as_string(), "int8");
  EXPECT_EQ(body("/server_info").at("kv_cache_dtype").as_string(), "fp8");
  EXPECT_EQ(body("/server_info").at("mm_uuid_cache_bytes").as_int64(), 5 << 20);
  EXPECT_FALSE(body("/server_info").at("enable_mm_embeds").as_bool());
  EXPECT_EQ(body("/load").at("server_load").as_int64(), 5);
  const json::value loads = body("/v1/loads");
  EXPECT_EQ(loads.at("aggregate").at("num_waiting_reqs").as_int64(), 3);
  EXPECT_EQ(loads.at("loads").as_array().at(0).at("num_running_reqs").as_int64(), 2);
}

// Before a byte of the body: without a key nothing is held for it.
TEST_F(RouterTest, TheKeyIsAskedForAtTheHeader) {
  ServeSettings settings = settings_;
  settings.api_keys = {"secret"};
  Router router(settings, clock_);
  router.add_json("POST", "/work", true,
                  [](const net::HttpRequest&) -> Result<std::string> { return "{}"; });
  net::HttpRequest head;
  head.method = "POST";
  head.target = head.path = "/work";
  for (const char* key : {"", "Bearer wrong", "Bearer secret"}) {
    head.headers = {{"authorization", key}};
    const net::HttpAdmission admitted = router.admit(head, 60 << 20);
    const bool right = std::string_view(key) == "Bearer secret";
    EXPECT_EQ(admitted.refusal.has_value(), !right) << key;
    if (admitted.refusal) {
      EXPECT_EQ(admitted.refusal->status, 401);
    }
    EXPECT_EQ(router.held_bytes().used(), right ? std::size_t{60} << 20 : 0) << key;
  }
}

// Long bodies hold workers for long: one of them is always there for short ones.
TEST_F(RouterTest, LongBodiesDoNotHoldUpShortOnes) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> waiting = 0;
  router_->add_json("POST", "/wait", true, [&](const net::HttpRequest&) -> Result<std::string> {
    ++waiting;
    released.wait();
    return "{}";
  });
  const std::string body = "\"" + std::string(100'000, 'x') + "\"";
  std::vector<TcpSocket> sockets;
  for (int i = 0; i < 2 * settings_.worker_threads; ++i) {
    sockets.push_back(TcpSocket::connect(server_->port()));
    EXPECT_TRUE(
        sockets.back().send("POST /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                            "Content-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body));
  }
  for (int i = 0; i < 6000 && waiting < settings_.worker_threads - 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (int i = 0; i < 3; ++i)
    EXPECT_NE(ask("POST", "/fine").find("HTTP/1.1 200"), std::string::npos) << i;
  EXPECT_GE(waiting, 1);
  release.set_value();
  for (TcpSocket& socket : sockets)
    EXPECT_NE(socket.receive_all().find("HTTP/1.1 200"), std::string::npos);
}

TEST_F(RouterTest, PathsHaveSegments) {
  EXPECT_EQ(segment_of("/v1/x/{id}", "/v1/x/abc"), "abc");
  EXPECT_EQ(segment_of("/v1/x/{id}/items", "/v1/x/abc/items"), "abc");
  for (const char* path : {"/v1/x/", "/v1/x", "/v1/x/a/b", "/v1/y/abc", "/v1/x/abc/items", ""})
    EXPECT_EQ(segment_of("/v1/x/{id}", path), "") << path;
  EXPECT_EQ(segment_of("/v1/x/{id}/items", "/v1/x//items"), "");
  EXPECT_EQ(segment_of("/v1/x", "/v1/x"), "");
}

TEST_F(RouterTest, DescribesItsRoutes) {
  router_->add_status_routes([] { return std::vector<api::ModelCard>(); });
  const std::string answer = ask("GET", "/openapi.json");
  ASSERT_NE(answer.find("HTTP/1.1 200"), std::string::npos) << answer.substr(0, 300);
  const json::value document = json::parse(answer.substr(answer.find("\r\n\r\n") + 4)).value();
  const json::object& paths = document.at("paths").as_object();
  for (const char* path : {"/fine", "/bug", "/load", "/v1/models/{id}", "/openapi.json"})
    EXPECT_TRUE(paths.contains(path)) << path;
  EXPECT_TRUE(paths.at("/ping").as_object().contains("post"));
  // Without keys nothing is demanded.
  for (const auto& [path, methods] : paths)
    for (const auto& [method, operation] : methods.as_object())
      EXPECT_FALSE(operation.as_object().contains("security")) << path;
}

}  // namespace
}  // namespace saccade::serve
