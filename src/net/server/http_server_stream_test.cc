// Streams, peers that leave, and the end of a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/rng.h"
#include "net/server/http_server.h"
#include "tests/support/http_server_testing.h"
#include "tests/support/tcp_socket.h"

namespace saccade::net {
namespace {

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

// What all slow readers together have not taken is bounded: beyond it a stream that has more to say
// is closed, a large answer becomes an error, and small ones go on. When they have left there is
// room again.
TEST(HttpServer, SlowReadersTogetherAreBounded) {
  constexpr std::size_t kAnswer = 4u << 20;
  HttpServerSettings settings = on_free_port();
  settings.max_unsent = 12u << 20;
  settings.max_buffered = 64u << 20;
  std::atomic<bool> streamed = false;
  const auto server = serve(
      [&](const HttpRequest& request, const Responder& responder) {
        HttpResponse response;
        response.body = std::string(request.path == "/large" ? kAnswer : 5, 'x');
        if (request.path != "/stream") return responder.respond(std::move(response));
        streamed = true;
        responder.start_stream();
        for (int i = 0; i < 32; ++i) responder.write(std::string(1u << 20, 'x'));
        responder.end_stream();
      },
      settings);
  const auto ask = [&](TcpSocket& socket, const std::string& path) {
    ASSERT_TRUE(socket.send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n"));
  };
  const auto head_of = [](TcpSocket& socket) { return socket.receive_until("\r\n\r\n"); };
  std::vector<TcpSocket> slow;
  int refused = 0;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(TcpSocket::connect(server->port(), 4096));
    ask(slow.back(), "/large");
    refused += head_of(slow.back()).starts_with("HTTP/1.1 503 ") ? 1 : 0;
  }
  EXPECT_GE(refused, 4);  // what the kernel takes is sent
  EXPECT_LE(refused, 6);
  const std::size_t open = server->open_connections();
  TcpSocket stream = TcpSocket::connect(server->port(), 4096);
  ask(stream, "/stream");
  EXPECT_TRUE(eventually([&] { return streamed && server->open_connections() == open; }));
  EXPECT_EQ(stream.receive_all().find("\r\n0\r\n\r\n"), std::string::npos);  // cut
  TcpSocket small = TcpSocket::connect(server->port());
  ask(small, "/small");
  EXPECT_THAT(receive_answer(small), HasSubstr("xxxxx"));
  slow.clear();
  EXPECT_TRUE(eventually([&] {
    TcpSocket again = TcpSocket::connect(server->port());
    ask(again, "/large");
    return receive_answer(again).size() > kAnswer;
  }));
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

TEST(HttpServer, AnAnswerAfterAStreamHasBegunCutsIt) {
  const auto server = serve([](HttpRequest, Responder responder) {
    responder.start_stream();
    responder.write("data: 1\n\n");
    responder.respond({429, "application/json", "{}", {}});
  });
  TcpSocket socket = TcpSocket::connect(server->port());
  ASSERT_TRUE(socket.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  const std::string stream = socket.receive_all();  // until the server closes
  EXPECT_THAT(stream, HasSubstr("data: 1"));
  EXPECT_THAT(stream, Not(HasSubstr("0\r\n\r\n")));
  EXPECT_THAT(stream, Not(HasSubstr("429")));
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
  std::thread drainer([&] { server->drain(120s); });
  EXPECT_TRUE(idle.at_end());
  // Whoever comes now is answered once; nobody waits for those who do not ask.
  TcpSocket silent = TcpSocket::connect(server->port());
  TcpSocket late = TcpSocket::connect(server->port());
  ASSERT_TRUE(late.send("GET /late HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_THAT(late.receive_all(),
              testing::AllOf(HasSubstr("200 OK"), HasSubstr("Connection: close")));
  running->write("data: end\n\n");
  running->end_stream();
  EXPECT_THAT(slow.receive_all(), HasSubstr("0\r\n\r\n"));
  slow.close();
  drainer.join();
  EXPECT_LE(server->open_connections(), 2u);
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
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
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
  EXPECT_TRUE(eventually([&] { return server->open_connections() == 0; }));
  stop = true;
  engine.join();
  EXPECT_LE(ended, kRequests);
}

}  // namespace
}  // namespace saccade::net
