#include "net/client/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include "base/rng.h"
#include "net/server/http_server.h"
#include "net/sse.h"
#include "tests/support/one_request.h"
#include "tests/support/tcp_socket.h"

namespace saccade::net {
namespace {

using saccade::test::TcpListener;
using saccade::test::TcpSocket;
using ::testing::HasSubstr;

// Accepts once, reads a request's head, sends `answer`, closes.
std::thread answer_once(TcpListener& listener, std::string answer) {
  return std::thread([&listener, answer = std::move(answer)] {
    TcpSocket socket = listener.accept();
    socket.receive_until("\r\n\r\n");
    socket.send(answer);
  });
}

TEST(Url, Parses) {
  const auto show = [](const std::string& text) {
    const auto url = parse_url(text);
    if (!url) return std::string("error");
    return url->scheme + "|" + url->host + "|" + std::to_string(url->port) + "|" + url->path;
  };
  EXPECT_EQ(show("http://localhost:8000/v1/x?y=z#f"), "http|localhost|8000|/v1/x?y=z");
  EXPECT_EQ(show("HTTPS://Host.example"), "https|Host.example|443|/");
  EXPECT_EQ(show("http://[::1]:80"), "http|::1|80|/");
  EXPECT_EQ(show("127.0.0.1:9"), "http|127.0.0.1|9|/");
  EXPECT_EQ(show("http://h?q=1"), "http|h|80|/?q=1");
  for (const char* bad :
       {"", "http://", "ftp://h/", "http://h:0/", "http://h:65536/", "http://h:8x/", "http://h:/",
        "http://user@h/", "http://h/a b", "http://h/\r\nX: y", "http://[::1", "http://a b/",
        "http://[x]/", "http://h\r\n/"}) {
    EXPECT_EQ(show(bad), "error") << bad;
  }
}

TEST(HttpClient, SendsAndReceives) {
  const auto server = serve_on_any_port(echo_target);
  const auto client = make_client();
  ClientRequest request = request_to(server->port(), "/p?q=1", {"one ", "", "two"});
  request.headers = {{"X-Mine", "a\r\nX-Other: b"}};
  const auto response = client->send(std::move(request));
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->header("content-type"), "text/plain");
  EXPECT_EQ(response->header("x-seen"), "a  X-Other: b");
  EXPECT_EQ(response->body, "POST /p?q=1 one two");
  const ClientTimes& times = response->times;
  EXPECT_LE(times.start, times.connected);
  EXPECT_LE(times.connected, times.sent);
  EXPECT_LE(times.sent, times.headers);
  EXPECT_LE(times.headers, times.end);
  EXPECT_FALSE(times.reused_connection);
}

TEST(HttpClient, ReusesConnections) {
  const auto server = serve_on_any_port(echo_target);
  const auto client = make_client();
  for (int i = 0; i < 5; ++i) {
    const auto response = client->send(request_to(server->port()));
    ASSERT_TRUE(response);
    EXPECT_EQ(response->times.reused_connection, i > 0);
    if (i > 0) {
      EXPECT_EQ(response->times.start, response->times.connected);
    }
  }
  EXPECT_EQ(client->counters().connects, 1u);

  HttpClientSettings settings;
  settings.fresh_connections = true;
  const auto fresh = make_client(settings);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(fresh->send(request_to(server->port())));
  EXPECT_EQ(fresh->counters().connects, 3u);
}

TEST(HttpClient, HeadHasNoBody) {
  const auto server = serve_on_any_port(echo_target);
  const auto client = make_client();
  for (int i = 0; i < 2; ++i) {
    ClientRequest request = request_to(server->port());
    request.method = "HEAD";
    const auto response = client->send(std::move(request));
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->body, "");
    EXPECT_EQ(response->header("content-length"), "7");
  }
}

