#include "cluster/proxy/forwarder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>

#include "net/local_request.h"

namespace saccade::cluster {
namespace {

constexpr auto kReport = std::chrono::seconds(5);
constexpr auto kAnswer = std::chrono::seconds(20);

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

}  // namespace
}  // namespace saccade::cluster
