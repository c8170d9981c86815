#include "net/client/http_proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/support/certificate.h"
#include "tests/support/one_request.h"
#include "tests/support/tcp_socket.h"

namespace saccade::net {
namespace {

using ::testing::HasSubstr;

TEST(HttpProxy, ReadsUrls) {
  const auto read = [](const std::string& url) {
    const auto proxy = parse_http_proxy(url);
    return proxy ? proxy->name() + " " + proxy->authorization : proxy.error().message;
  };
  EXPECT_EQ(read("http://proxy.example:3128"), "proxy.example:3128 ");
  EXPECT_EQ(read("proxy.example:3128/"), "proxy.example:3128 ");
  EXPECT_EQ(read("http://[::1]:8080/"), "[::1]:8080 ");
  EXPECT_EQ(read("http://proxy.example"), "proxy.example:80 ");
  // "me:a@b" in base64.
  EXPECT_EQ(read("http://me:a%40b@p:1"), "p:1 Proxy-Authorization: Basic bWU6YUBi\r\n");
  EXPECT_THAT(read("socks5h://p:1"), HasSubstr("a socks5h one"));
  EXPECT_THAT(read("https://p:1"), HasSubstr("a https one"));
  EXPECT_THAT(read("http://me:secret@p:x"), Not(HasSubstr("secret")));
}

TEST(HttpProxy, ReadsAnswersToConnect) {
  using State = Tunnel::State;
  const std::string open = "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
  for (std::size_t n = 0; n < open.size(); ++n)
    EXPECT_EQ(read_tunnel_answer(open.substr(0, n)).state, State::kUndecided) << n;
  EXPECT_EQ(read_tunnel_answer(open).state, State::kOpen);
  EXPECT_EQ(read_tunnel_answer("HTTP/1.0 407 No\r\n\r\n").why, "status 407");
  EXPECT_EQ(read_tunnel_answer(open + "x").state, State::kRefused);
  EXPECT_EQ(read_tunnel_answer("SSH-2.0\r\n\r\n").state, State::kRefused);
  EXPECT_EQ(read_tunnel_answer(std::string(20'000, 'x')).state, State::kRefused);
}

// The environment's, while it lives.
class Proxies {
 public:
  explicit Proxies(std::uint16_t port, const std::string& none = "") {
    const std::string url = "http://me:word@127.0.0.1:" + std::to_string(port);
    for (const char* name : {"HTTP_PROXY", "HTTPS_PROXY"}) setenv(name, url.c_str(), 1);
    setenv("NO_PROXY", none.c_str(), 1);
  }
  ~Proxies() {
    for (const char* name : {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}) unsetenv(name);
  }
};

std::unique_ptr<HttpClient> proxied_client(const std::string& ca_file = "") {
  HttpClientSettings settings;
  settings.environment_proxies = true;
  settings.ca_file = ca_file;
  return make_client(settings);
}

TEST(HttpProxy, IsAskedForPlainUrls) {
  const auto proxy = serve_on_any_port([](const HttpRequest& request, const Responder& responder) {
    responder.respond({200,
                       "text/plain",
                       request.target + " " + std::string(request.header("host")) + " " +
                           std::string(request.header("proxy-authorization")),
                       {}});
  });
  const Proxies environment(proxy->port(), "inside.test");
  ClientRequest request = request_to(8080, "/a?b=c");
  request.url.host = "far.test";
  const auto client = proxied_client();
  EXPECT_EQ(run(*client, request).body,
            "http://far.test:8080/a?b=c far.test:8080 Basic bWU6d29yZA==");
  EXPECT_TRUE(run(*client, request).times.reused_connection);
  request.url.host = "x.inside.test";
  EXPECT_EQ(run(*client, request).failure, ClientFailure::kConnect);
  request.url.host = "far.test";
  EXPECT_EQ(run(*make_client({}), request).failure, ClientFailure::kConnect);  // it was not told to
}

// Passes bytes of one connection on, after an answer to its CONNECT.
void pass_on(test::TcpSocket& from, test::TcpSocket& to) {
  for (std::string bytes; !(bytes = from.receive()).empty();)
    if (!to.send(bytes)) return;
}

TEST(HttpProxy, LetsTlsThrough) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("saccade-http-proxy-" + std::to_string(getpid()));
  const auto certificate = test::make_certificate(folder, "good", "DNS:far.test");
  HttpServerSettings settings;
  settings.tls_certificate = certificate.certificate_path;
  settings.tls_key = certificate.key_path;
  const auto server = serve_on_any_port(echo_target, settings);
  test::TcpListener proxy;
  std::string asked;
  std::thread relay([&] {
    test::TcpSocket client = proxy.accept();
    while (asked.find("\r\n\r\n") == std::string::npos) asked += client.receive();
    test::TcpSocket behind = test::TcpSocket::connect(server->port());
    client.send("HTTP/1.1 200 OK\r\n\r\n");
    std::thread back([&] { pass_on(behind, client); });
    pass_on(client, behind);
    behind.shutdown_send();
    back.join();
    test::TcpSocket refused = proxy.accept();
    refused.receive();
    refused.send("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  {
    const Proxies environment(proxy.port());
    const auto client = proxied_client(certificate.certificate_path);
    ClientRequest request = request_to(443, "/deep", {"body"});
    request.url.scheme = "https";
    request.url.host = "far.test";
    EXPECT_EQ(run(*client, request).body, "POST /deep body");
    EXPECT_EQ(run(*client, request).body, "POST /deep body");
  }
  const Proxies environment(proxy.port());
  ClientRequest request = request_to(443, "/");
  request.url.scheme = "https";
  request.url.host = "far.test";
  const ClientResponse refused = run(*proxied_client(), request);
  EXPECT_EQ(refused.failure, ClientFailure::kConnect);
  EXPECT_THAT(refused.error, HasSubstr("makes no way to far.test: status 403"));
  relay.join();
  EXPECT_THAT(asked, HasSubstr("CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n"
                               "Proxy-Authorization: Basic bWU6d29yZA==\r\n\r\n"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace saccade::net