TEST(HttpClient, StreamsManyAtOnce) {
  const auto server = serve_on_any_port([](const HttpRequest&, const Responder& responder) {
    responder.start_stream();
    for (int i = 0; i < 20; ++i) responder.write("data: " + std::to_string(i) + "\n\n");
    responder.end_stream();
  });
  const auto client = make_client();
  constexpr int kStreams = 300;
  std::vector<SseScanner> scanners(kStreams);
  std::vector<std::string> seen(kStreams);
  std::atomic<int> done{0};
  std::promise<void> all_done;
  for (int i = 0; i < kStreams; ++i) {
    ClientHandlers handlers;
    handlers.on_body = [&, i](std::string_view bytes, Nanos at) {
      EXPECT_GT(at, 0);
      return scanners[static_cast<std::size_t>(i)].feed(bytes, [&](std::string_view data) {
        seen[static_cast<std::size_t>(i)] += std::string(data) + " ";
      });
    };
    handlers.on_done = [&](const ClientResponse& response) {
      EXPECT_EQ(response.failure, ClientFailure::kNone) << response.error;
      if (++done == kStreams) all_done.set_value();
    };
    client->start(request_to(server->port()), std::move(handlers));
  }
  all_done.get_future().wait();
  for (const std::string& text : seen) {
    EXPECT_EQ(text, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ");
  }
}

TEST(HttpClient, LargeBodiesSharedByManyRequests) {
  HttpServerSettings server_settings;
  std::atomic<std::size_t> received{0};
  const auto server = serve_on_any_port(
      [&](const HttpRequest& request, const Responder& responder) {
        received += request.body.size();
        HttpResponse response;
        response.body = std::to_string(std::hash<std::string>()(request.body));
        responder.respond(response);
      },
      server_settings);
  const auto client = make_client();
  Rng rng(5);
  std::string image(3u << 20, '\0');
  for (char& c : image) c = static_cast<char>('a' + rng.below(26));
  const SharedBytes shared = std::make_shared<const std::string>(image);
  const SharedBytes front = std::make_shared<const std::string>("{\"image\":\"");
  const SharedBytes back = std::make_shared<const std::string>("\"}");
  const std::string expected = std::to_string(std::hash<std::string>()(*front + image + *back));
  constexpr int kRequests = 12;
  std::vector<std::future<ClientResponse>> answers;
  for (int i = 0; i < kRequests; ++i) {
    auto promise = std::make_shared<std::promise<ClientResponse>>();
    answers.push_back(promise->get_future());
    ClientHandlers handlers;
    handlers.on_done = [promise](ClientResponse r) { promise->set_value(std::move(r)); };
    ClientRequest request = request_to(server->port());
    request.body = {front, shared, back};
    client->start(std::move(request), std::move(handlers));
  }
  for (auto& answer : answers) EXPECT_EQ(answer.get().body, expected);
  EXPECT_EQ(received, kRequests * (image.size() + front->size() + back->size()));
}

TEST(HttpClient, RefusedConnection) {
  std::uint16_t port;
  {
    const TcpListener listener;
    port = listener.port();
  }
  const auto client = make_client();
  const ClientResponse response = run(*client, request_to(port));
  EXPECT_EQ(response.failure, ClientFailure::kConnect);
  EXPECT_THAT(response.error, HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(response.error, HasSubstr("refused"));
  EXPECT_EQ(response.times.connected, 0);
  const auto sent = client->send(request_to(port));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kUnavailable);
}

TEST(HttpClient, UnknownName) {
  const auto client = make_client();
  ClientRequest request = request_to(1);
  request.url.host = "no-such-host.invalid";
  const ClientResponse response = run(*client, std::move(request));
  EXPECT_EQ(response.failure, ClientFailure::kConnect);
  EXPECT_THAT(response.error, HasSubstr("no-such-host.invalid"));
}

// A name below localhost is in no hosts file, and name servers are not asked for it.
TEST(HttpClient, LocalhostIsThisMachineByEitherAddress) {
  for (const char* listening : {"127.0.0.1", "::1"}) {
    HttpServerSettings settings;
    settings.host = listening;
    settings.port = 0;
    auto server = HttpServer::listen(settings, echo_target);
    if (!server) GTEST_SKIP() << server.error().message;  // no IPv6 here
    for (const char* name : {"localhost", "LocalHost.", "saccade.localhost"}) {
      const auto client = make_client();
      ClientRequest request = request_to((*server)->port());
      request.url.host = name;
      const ClientResponse response = run(*client, std::move(request));
      EXPECT_EQ(response.failure, ClientFailure::kNone) << name << ": " << response.error;
    }
  }
}

TEST(HttpClient, Deadline) {
  std::optional<Responder> kept;
  const auto server = serve_on_any_port([&](const HttpRequest&, Responder responder) {
    responder.start_stream();
    responder.write("data: 1\n\n");
    kept = std::move(responder);
  });
  const auto client = make_client();
  ClientRequest request = request_to(server->port());
  const Nanos begin = steady_now();
  request.deadline = begin + 2 * kSecond;  // by which the first event is there
  std::string body;
  const ClientResponse response =
      run(*client, std::move(request), [&](std::string_view bytes, Nanos) {
        body += bytes;
        return true;
      });
  EXPECT_EQ(response.failure, ClientFailure::kTimeout);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(body, "data: 1\n\n");
  EXPECT_GE(response.times.end - begin, 2 * kSecond);
  EXPECT_LT(response.times.end - begin, 60 * kSecond);
}

TEST(HttpClient, ConnectTimeout) {
  // A full backlog: the handshake is never completed.
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd, 0), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  HttpClientSettings settings;
  settings.connect_timeout = 100 * kMillisecond;
  const auto client = make_client(settings);
  int timeouts = 0;
  std::vector<std::future<ClientResponse>> answers;
  for (int i = 0; i < 4; ++i) {
    auto promise = std::make_shared<std::promise<ClientResponse>>();
    answers.push_back(promise->get_future());
    ClientHandlers handlers;
    handlers.on_done = [promise](ClientResponse r) { promise->set_value(std::move(r)); };
    ClientRequest request = request_to(ntohs(address.sin_port));
    request.deadline = steady_now() + 3 * kSecond;
    client->start(std::move(request), std::move(handlers));
  }
  for (auto& answer : answers) {
    const ClientResponse response = answer.get();
    EXPECT_EQ(response.failure, ClientFailure::kTimeout) << response.error;
    if (response.error.find("no connection in time") != std::string::npos) ++timeouts;
  }
  EXPECT_GE(timeouts, 1);
  ::close(fd);
}

