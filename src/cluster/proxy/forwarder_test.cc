#include "cluster/proxy/forwarder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>

#include "api/pages/draining.h"
#include "net/server/http_server.h"
#include "net/server/local_request.h"

namespace saccade::cluster {
namespace {

constexpr auto kReport = std::chrono::seconds(30);
constexpr auto kAnswer = std::chrono::seconds(90);

// What the registry's figures are: of its thread, which at that moment reports the servers that it
// has found. Held under the lock of the servers' table, each would wait for the other.
TEST(Forwarder, FiguresOfARegistryThatReportsServersMeanwhile) {
  ProxySettings settings;
  settings.pds = {"http://127.0.0.1:1"};
  auto forwarder = Forwarder::create(settings);
  ASSERT_TRUE(forwarder) << forwarder.error().message;
  std::future<void> reported;  // out here: its end waits for the report
  (*forwarder)->add_metrics([&] {
    reported = std::async(std::launch::async, [&] {
      (*forwarder)->found({"http://127.0.0.1:2", "http://127.0.0.1:3"});
    });
    // Without the report the page is made all the same: a fault is a failure, and no hang.
    const bool in_time = reported.wait_for(kReport) == std::future_status::ready;
    return std::string(in_time ? "reported 1\n" : "reported 0\n");
  });
  std::promise<net::HttpResponse> answer;
  const net::LocalRequest request(
      [&](net::HttpResponse made) { answer.set_value(std::move(made)); });
  net::HttpRequest page;
  page.method = "GET";
  page.target = page.path = "/metrics";
  (*forwarder)->handle(std::move(page), request.responder());
  auto made = answer.get_future();
  ASSERT_EQ(made.wait_for(kAnswer), std::future_status::ready);
  const net::HttpResponse response = made.get();
  EXPECT_EQ(response.status, 200);
  EXPECT_NE(response.body.find("reported 1\n"), std::string::npos) << response.body;
  EXPECT_NE(response.body.find("server=\"http://127.0.0.1:3\""), std::string::npos)
      << response.body;
}

// A rolling restart: what a server that ends refuses goes to the next, and is no retry.
TEST(Forwarder, WhatAServerThatEndsRefusesGoesToAnother) {
  net::HttpServerSettings http;
  http.port = 0;
  std::atomic<int> refused{0};
  const auto ends =
      net::HttpServer::listen(http, [&](const net::HttpRequest&, const net::Responder& to) {
        ++refused;
        to.respond({503, "application/json", "{}", {{std::string(api::kDrainingHeader), "1"}}});
      });
  const auto goes_on =
      net::HttpServer::listen(http, [](const net::HttpRequest&, const net::Responder& to) {
        to.respond({200, "application/json", "{}", {}});
      });
  ASSERT_TRUE(ends && goes_on);
  ProxySettings settings;
  settings.max_retries = 0;
  for (const auto* const server : {&ends, &goes_on})
    settings.pds.push_back(fmt::format("http://127.0.0.1:{}", (**server)->port()));
  auto forwarder = Forwarder::create(settings);
  ASSERT_TRUE(forwarder) << forwarder.error().message;
  for (int i = 0; i < 4; ++i) {
    std::promise<net::HttpResponse> answer;
    const net::LocalRequest request(
        [&](net::HttpResponse made) { answer.set_value(std::move(made)); });
    net::HttpRequest asked;
    asked.method = "GET";
    asked.target = asked.path = "/v1/models";
    (*forwarder)->handle(std::move(asked), request.responder());
    auto made = answer.get_future();
    ASSERT_EQ(made.wait_for(kAnswer), std::future_status::ready);
    EXPECT_EQ(made.get().status, 200) << i;
  }
  EXPECT_GE(refused, 1) << "nobody was asked who ends";
}

// As whoever goes through an HTTP proxy asks: a server gets the path.
TEST(Forwarder, ATargetWithAHostGoesOnAsItsPath) {
  net::HttpServerSettings http;
  http.port = 0;
  const auto server =
      net::HttpServer::listen(http, [](const net::HttpRequest& request, const net::Responder& to) {
        to.respond({200, "text/plain", request.target, {}});
      });
  ASSERT_TRUE(server) << server.error().message;
  ProxySettings settings;
  settings.pds = {fmt::format("http://127.0.0.1:{}/under", (*server)->port())};
  auto forwarder = Forwarder::create(settings);
  ASSERT_TRUE(forwarder) << forwarder.error().message;
  std::promise<net::HttpResponse> answer;
  const net::LocalRequest request(
      [&](net::HttpResponse made) { answer.set_value(std::move(made)); });
  net::HttpRequest asked;
  asked.method = "GET";
  asked.target = "http://localhost:8000/v1/models?a=b";
  asked.path = "/v1/models";
  (*forwarder)->handle(std::move(asked), request.responder());
  auto made = answer.get_future();
  ASSERT_EQ(made.wait_for(kAnswer), std::future_status::ready);
  EXPECT_EQ(made.get().body, "/under/v1/models?a=b");
}

}  // namespace
}  // namespace saccade::cluster
