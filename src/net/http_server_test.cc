#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/rng.h"
#include "tests/support/tcp_socket.h"

namespace saccade::net {
namespace {

using namespace std::chrono_literals;
using saccade::test::TcpSocket;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

HttpServerSettings on_free_port() {
  HttpServerSettings settings;
  settings.port = 0;
  return settings;
}

std::unique_ptr<HttpServer> serve(HttpHandler handler,
                                  const HttpServerSettings& settings = on_free_port()) {
  auto server = HttpServer::listen(settings, std::move(handler));
  EXPECT_TRUE(server) << server.error().message;
  return *std::move(server);
}

// Answers "METHOD path body".
void echo(const HttpRequest& request, const Responder& responder) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = request.method + " " + request.path + " " + request.body;
  responder.respond(std::move(response));
}

std::string receive_answer(TcpSocket& socket) {
  std::string head = socket.receive_until("\r\n\r\n");
  const std::size_t at = head.find("Content-Length: ");
  if (at == std::string::npos) return head;
  return head + socket.receive_bytes(std::stoul(head.substr(at + 16)));
}

template <typename Condition>
bool eventually(Condition&& condition, std::chrono::milliseconds limit = 5s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

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
  EXPECT_TRUE(silent.at_end(3000));
  EXPECT_THAT(receive_answer(half_header), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(receive_answer(half_body), StartsWith("HTTP/1.1 408 "));
  EXPECT_TRUE(idle.at_end(3000));
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
  EXPECT_EQ(server->open_connections(), 0u);
}

TEST(HttpServer, StreamsOneChunkAWrite) {
  const auto server = serve([](HttpRequest, Responder responder) {
    responder.start_stream({{"X-Request-Id", "7"}});
    responder.write("data: 1\n\n");
    responder.write("");
    responder.write("data: 22\n\n");
    responder.end_stream();
    responder.write("data: late\n\n");
  });
  TcpSocket socket = TcpSocket::connect(server->port());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(socket.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"));
    const std::string head = socket.receive_until("\r\n\r\n");
    EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream"));
    EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
    EXPECT_THAT(head, HasSubstr("X-Request-Id: 7\r\n"));
    EXPECT_EQ(socket.receive_until("0\r\n\r\n"),
              "9\r\ndata: 1\n\n\r\na\r\ndata: 22\n\n\r\n0\r\n\r\n");
  }
  TcpSocket old = TcpSocket::connect(server->port());
  ASSERT_TRUE(old.send("GET / HTTP/1.0\r\n\r\n"));
  const std::string answer = old.receive_all();
  EXPECT_TRUE(answer.ends_with("\r\n\r\ndata: 1\n\ndata: 22\n\n")) << answer;
}

TEST(HttpServer, ASlowReaderGetsEverythingInOrder) {
  constexpr int kEvents = 100'000;
  std::thread writer;
  const auto server = serve([&](HttpRequest, Responder responder) {
    writer = std::thread([responder = std::move(responder)] {
      responder.start_stream();
      for (int i = 0; i < kEvents; ++i) responder.write("data: " + std::to_string(i) + "\n\n");
      responder.end_stream();
    });
  });
  TcpSocket socket = TcpSocket::connect(server->port(), 4096);
  ASSERT_TRUE(socket.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  std::this_thread::sleep_for(200ms);
  std::string body = socket.receive_until("0\r\n\r\n");
  body.erase(0, body.find("\r\n\r\n") + 4);
  std::string expected;
  for (int i = 0; i < kEvents; ++i) {
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", event.size());
    expected += size + event + "\r\n";
  }
  EXPECT_EQ(body, expected + "0\r\n\r\n");
  writer.join();
}

TEST(HttpServer, ClosesAStreamPastMaxBuffered) {
  HttpServerSettings settings = on_free_port();
  settings.max_buffered = 1u << 20;
  std::atomic<int> disconnects{0};
  std::optional<Responder> kept;
  std::promise<void> started;
  const auto server = serve(
      [&](HttpRequest, Responder responder) {
        kept = std::move(responder);
        started.set_value();
      },
      settings);
  TcpSocket socket = TcpSocket::connect(server->port(), 4096);
  ASSERT_TRUE(socket.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  started.get_future().wait();
  kept->on_disconnect([&] { ++disconnects; });
  kept->start_stream();
  for (int i = 0; i < 1000 && !kept->disconnected(); ++i) {
    kept->write(std::string(65536, 'x'));
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(kept->disconnected());
  EXPECT_TRUE(eventually([&] { return disconnects == 1; }));
}

TEST(HttpServer, NoticesAPeerThatLeaves) {
  std::atomic<int> disconnects{0};
  std::mutex mutex;
  std::vector<Responder> kept;
  const auto server = serve([&](HttpRequest request, Responder responder) {
    responder.on_disconnect([&] { ++disconnects; });
    if (request.path == "/stream") responder.start_stream();
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(responder));
  });
  const auto num_kept = [&] {
    const std::lock_guard lock(mutex);
    return kept.size();
  };
  int expected = 0;
  for (const bool with_reset : {false, true}) {
    for (const char* path : {"/wait", "/stream"}) {
      TcpSocket socket = TcpSocket::connect(server->port());
      ASSERT_TRUE(socket.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: h\r\n\r\n"));
      ++expected;
      ASSERT_TRUE(eventually([&] { return num_kept() == static_cast<std::size_t>(expected); }));
      if (with_reset) {
        socket.reset();
      } else {
        socket.close();
      }
      EXPECT_TRUE(eventually([&] { return disconnects == expected; })) << path << with_reset;
      EXPECT_TRUE(kept.back().disconnected());
      kept.back().write("data: to nobody\n\n");
      kept.back().respond({});
    }
  }
  // Told afterwards: at once, and once.
  kept.back().on_disconnect([&] { ++disconnects; });
  EXPECT_TRUE(eventually([&] { return disconnects == expected + 1; }));
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
}

// Old clients send a blank line after a body; others the next request before its turn.
TEST(HttpServer, NoticesAPeerThatLeavesBehindMoreInput) {
  std::atomic<int> disconnects{0};
  std::atomic<int> asked{0};
  std::mutex mutex;
  std::vector<Responder> kept;
  const auto server = serve([&](const HttpRequest&, Responder responder) {
    responder.on_disconnect([&] { ++disconnects; });
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(responder));
    ++asked;
  });
  int expected = 0;
  for (const std::string& more :
       {std::string("\r\n"), std::string("GET /2 HTTP/1.1\r\nHost: h\r\n\r\n"),
        "GET /2 HTTP/1.1\r\nHost: h\r\nX: " + std::string(10'000, 'x')}) {
    TcpSocket socket = TcpSocket::connect(server->port());
    ASSERT_TRUE(socket.send("POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi" + more));
    ++expected;
    ASSERT_TRUE(eventually([&] { return asked == expected; }));
    socket.close();
    EXPECT_TRUE(eventually([&] { return disconnects == expected; })) << more.size();
  }
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
}

// A peer may end its sending with its last request and still wait for the answers.
TEST(HttpServer, APeerThatOnlyStoppedSendingGetsItsAnswers) {
  std::atomic<int> disconnects{0};
  std::mutex mutex;
  std::vector<std::pair<HttpRequest, Responder>> kept;
  const auto server = serve([&](HttpRequest request, Responder responder) {
    responder.on_disconnect([&] { ++disconnects; });
    const std::lock_guard lock(mutex);
    kept.emplace_back(std::move(request), std::move(responder));
  });
  const auto wait_for = [&](std::size_t count) {
    return eventually([&] {
      const std::lock_guard lock(mutex);
      return kept.size() == count;
    });
  };
  for (const char* version : {"1.1", "1.0"}) {
    TcpSocket socket = TcpSocket::connect(server->port());
    ASSERT_TRUE(socket.send(std::string("GET /whole HTTP/") + version + "\r\nHost: h\r\n\r\n"));
    socket.shutdown_send();
    ASSERT_TRUE(wait_for(1));
    std::this_thread::sleep_for(50ms);
    echo(kept[0].first, kept[0].second);
    EXPECT_THAT(socket.receive_all(), HasSubstr("\r\n\r\nGET /whole "));
    kept.clear();
  }
  {
    TcpSocket socket = TcpSocket::connect(server->port());
    ASSERT_TRUE(
        socket.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"));
    socket.shutdown_send();
    ASSERT_TRUE(wait_for(1));
    std::this_thread::sleep_for(50ms);
    echo(kept[0].first, kept[0].second);
    ASSERT_TRUE(wait_for(2));
    kept[1].second.start_stream();
    kept[1].second.write("data: 2\n\n");
    std::this_thread::sleep_for(50ms);
    kept[1].second.end_stream();
    const std::string answers = socket.receive_all();
    EXPECT_THAT(answers, HasSubstr("GET /1 "));
    EXPECT_THAT(answers, HasSubstr("data: 2\n\n"));
    EXPECT_THAT(answers, ::testing::EndsWith("0\r\n\r\n"));
  }
  EXPECT_EQ(disconnects, 0);
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
}

TEST(HttpServer, CompletedAnswersDoNotCallOnDisconnect) {
  std::atomic<int> disconnects{0};
  const auto server = serve([&](HttpRequest request, Responder responder) {
    responder.on_disconnect([&] { ++disconnects; });
    echo(request, responder);
  });
  {
    TcpSocket socket = TcpSocket::connect(server->port());
    ASSERT_TRUE(socket.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    receive_answer(socket);
  }
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
  EXPECT_EQ(disconnects, 0);
}

TEST(HttpServer, ADroppedResponderIsA500AndADroppedStreamIsCut) {
  const auto server = serve([](HttpRequest request, Responder responder) {
    if (request.path == "/throw") throw std::runtime_error("a bug in the handler");
    if (request.path == "/stream") {
      responder.start_stream();
      responder.write("data: 1\n\n");
    }
  });
  TcpSocket socket = TcpSocket::connect(server->port());
  for (const char* path : {"/drop", "/throw"}) {
    ASSERT_TRUE(socket.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: h\r\n\r\n"));
    EXPECT_THAT(receive_answer(socket), StartsWith("HTTP/1.1 500 "));
  }
  ASSERT_TRUE(socket.send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n"));
  const std::string stream = socket.receive_all();
  EXPECT_THAT(stream, HasSubstr("data: 1"));
  EXPECT_THAT(stream, Not(HasSubstr("0\r\n\r\n")));
}

TEST(HttpServer, WriteAllReachesManyStreams) {
  constexpr int kStreams = 200;
  constexpr int kSteps = 50;
  HttpServerSettings settings = on_free_port();
  settings.io_threads = 2;
  std::mutex mutex;
  std::vector<Responder> streams;
  const auto server = serve(
      [&](HttpRequest, Responder responder) {
        responder.start_stream();
        const std::lock_guard lock(mutex);
        streams.push_back(std::move(responder));
      },
      settings);
  std::vector<TcpSocket> sockets;
  for (int i = 0; i < kStreams; ++i) {
    sockets.push_back(TcpSocket::connect(server->port()));
    ASSERT_TRUE(sockets.back().send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  }
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return streams.size() == kStreams;
  }));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<StreamWrite> writes;
    for (const Responder& stream : streams) {
      writes.push_back({stream, "data: " + std::to_string(step) + "\n\n", step == kSteps - 1});
    }
    write_all(std::move(writes));
  }
  for (TcpSocket& socket : sockets) {
    const std::string text = socket.receive_until("0\r\n\r\n");
    std::size_t at = 0;
    for (int step = 0; step < kSteps; ++step) {
      at = text.find("data: " + std::to_string(step) + "\n\n", at);
      ASSERT_NE(at, std::string::npos) << step;
    }
  }
}

TEST(HttpServer, DrainsRunningAnswers) {
  std::optional<Responder> running;
  std::promise<void> started;
  const auto server = serve([&](HttpRequest request, Responder responder) {
    if (request.path != "/slow") return echo(request, responder);
    responder.start_stream();
    running = std::move(responder);
    started.set_value();
  });
  TcpSocket idle = TcpSocket::connect(server->port());
  ASSERT_TRUE(idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  receive_answer(idle);
  TcpSocket slow = TcpSocket::connect(server->port());
  ASSERT_TRUE(slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"));
  started.get_future().wait();
  std::thread drainer([&] { server->drain(10s); });
  EXPECT_TRUE(idle.at_end());
  EXPECT_TRUE(eventually([&] { return !TcpSocket::connect(server->port()).valid(); }));
  running->write("data: end\n\n");
  running->end_stream();
  EXPECT_THAT(slow.receive_all(), HasSubstr("0\r\n\r\n"));
  slow.close();
  drainer.join();
  EXPECT_EQ(server->open_connections(), 0u);
}

TEST(HttpServer, DrainGivesUpInTime) {
  std::optional<Responder> running;
  std::promise<void> started;
  const auto server = serve([&](HttpRequest, Responder responder) {
    running = std::move(responder);
    started.set_value();
  });
  TcpSocket socket = TcpSocket::connect(server->port());
  ASSERT_TRUE(socket.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  started.get_future().wait();
  const auto begin = std::chrono::steady_clock::now();
  server->drain(100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  EXPECT_EQ(server->open_connections(), 1u);
}

TEST(HttpServer, RespondersMayOutliveTheServer) {
  std::atomic<int> disconnects{0};
  std::vector<Responder> kept;
  std::promise<void> started;
  {
    const auto server = serve([&](HttpRequest, Responder responder) {
      responder.on_disconnect([&] { ++disconnects; });
      responder.start_stream();
      kept.push_back(std::move(responder));
      started.set_value();
    });
    TcpSocket socket = TcpSocket::connect(server->port());
    ASSERT_TRUE(socket.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    started.get_future().wait();
  }
  EXPECT_EQ(disconnects, 1);
  EXPECT_TRUE(kept.front().disconnected());
  kept.front().write("data: x\n\n");
  write_all({{kept.front(), "data: y\n\n", true}});
}

TEST(HttpServer, SaysWhyItCannotListen) {
  const auto server = serve(echo);
  HttpServerSettings settings = on_free_port();
  settings.port = server->port();
  const auto second = HttpServer::listen(settings, echo);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(server->port())));
  settings.host = "no such host";
  EXPECT_FALSE(HttpServer::listen(settings, echo));
  settings = on_free_port();
  settings.tls_certificate = "/nonexistent.pem";
  const auto tls = HttpServer::listen(settings, echo);
  ASSERT_FALSE(tls);
  EXPECT_THAT(tls.error().message, HasSubstr("/nonexistent.pem"));
}

// Streams, half of them cut at random moments, from writers on other threads.
TEST(HttpServer, ManyStreamsCutAtRandom) {
  HttpServerSettings settings = on_free_port();
  settings.io_threads = 2;
  std::atomic<int> ended{0};
  std::mutex mutex;
  std::vector<Responder> streams;
  std::atomic<bool> stop{false};
  const auto server = serve(
      [&](HttpRequest, Responder responder) {
        responder.on_disconnect([&] { ++ended; });
        responder.start_stream();
        const std::lock_guard lock(mutex);
        streams.push_back(std::move(responder));
      },
      settings);
  std::thread engine([&] {
    while (!stop) {
      std::vector<StreamWrite> writes;
      {
        const std::lock_guard lock(mutex);
        std::erase_if(streams, [](const Responder& stream) { return stream.disconnected(); });
        for (const Responder& stream : streams)
          writes.push_back({stream, "data: token\n\n", false});
      }
      write_all(std::move(writes));
      std::this_thread::sleep_for(1ms);
    }
  });
  Rng rng(3);
  constexpr int kRequests = 400;
  std::vector<TcpSocket> sockets;
  for (int i = 0; i < kRequests; ++i) {
    sockets.push_back(TcpSocket::connect(server->port()));
    ASSERT_TRUE(sockets.back().valid());
    ASSERT_TRUE(sockets.back().send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    if (rng.below(2) == 0) {
      TcpSocket& victim = sockets[rng.below(sockets.size())];
      if (victim.valid() && rng.below(2) == 0) victim.reset();
      victim.close();
    }
  }
  for (TcpSocket& socket : sockets) {
    if (!socket.valid()) continue;
    EXPECT_THAT(socket.receive_until("data: token\n\n"), HasSubstr("data: token"));
    socket.close();
  }
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }, 10s));
  stop = true;
  engine.join();
  EXPECT_LE(ended, kRequests);
}

}  // namespace
}  // namespace saccade::net