TEST(HttpClient, Truncation) {
  const auto client = make_client();
  for (const char* answer :
       {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "HTTP/1.1 20", ""}) {
    TcpListener listener;
    std::thread peer = answer_once(listener, answer);
    const ClientResponse response = run(*client, request_to(listener.port()));
    EXPECT_EQ(response.failure, ClientFailure::kTruncated) << answer << response.error;
    peer.join();
  }
}

TEST(HttpClient, NotHttp) {
  const auto client = make_client();
  TcpListener listener;
  std::thread peer = answer_once(listener, "SSH-2.0-something\r\n\r\n");
  const ClientResponse response = run(*client, request_to(listener.port()));
  EXPECT_EQ(response.failure, ClientFailure::kProtocol);
  EXPECT_THAT(response.error, HasSubstr("SSH-2.0"));
  peer.join();
}

TEST(HttpClient, BodyLimit) {
  HttpClientSettings settings;
  settings.max_body_bytes = 1000;
  const auto client = make_client(settings);
  const auto server = serve_on_any_port([](const HttpRequest& request, const Responder& responder) {
    HttpResponse response;
    response.body = std::string(request.path == "/over" ? 1001 : 1000, 'x');
    responder.respond(response);
  });
  EXPECT_EQ(run(*client, request_to(server->port())).failure, ClientFailure::kNone);
  EXPECT_EQ(run(*client, request_to(server->port(), "/over")).failure, ClientFailure::kTooLarge);
}

