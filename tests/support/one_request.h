// For the tests of the HTTP client: a server, a client, and one request waited for.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "net/client/http_client.h"
#include "net/server/http_server.h"

namespace saccade::net {

inline std::unique_ptr<HttpServer> serve_on_any_port(HttpHandler handler,
                                                     HttpServerSettings settings = {}) {
  settings.port = 0;
  auto server = HttpServer::listen(settings, std::move(handler));
  EXPECT_TRUE(server) << server.error().message;
  return *std::move(server);
}

inline std::unique_ptr<HttpClient> make_client(const HttpClientSettings& settings = {}) {
  auto client = HttpClient::create(settings);
  EXPECT_TRUE(client) << client.error().message;
  return *std::move(client);
}

inline ClientRequest request_to(std::uint16_t port, const std::string& path = "/",
                                std::vector<std::string> body = {}) {
  ClientRequest request;
  request.url = parse_url("http://127.0.0.1:" + std::to_string(port) + path).value();
  for (std::string& part : body) {
    request.body.push_back(std::make_shared<const std::string>(std::move(part)));
  }
  return request;
}

// Waits for the end; the failure stays in the response.
inline ClientResponse run(HttpClient& client, ClientRequest request,
                          std::function<bool(std::string_view, Nanos)> on_body = nullptr) {
  std::promise<ClientResponse> promise;
  ClientHandlers handlers;
  handlers.on_body = std::move(on_body);
  handlers.on_done = [&](ClientResponse response) { promise.set_value(std::move(response)); };
  client.start(std::move(request), std::move(handlers));
  return promise.get_future().get();
}

inline void echo_target(const HttpRequest& request, const Responder& responder) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.headers.emplace_back("X-Seen", request.header("x-mine"));
  response.body = request.method + " " + request.target + " " + request.body;
  responder.respond(std::move(response));
}

}  // namespace saccade::net
