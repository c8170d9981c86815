// The HTTP client over TLS: what it verifies, and what it says when it cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/support/certificate.h"
#include "tests/support/one_request.h"

namespace saccade::net {
namespace {

using ::testing::HasSubstr;

class Tls : public ::testing::Test {
 protected:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("saccade-tls-" + std::to_string(::getpid()));
  ~Tls() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<HttpServer> serve_tls(const test::Certificate& certificate) {
    HttpServerSettings settings;
    settings.tls_certificate = certificate.certificate_path;
    settings.tls_key = certificate.key_path;
    return serve_on_any_port(
        [](const HttpRequest& request, const Responder& responder) {
          if (request.path != "/stream") return echo_target(request, responder);
          responder.start_stream();
          for (int i = 0; i < 3; ++i) responder.write("data: " + std::to_string(i) + "\n\n");
          responder.end_stream();
        },
        settings);
  }
  static ClientRequest secure(std::uint16_t port, const std::string& path = "/",
                              std::vector<std::string> body = {}) {
    ClientRequest request = request_to(port, path, std::move(body));
    request.url.scheme = "https";
    return request;
  }
};

TEST_F(Tls, VerifiesAndTransfers) {
  const auto certificate = test::make_certificate(folder_, "good", "DNS:localhost,IP:127.0.0.1");
  const auto server = serve_tls(certificate);
  HttpClientSettings settings;
  settings.ca_file = certificate.certificate_path;
  const auto client = make_client(settings);
  std::string body(5u << 20, 'x');
  for (std::size_t i = 0; i < body.size(); i += 7) body[i] = 'y';
  for (const char* host : {"127.0.0.1", "localhost"}) {
    ClientRequest request = secure(server->port(), "/", {"front ", body, ""});
    request.url.host = host;
    const ClientResponse response = run(*client, std::move(request));
    ASSERT_EQ(response.failure, ClientFailure::kNone) << host << response.error;
    EXPECT_TRUE(response.body == "POST / front " + body);
  }
  const ClientResponse stream = run(*client, secure(server->port(), "/stream"));
  EXPECT_EQ(stream.body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  EXPECT_TRUE(stream.times.reused_connection);
}

TEST_F(Tls, RefusesWhatItCannotVerify) {
  const auto good = test::make_certificate(folder_, "good", "DNS:localhost,IP:127.0.0.1");
  const auto other_name = test::make_certificate(folder_, "other", "DNS:example.org");
  const auto expired =
      test::make_certificate(folder_, "expired", "DNS:localhost,IP:127.0.0.1", -60);
  const auto failure_with = [&](const test::Certificate& certificate, const std::string& ca_file,
                                bool verify, const std::string& host = "127.0.0.1") {
    const auto server = serve_tls(certificate);
    HttpClientSettings settings;
    settings.ca_file = ca_file;
    settings.verify_tls = verify;
    const auto client = make_client(settings);
    ClientRequest request = secure(server->port());
    request.url.host = host;
    const ClientResponse response = run(*client, std::move(request));
    return std::string(name_of(response.failure)) + " " + response.error;
  };
  EXPECT_THAT(failure_with(good, "", true), HasSubstr("tls"));
  EXPECT_THAT(failure_with(good, "", true), HasSubstr("self-signed"));
  // Addresses and names are compared by two functions of OpenSSL's.
  for (const char* host : {"127.0.0.1", "localhost"})
    EXPECT_THAT(failure_with(other_name, other_name.certificate_path, true, host),
                HasSubstr("mismatch"));
  EXPECT_THAT(failure_with(expired, expired.certificate_path, true), HasSubstr("expired"));
  EXPECT_EQ(failure_with(other_name, "", false), "none ");
}

// A certificate that is replaced is shown to new connections; halves of a replacement are not.
TEST_F(Tls, AReplacedCertificateIsReadAgain) {
  const auto before = test::make_certificate(folder_, "live", "IP:127.0.0.1");
  const auto old = test::make_certificate(folder_, "old", "IP:127.0.0.1");
  for (const auto& [from, to] : {std::pair(before.certificate_path, old.certificate_path),
                                 std::pair(before.key_path, old.key_path)})
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  const auto server = serve_tls(before);
  const auto accepts = [&](const test::Certificate& certificate) {
    HttpClientSettings settings;
    settings.ca_file = certificate.certificate_path;
    settings.fresh_connections = true;
    const auto client = make_client(settings);
    return run(*client, secure(server->port())).failure == ClientFailure::kNone;
  };
  EXPECT_TRUE(accepts(old));
  const auto next = test::make_certificate(folder_, "next", "IP:127.0.0.1");
  const auto put = [](const std::string& from, const std::string& to) {
    std::filesystem::rename(from, to);
  };
  // The certificate alone does not fit the key: the old pair stays.
  const std::string shown = folder_ / "shown.pem";
  std::filesystem::copy_file(next.certificate_path, shown);
  put(next.certificate_path, before.certificate_path);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_TRUE(accepts(old));
  put(next.key_path, before.key_path);
  const test::Certificate current{shown, ""};
  for (int tries = 0; tries < 600 && !accepts(current); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(accepts(current));
  EXPECT_FALSE(accepts(old));
}

TEST_F(Tls, PlainAndTlsPeersDoNotMeet) {
  const auto certificate = test::make_certificate(folder_, "good", "IP:127.0.0.1");
  const auto server = serve_tls(certificate);
  const auto plain_server = serve_on_any_port(echo_target);
  const auto client = make_client();
  const ClientResponse to_plain = run(*client, secure(plain_server->port()));
  EXPECT_EQ(to_plain.failure, ClientFailure::kTls) << to_plain.error;
  const ClientResponse to_tls = run(*client, request_to(server->port()));
  EXPECT_NE(to_tls.failure, ClientFailure::kNone);
}

TEST_F(Tls, MissingCaFileIsSaidAtOnce) {
  HttpClientSettings settings;
  settings.ca_file = "/nonexistent/ca.pem";
  const auto client = HttpClient::create(settings);
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message, HasSubstr("/nonexistent/ca.pem"));
}

}  // namespace
}  // namespace saccade::net