TEST(HttpClient, CancelsFromOnBodyAndFromOutside) {
  std::atomic<int> disconnects{0};
  std::vector<Responder> kept;
  const auto server = serve_on_any_port([&](const HttpRequest&, Responder responder) {
    responder.on_disconnect([&] { ++disconnects; });
    responder.start_stream();
    responder.write("data: 1\n\n");
    kept.push_back(std::move(responder));
  });
  const auto client = make_client();
  const ClientResponse response =
      run(*client, request_to(server->port()), [](std::string_view, Nanos) { return false; });
  EXPECT_EQ(response.failure, ClientFailure::kCancelled);

  std::promise<void> streaming;
  std::promise<ClientResponse> ended;
  ClientHandlers handlers;
  handlers.on_body = [&](std::string_view, Nanos) {
    streaming.set_value();
    return true;
  };
  handlers.on_done = [&](ClientResponse r) { ended.set_value(std::move(r)); };
  const HttpClient::RequestId id = client->start(request_to(server->port()), std::move(handlers));
  streaming.get_future().wait();
  client->cancel(id);
  client->cancel(id);
  EXPECT_EQ(ended.get_future().get().failure, ClientFailure::kCancelled);
  while (disconnects < 2) std::this_thread::yield();
}

TEST(HttpClient, TheEndCancelsEverythingOnce) {
  std::vector<Responder> kept;
  std::promise<void> arrived;
  const auto server = serve_on_any_port([&](const HttpRequest&, Responder responder) {
    kept.push_back(std::move(responder));
    if (kept.size() == 3) arrived.set_value();
  });
  std::atomic<int> cancelled{0};
  {
    const auto client = make_client();
    for (int i = 0; i < 3; ++i) {
      ClientHandlers handlers;
      handlers.on_done = [&](const ClientResponse& response) {
        EXPECT_EQ(response.failure, ClientFailure::kCancelled);
        ++cancelled;
      };
      client->start(request_to(server->port()), std::move(handlers));
    }
    arrived.get_future().wait();
  }
  EXPECT_EQ(cancelled, 3);
}

// A pooled connection that the server closed while it was idle: one retry, unseen by the caller.
TEST(HttpClient, RetriesOnceOnAStalePooledConnection) {
  TcpListener listener;
  const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  std::atomic<int> requests{0};
  std::thread peer([&] {
    TcpSocket first = listener.accept();
    first.receive_until("\r\n\r\n");
    first.send(ok);
    first.receive_until("\r\n\r\n");  // the second request, on the same connection
    ++requests;
    first.close();  // without an answer
    TcpSocket second = listener.accept();
    second.receive_until("\r\n\r\n");
    ++requests;
    second.send(ok);
    second.receive_until("\r\n\r\n");  // the third request: closed again, and again
    second.close();
    TcpSocket third = listener.accept();
    third.receive_until("\r\n\r\n");
    third.close();
  });
  const auto client = make_client();
  ASSERT_EQ(run(*client, request_to(listener.port())).failure, ClientFailure::kNone);
  const ClientResponse retried = run(*client, request_to(listener.port()));
  EXPECT_EQ(retried.failure, ClientFailure::kNone) << retried.error;
  EXPECT_EQ(retried.body, "ok");
  EXPECT_FALSE(retried.times.reused_connection);
  EXPECT_EQ(requests, 2);
  const ClientResponse failed = run(*client, request_to(listener.port()));
  EXPECT_EQ(failed.failure, ClientFailure::kTruncated);
  peer.join();
}

