#include "net/client/response_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace saccade::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using State = ResponseParser::State;

struct Collect final : ResponseSink {
  int heads = 0;
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::size_t stop_after = ~std::size_t{0};
  bool on_head(int head_status,
               std::vector<std::pair<std::string, std::string>>&& head_headers) override {
    ++heads;
    status = head_status;
    headers = std::move(head_headers);
    return true;
  }
  bool on_body(std::string_view bytes) override {
    EXPECT_FALSE(bytes.empty());
    body += bytes;
    return body.size() <= stop_after;
  }
};

struct ResponseOutcome {
  State state = State::kMore;
  Collect heard;
  std::string failure;
  std::size_t consumed = 0;
  bool keep_alive = false;
};

// Feeds piece by piece; at the end of the pieces the stream ends too, when `ends`.
ResponseOutcome parse_response(const std::vector<std::string>& pieces, bool ends = false,
                               bool no_body = false, std::size_t max_head = 1024) {
  ResponseParser parser(max_head);
  parser.reset(no_body);
  ResponseOutcome outcome;
  for (const std::string& piece : pieces) {
    const std::vector<char> bytes(piece.begin(), piece.end());
    outcome.state = parser.feed({bytes.data(), bytes.size()}, outcome.heard);
    outcome.consumed += parser.consumed();
    if (outcome.state != State::kMore) break;
  }
  if (ends && outcome.state == State::kMore) outcome.state = parser.finish();
  outcome.failure = parser.failure();
  outcome.keep_alive = parser.keep_alive();
  return outcome;
}

TEST(ResponseParser, LengthBody) {
  const ResponseOutcome outcome = parse_response(
      {"HTTP/1.1 200 OK\r\nContent-Type:  text/plain \r\nCONTENT-LENGTH: 5\r\n\r\nhelloHTTP"});
  EXPECT_EQ(outcome.state, State::kDone);
  EXPECT_EQ(outcome.heard.status, 200);
  EXPECT_THAT(outcome.heard.headers,
              ElementsAre(Pair("content-type", "text/plain"), Pair("content-length", "5")));
  EXPECT_EQ(outcome.heard.body, "hello");
  EXPECT_TRUE(outcome.keep_alive);
  EXPECT_EQ(outcome.consumed, 71u);
}

TEST(ResponseParser, ChunkedBody) {
  const ResponseOutcome outcome =
      parse_response({"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
                      "5\r\nhello\r\nA ; x=\"y\"\r\n, world!!!\r\n0\r\nTrailer: t\r\n\r\n"});
  EXPECT_EQ(outcome.state, State::kDone);
  EXPECT_EQ(outcome.heard.body, "hello, world!!!");
  EXPECT_TRUE(outcome.keep_alive);
}

TEST(ResponseParser, BodyUntilTheEnd) {
  const std::string text = "HTTP/1.0 200 OK\r\n\r\nall there is";
  EXPECT_EQ(parse_response({text}).state, State::kMore);
  const ResponseOutcome outcome = parse_response({text}, true);
  EXPECT_EQ(outcome.state, State::kDone);
  EXPECT_EQ(outcome.heard.body, "all there is");
  EXPECT_FALSE(outcome.keep_alive);
}

