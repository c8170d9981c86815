#include "net/server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/rng.h"
#include "tests/support/http_server_testing.h"
#include "tests/support/tcp_socket.h"

namespace saccade::net {
namespace {

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  const auto server = serve(echo);
  TcpSocket socket = TcpSocket::connect(server->port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(socket.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
    const std::string answer = receive_answer(socket);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"));
    EXPECT_THAT(answer, HasSubstr("\r\n\r\nPOST /x hi"));
    EXPECT_THAT(answer, Not(HasSubstr("Connection:")));
  }
  EXPECT_EQ(server->open_connections(), 1u);
  ASSERT_TRUE(socket.send("GET /y HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(receive_answer(socket), HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(socket.at_end());
}

TcpSocket connect_to_path(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << path;
  return TcpSocket(fd);
}

// A host that is a path is that of a Unix socket.
TEST(HttpServer, ListensOnAUnixSocket) {
  namespace fs = std::filesystem;
  const std::string folder = ::testing::TempDir() + "/saccade_unix_" + std::to_string(getpid());
  fs::create_directories(folder);
  HttpServerSettings settings;
  settings.host = folder + "/server.sock";
  settings.io_threads = 2;
  std::string peer;
  const auto handler = [&](const HttpRequest& request, const Responder& responder) {
    peer = request.peer;
    echo(request, responder);
  };
  for (int round = 0; round < 2; ++round) {
    const auto server = serve(handler, settings);
    std::vector<TcpSocket> sockets;
    for (int i = 0; i < 3; ++i) {
      sockets.push_back(connect_to_path(settings.host));
      ASSERT_TRUE(
          sockets.back().send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
      EXPECT_THAT(receive_answer(sockets.back()), HasSubstr("\r\n\r\nPOST /x hi"));
    }
    EXPECT_EQ(peer, "unix");
    EXPECT_THAT(HttpServer::check(settings).error().message, HasSubstr("another server does"));
    EXPECT_FALSE(HttpServer::listen(settings, echo));
  }
  EXPECT_FALSE(fs::exists(settings.host));  // gone with its server
  // What a killed server leaves is taken over; what is no socket is not.
  {
    const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    settings.host.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(bind(left, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::close(left);
    ASSERT_TRUE(fs::exists(settings.host));
    EXPECT_TRUE(HttpServer::listen(settings, echo));
  }
  std::ofstream(settings.host) << "a file";
  EXPECT_THAT(HttpServer::listen(settings, echo).error().message, HasSubstr("no socket"));
  EXPECT_TRUE(fs::exists(settings.host));
  settings.host = "/" + std::string(200, 'x');
  EXPECT_THAT(HttpServer::listen(settings, echo).error().message, HasSubstr("the limit is 107"));
  fs::remove_all(folder);
}

TEST(HttpServer, PassesHeadAndOptionsToTheHandler) {
  const auto server = serve(echo);
  TcpSocket socket = TcpSocket::connect(server->port());
  ASSERT_TRUE(
      socket.send("HEAD /h HTTP/1.1\r\nHost: h\r\n\r\nOPTIONS /o HTTP/1.1\r\nHost: h\r\n\r\n"));
  const std::string head = socket.receive_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_THAT(receive_answer(socket), HasSubstr("\r\n\r\nOPTIONS /o "));
}

TEST(HttpServer, Http10ClosesUnlessAskedToKeep) {
  const auto server = serve(echo);
  TcpSocket closes = TcpSocket::connect(server->port());
  ASSERT_TRUE(closes.send("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(closes.receive_all(), HasSubstr("\r\n\r\nGET / "));
  TcpSocket keeps = TcpSocket::connect(server->port());
  ASSERT_TRUE(keeps.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  EXPECT_THAT(receive_answer(keeps), HasSubstr("Connection: keep-alive\r\n"));
  EXPECT_FALSE(keeps.at_end(50));
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  std::vector<std::thread> workers;
  std::mutex mutex;
  const auto server = serve([&](HttpRequest request, Responder responder) {
    const std::lock_guard lock(mutex);
    workers.emplace_back([request = std::move(request), responder = std::move(responder)] {
      if (request.path == "/1") std::this_thread::sleep_for(50ms);
      echo(request, responder);
    });
  });
  TcpSocket socket = TcpSocket::connect(server->port());
  std::string requests;
  for (int i = 1; i <= 5; ++i) {
    requests += "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nb";
  }
  ASSERT_TRUE(socket.send(requests));
  for (int i = 1; i <= 5; ++i) {
    EXPECT_THAT(receive_answer(socket), HasSubstr("POST /" + std::to_string(i) + " b"));
  }
  const std::lock_guard lock(mutex);
  for (std::thread& worker : workers) worker.join();
}

// A body that no memory can hold is refused, and a callback that throws ends its own connection:
// the thread and everybody else go on.
TEST(HttpServer, ExceptionsEndWithTheirConnection) {
  HttpServerSettings settings = on_free_port();
  settings.max_body_bytes = std::size_t{1} << 63;
  auto server = HttpServer::listen(
      settings,
      [](const HttpRequest& request, const Responder& responder) {
        if (request.path == "/throw") {
          responder.on_disconnect([] {});
          throw std::bad_alloc();
        }
        echo(request, responder);
      },
      [](const HttpRequest& head, std::optional<std::uint64_t>) -> HttpAdmission {
        if (head.path == "/admit") throw std::bad_alloc();
        return {};
      });
  ASSERT_TRUE(server);
  TcpSocket bystander = TcpSocket::connect((*server)->port());
  for (int i = 0; i < 3; ++i) {
    TcpSocket vast = TcpSocket::connect((*server)->port());
    ASSERT_TRUE(
        vast.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775807\r\n\r\nx"));
    EXPECT_THAT(receive_answer(vast), StartsWith("HTTP/1.1 503 "));
    TcpSocket thrown = TcpSocket::connect((*server)->port());
    ASSERT_TRUE(thrown.send("POST /admit HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
    EXPECT_TRUE(thrown.at_end());
    TcpSocket handler = TcpSocket::connect((*server)->port());
    ASSERT_TRUE(handler.send("POST /throw HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
    EXPECT_THAT(receive_answer(handler), StartsWith("HTTP/1.1 500 "));
    ASSERT_TRUE(bystander.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n"));
    EXPECT_THAT(receive_answer(bystander), StartsWith("HTTP/1.1 200 "));
  }
}

TEST(HttpServer, HeaderValuesCannotStartHeaders) {
  const auto server = serve([](HttpRequest, Responder responder) {
    HttpResponse response;
    response.headers.emplace_back("X-Id", "a\r\nSet-Cookie: b");
    responder.respond(std::move(response));
  });
  TcpSocket socket = TcpSocket::connect(server->port());
  ASSERT_TRUE(socket.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_THAT(receive_answer(socket), HasSubstr("X-Id: a  Set-Cookie: b\r\n"));
}

TEST(HttpServer, RefusesALargeBodyBeforeReadingIt) {
  HttpServerSettings settings = on_free_port();
  settings.max_body_bytes = 1000;
  const auto server = serve(echo, settings);
  TcpSocket announced = TcpSocket::connect(server->port());
  ASSERT_TRUE(announced.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n"));
  const std::string answer = receive_answer(announced);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(answer, HasSubstr("limit of 1000 bytes"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(announced.at_end());

  TcpSocket chunked = TcpSocket::connect(server->port());
  ASSERT_TRUE(
      chunked.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n"));
  EXPECT_THAT(receive_answer(chunked), StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServer, ARefusedClientThatSendsEverythingFirstStillGetsItsAnswer) {
  HttpServerSettings settings = on_free_port();
  settings.max_body_bytes = 1000;
  const auto server = serve(echo, settings);
  TcpSocket socket = TcpSocket::connect(server->port());
  constexpr std::size_t kBody = 20u << 20;
  ASSERT_TRUE(socket.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(kBody) +
                          "\r\n\r\n"));
  ASSERT_TRUE(socket.send(std::string(kBody, 'x')));
  EXPECT_THAT(receive_answer(socket), StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServer, Continues) {
  HttpServerSettings settings = on_free_port();
  settings.max_body_bytes = 10;
  const auto server = serve(echo, settings);
  TcpSocket socket = TcpSocket::connect(server->port());
  ASSERT_TRUE(socket.send(
      "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(socket.receive_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(socket.send("ok"));
  EXPECT_THAT(receive_answer(socket), HasSubstr("POST / ok"));
  ASSERT_TRUE(socket.send(
      "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n"));
  EXPECT_THAT(receive_answer(socket), StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServer, ReadsALargeBody) {
  const auto server = serve(echo);
  TcpSocket socket = TcpSocket::connect(server->port());
  std::string body;
  Rng rng(1);
  while (body.size() < (6u << 20)) body += std::to_string(rng());
  ASSERT_TRUE(socket.send(
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n"));
  std::thread sender([&] { EXPECT_TRUE(socket.send(body)); });
  const std::string answer = receive_answer(socket);
  sender.join();
  EXPECT_TRUE(answer.ends_with("POST / " + body));
}

TEST(HttpServer, RefusesMalformedRequestsAndUsesTheErrorBody) {
  HttpServerSettings settings = on_free_port();
  settings.max_header_bytes = 1024;
  settings.error_body = [](int status, std::string_view) { return std::to_string(status) + "!"; };
  const auto server = serve(echo, settings);
  for (const auto& [request, status] : std::vector<std::pair<std::string, std::string>>{
           {"nonsense\r\n\r\n", "400"},
           {"GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n", "431"},
           {"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"}}) {
    TcpSocket socket = TcpSocket::connect(server->port());
    ASSERT_TRUE(socket.send(request));
    const std::string answer = receive_answer(socket);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + status));
    EXPECT_TRUE(answer.ends_with("\r\n\r\n" + status + "!")) << answer;
    EXPECT_TRUE(socket.at_end());
  }
}

TEST(HttpServer, TimesOut) {
  HttpServerSettings settings = on_free_port();
  settings.header_timeout = 1s;
  settings.idle_timeout = 1s;
  const auto server = serve(echo, settings);
  TcpSocket silent = TcpSocket::connect(server->port());
  TcpSocket half_header = TcpSocket::connect(server->port());
  ASSERT_TRUE(half_header.send("GET / HTTP/1.1\r\nHo"));
  TcpSocket half_body = TcpSocket::connect(server->port());
  ASSERT_TRUE(half_body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf"));
  TcpSocket idle = TcpSocket::connect(server->port());
  ASSERT_TRUE(idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_THAT(receive_answer(idle), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(silent.at_end());
  EXPECT_THAT(receive_answer(half_header), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(receive_answer(half_body), StartsWith("HTTP/1.1 408 "));
  EXPECT_TRUE(idle.at_end());
  half_header.close();
  half_body.close();
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
}

TEST(HttpServer, ABodyHasAnEndHoweverFast) {
  HttpServerSettings settings = on_free_port();
  settings.body_timeout = 1s;
  const auto server = serve(echo, settings);
  TcpSocket slow = TcpSocket::connect(server->port());
  ASSERT_TRUE(slow.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999\r\n\r\n" +
                        std::string(500'000, 'x')));
  const std::string answer = receive_answer(slow);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(answer, HasSubstr("within 1 s"));
}

// Takes bodies with the right key, as far as the budget goes.
std::unique_ptr<HttpServer> serve_admitted(const ByteBudget& budget, HttpHandler handler) {
  auto server = HttpServer::listen(
      on_free_port(), std::move(handler),
      [budget](const HttpRequest& head, std::optional<std::uint64_t> length) -> HttpAdmission {
        if (head.header("authorization") != "key") return {HttpResponse{401, "", "who?", {}}, {}};
        auto reserved = budget.reserve(static_cast<std::size_t>(length.value_or(0)));
        if (!reserved) return {HttpResponse{503, "", "full", {}}, {}};
        return {std::nullopt, *std::move(reserved)};
      });
  EXPECT_TRUE(server) << server.error().message;
  return *std::move(server);
}

TEST(HttpAdmission, RefusesAtTheHeader) {
  const ByteBudget budget(100);
  std::atomic<int> handled = 0;
  const auto server = serve_admitted(budget, [&](HttpRequest request, const Responder& responder) {
    ++handled;
    echo(request, responder);
  });
  // None of these sends any of its body: an answer can only be to the header.
  for (const std::string_view header :
       {"Content-Length: 1000000\r\n", "Content-Length: 50\r\nExpect: 100-continue\r\n",
        "Transfer-Encoding: chunked\r\n"}) {
    TcpSocket stranger = TcpSocket::connect(server->port());
    ASSERT_TRUE(stranger.send("POST / HTTP/1.1\r\nHost: h\r\n" + std::string(header) + "\r\n"));
    EXPECT_THAT(receive_answer(stranger), StartsWith("HTTP/1.1 401 ")) << header;
    EXPECT_TRUE(stranger.at_end());
  }
  TcpSocket large = TcpSocket::connect(server->port());
  ASSERT_TRUE(large.send(
      "POST / HTTP/1.1\r\nHost: h\r\nAuthorization: key\r\nContent-Length: 101\r\n\r\n"));
  EXPECT_THAT(receive_answer(large), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(handled, 0);
  EXPECT_EQ(budget.used(), 0u);
  // What has no body is the handler's to refuse.
  TcpSocket get = TcpSocket::connect(server->port());
  ASSERT_TRUE(get.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_THAT(receive_answer(get), HasSubstr("GET /x "));
}

TEST(HttpAdmission, BodiesHoldTheirBytesFromHeaderToHandler) {
  const ByteBudget budget(100);
  const auto server = serve_admitted(budget, echo);
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nAuthorization: key\r\n";
  TcpSocket first = TcpSocket::connect(server->port());
  ASSERT_TRUE(first.send(head + "Content-Length: 60\r\n\r\n" + std::string(30, 'a')));
  ASSERT_TRUE(eventually([&] { return budget.used() == 60; }));
  TcpSocket second = TcpSocket::connect(server->port());
  ASSERT_TRUE(second.send(head + "Content-Length: 60\r\n\r\n" + std::string(60, 'b')));
  EXPECT_THAT(receive_answer(second), StartsWith("HTTP/1.1 503 "));
  ASSERT_TRUE(first.send(std::string(30, 'a')));
  EXPECT_THAT(receive_answer(first), HasSubstr(std::string(60, 'a')));
  EXPECT_TRUE(eventually([&] { return budget.used() == 0; }));
  // A second request of the same connection has its own; one that is cut gives it back.
  ASSERT_TRUE(first.send(head + "Content-Length: 90\r\n\r\ncut"));
  ASSERT_TRUE(eventually([&] { return budget.used() == 90; }));
  first.reset();
  EXPECT_TRUE(eventually([&] { return budget.used() == 0; }));
}

TEST(HttpAdmission, ChunkedBodiesReserveAsTheyGrow) {
  const ByteBudget budget(600u << 10);
  const auto server = serve_admitted(budget, echo);
  const std::string head =
      "POST / HTTP/1.1\r\nHost: h\r\nAuthorization: key\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string chunk = "19000\r\n" + std::string(0x19000, 'c') + "\r\n";  // 100 KiB
  TcpSocket fits = TcpSocket::connect(server->port());
  ASSERT_TRUE(fits.send(head + chunk + chunk));
  ASSERT_TRUE(eventually([&] { return budget.used() >= (200u << 10); }));
  ASSERT_TRUE(fits.send("0\r\n\r\n"));
  EXPECT_THAT(receive_answer(fits), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(eventually([&] { return budget.used() == 0; }));
  TcpSocket endless = TcpSocket::connect(server->port());
  ASSERT_TRUE(endless.send(head));
  for (int i = 0; i < 20; ++i) endless.send(chunk);  // refused somewhere on the way
  const std::string answer = receive_answer(endless);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, HasSubstr("Retry-After"));
  EXPECT_TRUE(eventually([&] { return budget.used() == 0; }));
}

TEST(HttpServer, StalledWritesTimeOut) {
  HttpServerSettings settings = on_free_port();
  settings.idle_timeout = 1s;
  std::atomic<int> disconnects{0};
  std::optional<Responder> kept;
  const auto server = serve(
      [&](HttpRequest, Responder responder) {
        responder.on_disconnect([&] { ++disconnects; });
        responder.start_stream();
        responder.write(std::string(8u << 20, 'x'));
        kept = std::move(responder);
      },
      settings);
  TcpSocket socket = TcpSocket::connect(server->port(), 4096);
  ASSERT_TRUE(socket.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(eventually([&] { return disconnects == 1; }));
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
}

}  // namespace
}  // namespace saccade::net