TEST(HttpClient, NoticesThatAnIdleConnectionWasClosed) {
  HttpServerSettings settings;
  settings.idle_timeout = std::chrono::seconds(1);
  settings.header_timeout = std::chrono::seconds(1);
  const auto server = serve_on_any_port(echo_target, settings);
  const auto client = make_client();
  ASSERT_TRUE(client->send(request_to(server->port())));
  while (server->open_connections() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto response = client->send(request_to(server->port()));
  ASSERT_TRUE(response);
  EXPECT_FALSE(response->times.reused_connection);
}

// The server answers and closes before it has read the body.
TEST(HttpClient, AnEarlyAnswerIsHeard) {
  HttpServerSettings settings;
  settings.max_body_bytes = 1000;
  const auto server = serve_on_any_port(echo_target, settings);
  const auto client = make_client();
  const ClientResponse response =
      run(*client, request_to(server->port(), "/", {std::string(20u << 20, 'x')}));
  EXPECT_EQ(response.failure, ClientFailure::kNone) << response.error;
  EXPECT_EQ(response.status, 413);
}

// An answer that comes before the request is asked, and a connection that then stays open.
TEST(HttpClient, AnAnswerBeforeTheRequestIsHeard) {
  TcpListener listener;
  std::promise<void> heard;
  std::thread peer([&] {
    TcpSocket socket = listener.accept();
    socket.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    heard.get_future().wait();
  });
  const auto client = make_client();
  ClientRequest request = request_to(listener.port());
  request.deadline = steady_now() + 60 * kSecond;
  const ClientResponse response = run(*client, std::move(request));
  EXPECT_EQ(response.status, 503) << response.error;
  heard.set_value();
  peer.join();
}

TEST(HttpClient, StartsRequestsFromCallbacks) {
  const auto server = serve_on_any_port(echo_target);
  const auto client = make_client();
  std::atomic<int> left{2000};
  std::promise<void> finished;
  std::function<void(ClientResponse)> next = [&](const ClientResponse& response) {
    EXPECT_EQ(response.failure, ClientFailure::kNone) << response.error;
    if (--left == 0) return finished.set_value();
    ClientHandlers handlers;
    handlers.on_done = next;
    client->start(request_to(server->port()), std::move(handlers));
  };
  ClientHandlers handlers;
  handlers.on_done = next;
  client->start(request_to(server->port()), std::move(handlers));
  finished.get_future().wait();
  EXPECT_EQ(client->counters().connects, 1u);
}

// A caller that starts again on every failure must not recurse.
TEST(HttpClient, FailingForALongTimeDoesNotRecurse) {
  std::uint16_t port;
  {
    const TcpListener listener;
    port = listener.port();
  }
  HttpClientSettings settings;
  settings.max_connections = 0;  // fails without a system call
  const auto client = make_client(settings);
  int left = 20'000;
  std::promise<void> finished;
  std::function<void(ClientResponse)> next = [&](const ClientResponse& response) {
    EXPECT_EQ(response.failure, ClientFailure::kConnect);
    if (--left == 0) return finished.set_value();
    ClientHandlers handlers;
    handlers.on_done = [&](ClientResponse r) { next(std::move(r)); };
    client->start(request_to(port), std::move(handlers));
  };
  ClientHandlers handlers;
  handlers.on_done = [&](ClientResponse r) { next(std::move(r)); };
  client->start(request_to(port), std::move(handlers));
  finished.get_future().wait();
}

TEST(HttpClient, TimersAndPosts) {
  const auto client = make_client();
  std::promise<Nanos> ran;
  const Nanos due = steady_now() + 20 * kMillisecond;
  client->at(due, [&] { ran.set_value(steady_now()); });
  const Nanos at = ran.get_future().get();
  EXPECT_GE(at, due);
  std::promise<void> posted;
  client->post([&] { posted.set_value(); });
  posted.get_future().wait();
}

// Servers that cut, reset, dribble or talk nonsense at random: every request ends once, and the
// right ones well.
TEST(HttpClient, SurvivesAnUnreliablePeer) {
  TcpListener listener;
  std::atomic<bool> stop{false};
  std::thread peer([&] {
    Rng rng(9);
    const std::string ok =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    while (!stop) {
      TcpSocket socket = listener.accept(20);
      if (!socket.valid()) continue;
      for (std::uint64_t served = rng.below(4); served > 0; --served) {
        if (socket.receive_until("\r\n\r\n", 200).empty()) break;
        socket.send(ok);
      }
      const std::uint64_t fate = rng.below(4);
      if (fate == 0) socket.reset();
      if (fate == 1) socket.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
      if (fate == 2) socket.send("garbage\r\n\r\n");
    }
  });
  {
    const auto client = make_client();
    std::map<ClientFailure, int> failures;
    for (int i = 0; i < 300; ++i) {
      const ClientResponse response = run(*client, request_to(listener.port()));
      ++failures[response.failure];
      if (response.failure == ClientFailure::kNone) {
        EXPECT_EQ(response.body, "ok");
      }
    }
    EXPECT_GT(failures[ClientFailure::kNone], 100);
    EXPECT_EQ(failures.count(ClientFailure::kCancelled), 0u);
  }
  stop = true;
  peer.join();
}

}  // namespace
}  // namespace saccade::net