TEST(ResponseParser, NoBody) {
  EXPECT_EQ(parse_response({"HTTP/1.1 204 No Content\r\n\r\n"}).state, State::kDone);
  EXPECT_EQ(parse_response({"HTTP/1.1 304\r\nContent-Length: 9\r\n\r\n"}).state, State::kDone);
  EXPECT_EQ(parse_response({"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}, false, true).state,
            State::kDone);
  EXPECT_EQ(parse_response({"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}).state, State::kDone);
}

TEST(ResponseParser, KeepAlive) {
  const auto keeps = [](const std::string& head) {
    return parse_response({head + "Content-Length: 0\r\n\r\n"}).keep_alive;
  };
  EXPECT_TRUE(keeps("HTTP/1.1 200 OK\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0 200 OK\r\n"));
  EXPECT_TRUE(keeps("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1 200 OK\r\nConnection: x , CLOSE\r\n"));
}

TEST(ResponseParser, SkipsInterimResponses) {
  const ResponseOutcome outcome = parse_response(
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
       "Content-Length: 1\r\n\r\nx"});
  EXPECT_EQ(outcome.state, State::kDone);
  EXPECT_EQ(outcome.heard.heads, 1);
  EXPECT_EQ(outcome.heard.status, 200);
  std::string endless;
  for (int i = 0; i < 100; ++i) endless += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(parse_response({endless}).state, State::kFailed);
}

TEST(ResponseParser, LinesMayEndInLfAndHeadersMayFold) {
  const ResponseOutcome outcome =
      parse_response({"HTTP/1.1 200 OK\nA: b\n c\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n"});
  EXPECT_EQ(outcome.state, State::kDone);
  EXPECT_EQ(outcome.heard.headers[0].second, "b c");
  EXPECT_EQ(outcome.heard.body, "x");
}

TEST(ResponseParser, Truncation) {
  EXPECT_THAT(parse_response({"HTTP/1.1 200"}, true).failure, HasSubstr("header"));
  EXPECT_THAT(parse_response({"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"}, true).failure,
              HasSubstr("end of the body"));
  EXPECT_THAT(
      parse_response({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"}, true)
          .failure,
      HasSubstr("end of the body"));
  EXPECT_EQ(
      parse_response({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"}, true).state,
      State::kFailed);
}

TEST(ResponseParser, RefusesWhatIsMalformed) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string chunked = ok + "Transfer-Encoding: chunked\r\n\r\n";
  for (const std::string& text :
       std::vector<std::string>{"<html>\r\n\r\n",
                                "HTTP/2 200\r\n\r\n",
                                "HTTP/1.1 20\r\n\r\n",
                                "HTTP/1.1 2000\r\n\r\n",
                                "HTTP/1.1 099 x\r\n\r\n",
                                "HTTP/1.1 101 Switching\r\n\r\n",
                                "\r\n\r\n",
                                ok + "Bad Name: x\r\n\r\n",
                                ok + "no colon\r\n\r\n",
                                ok + ": x\r\n\r\n",
                                ok + "Content-Length: 5x\r\n\r\n",
                                ok + "Content-Length: -5\r\n\r\n",
                                ok + "Content-Length:\r\n\r\n",
                                ok + "Content-Length: 9999999999999999999\r\n\r\n",
                                ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
                                ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                                ok + "Transfer-Encoding: gzip\r\n\r\n",
                                ok + "Transfer-Encoding: gzip, chunked\r\n\r\n",
                                chunked + "x\r\n",
                                chunked + "\r\n",
                                chunked + "-1\r\n",
                                chunked + "1 2\r\n",
                                chunked + "10000000000000000\r\n",
                                chunked + "1\r\nxy\r\n",
                                chunked + "1;" + std::string(5000, 'e'),
                                ok + "A: " + std::string(1100, 'a')}) {
    const ResponseOutcome outcome = parse_response({text});
    EXPECT_EQ(outcome.state, State::kFailed) << text;
    EXPECT_FALSE(outcome.failure.empty());
  }
}

TEST(ResponseParser, StopsWhenTheSinkSaysSo) {
  ResponseParser parser;
  parser.reset(false);
  Collect heard;
  heard.stop_after = 3;
  EXPECT_EQ(parser.feed("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", heard),
            State::kStopped);
}

TEST(ResponseParser, EverySplitGivesTheSame) {
  const std::vector<std::string> texts = {
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n0a;e\r\n, world!!!\r\n0\r\nT: t\r\n\r\nHTTP/1.1 next",
      "HTTP/1.1 500 Oops\nContent-Length: 12\n\nhello, worldHTTP",
      "HTTP/1.0 200 OK\r\n\r\nuntil the end",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloworld",
  };
  for (const std::string& text : texts) {
    const ResponseOutcome whole = parse_response({text}, true);
    const auto expect_same = [&](const ResponseOutcome& other) {
      EXPECT_EQ(other.state, whole.state);
      EXPECT_EQ(other.heard.status, whole.heard.status);
      EXPECT_EQ(other.heard.headers, whole.heard.headers);
      EXPECT_EQ(other.heard.body, whole.heard.body);
      if (whole.state == State::kDone) {
        EXPECT_EQ(other.consumed, whole.consumed);
      }
    };
    for (std::size_t split = 0; split <= text.size(); ++split) {
      expect_same(parse_response({text.substr(0, split), text.substr(split)}, true));
    }
    std::vector<std::string> bytes;
    for (const char c : text) bytes.emplace_back(1, c);
    expect_same(parse_response(bytes, true));
  }
}

TEST(ResponseParser, ServesOneResponseAfterAnother) {
  ResponseParser parser;
  const std::string text = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
  for (int i = 0; i < 3; ++i) {
    parser.reset(false);
    EXPECT_FALSE(parser.started());
    Collect heard;
    EXPECT_EQ(parser.feed(text.substr(0, 10), heard), State::kMore);
    EXPECT_TRUE(parser.started());
    EXPECT_EQ(parser.feed(text.substr(10), heard), State::kDone);
    EXPECT_EQ(heard.body, "x");
  }
}

}  // namespace
}  // namespace saccade::net
