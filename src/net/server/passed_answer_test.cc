// Answers that are passed on as they come: any status, any type, framed by a length or by chunks.
#include <gtest/gtest.h>

#include "tests/support/http_server_testing.h"

namespace saccade::net {
namespace {

std::string ask(const HttpServer& server, const std::string& head = "") {
  TcpSocket socket = TcpSocket::connect(server.port());
  EXPECT_TRUE(socket.send("GET / HTTP/1.1\r\nHost: x\r\n" + head + "Connection: close\r\n\r\n"));
  std::string all;
  for (std::string more = socket.receive(); !more.empty(); more = socket.receive()) all += more;
  return all;
}

TEST(PassedAnswer, HasItsOwnHeadAndLength) {
  const auto server = serve([](const HttpRequest&, const Responder& responder) {
    responder.start_answer({418, {{"content-type", "text/plain"}, {"x-other", "a\r\nb: c"}}, 6});
    responder.write("abc");
    responder.write("def");
    responder.end_stream();
  });
  const std::string answer = ask(*server);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 418 "));
  EXPECT_THAT(answer, HasSubstr("content-type: text/plain\r\n"));
  EXPECT_THAT(answer, HasSubstr("x-other: a  b: c\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 6\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Transfer-Encoding")));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nabcdef")) << answer;
}

TEST(PassedAnswer, ComesInChunksWhereItsLengthIsNotKnown) {
  const auto server = serve([](const HttpRequest&, const Responder& responder) {
    responder.start_answer({200, {{"content-type", "text/event-stream"}}, std::nullopt});
    responder.write("data: 1\n\n");
    responder.end_stream();
  });
  const std::string answer = ask(*server);
  EXPECT_THAT(answer, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n")) << answer;
}

TEST(PassedAnswer, ToOldClientsEndsWithTheConnection) {
  const auto server = serve([](const HttpRequest&, const Responder& responder) {
    responder.start_answer({200, {}, std::nullopt});
    responder.write("abc");
    responder.end_stream();
  });
  TcpSocket socket = TcpSocket::connect(server->port());
  socket.send("GET / HTTP/1.0\r\n\r\n");
  std::string all;
  for (std::string more = socket.receive(); !more.empty(); more = socket.receive()) all += more;
  EXPECT_TRUE(all.ends_with("\r\n\r\nabc")) << all;
  EXPECT_THAT(all, Not(HasSubstr("chunked")));
}

TEST(PassedAnswer, TheConnectionGoesOnBehindIt) {
  int requests = 0;
  const auto server = serve([&](const HttpRequest&, const Responder& responder) {
    responder.start_answer({200, {}, 3});
    responder.write(++requests == 1 ? "one" : "two");
    responder.end_stream();
  });
  TcpSocket socket = TcpSocket::connect(server->port());
  socket.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(receive_answer(socket).ends_with("one"));
  socket.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(receive_answer(socket).ends_with("two"));
}

// Less than was announced is a broken answer, more would be taken for the next one.
TEST(PassedAnswer, KeepsToItsLength) {
  std::string_view body;
  const auto server = serve([&](const HttpRequest&, const Responder& responder) {
    responder.start_answer({200, {}, 4});
    responder.write(std::string(body));
    responder.end_stream();
  });
  body = "abcdefgh";
  EXPECT_TRUE(ask(*server).ends_with("\r\n\r\nabcd"));
  body = "ab";
  TcpSocket socket = TcpSocket::connect(server->port());
  socket.send("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
  std::string all;
  for (std::string more = socket.receive(); !more.empty(); more = socket.receive()) all += more;
  EXPECT_TRUE(all.ends_with("\r\n\r\nab")) << all;  // and nothing of a second answer
}

TEST(PassedAnswer, ACutIsSeen) {
  const auto server = serve([](const HttpRequest&, const Responder& responder) {
    responder.start_answer({200, {}, std::nullopt});
    responder.write("abc");
    responder.cut();
  });
  EXPECT_THAT(ask(*server), Not(HasSubstr("0\r\n\r\n")));
}

TEST(PassedAnswer, WithoutABodyHasNone) {
  const auto server = serve([](const HttpRequest&, const Responder& responder) {
    responder.start_answer({204, {}, std::nullopt});
    responder.write("abc");
    responder.end_stream();
  });
  const std::string answer = ask(*server);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 204 "));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
  EXPECT_THAT(answer, Not(HasSubstr("Length")));
}

}  // namespace
}  // namespace saccade::net
