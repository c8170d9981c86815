#include "net/server/request_parser.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace saccade::net {
namespace {

constexpr std::size_t kMaxHeader = 4096;
constexpr std::size_t kMaxBody = 1024;

struct Outcome {
  bool done = false;
  int refusal_status = 0;
  std::string refusal;
  HttpRequest request;
  bool keep_alive = false;
  std::size_t consumed = 0;
};

// Feeds `pieces` as a connection does: unconsumed bytes stay in front of the next ones.
Outcome parse(const std::vector<std::string>& pieces) {
  RequestParser parser(kMaxHeader, kMaxBody);
  Outcome outcome;
  std::string held;
  for (const std::string& piece : pieces) {
    held += piece;
    while (true) {
      const RequestParser::Step step = parser.feed(held);
      held.erase(0, step.consumed);
      outcome.consumed += step.consumed;
      if (step.progress == RequestParser::Progress::kHeaderDone) continue;
      if (step.progress == RequestParser::Progress::kNeedMore) break;
      if (step.progress == RequestParser::Progress::kFailed) {
        outcome.refusal_status = parser.refusal_status();
        outcome.refusal = parser.refusal();
        return outcome;
      }
      outcome.done = true;
      outcome.keep_alive = parser.keep_alive();
      outcome.request = parser.take_request();
      return outcome;
    }
  }
  return outcome;
}

TEST(RequestParser, ReadsARequest) {
  const Outcome outcome =
      parse({"POST /v1/a%20b?x=1&y=%41 HTTP/1.1\r\nHost: h\r\nX-Mixed-Case:  value \r\n"
             "Content-Length: 5\r\n\r\nhello"});
  ASSERT_TRUE(outcome.done);
  EXPECT_EQ(outcome.request.method, "POST");
  EXPECT_EQ(outcome.request.target, "/v1/a%20b?x=1&y=%41");
  EXPECT_EQ(outcome.request.path, "/v1/a b");
  EXPECT_EQ(outcome.request.query, "x=1&y=%41");
  EXPECT_EQ(outcome.request.header("x-mixed-case"), "value");
  EXPECT_EQ(outcome.request.header("absent"), "");
  EXPECT_EQ(outcome.request.body, "hello");
  EXPECT_TRUE(outcome.keep_alive);
}

TEST(RequestParser, TargetForms) {
  const auto path = [](const std::string& target) {
    const Outcome outcome = parse({"GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n"});
    return outcome.request.path + "|" + outcome.request.query;
  };
  EXPECT_EQ(path("http://host:80/v1/models?a=b"), "/v1/models|a=b");
  EXPECT_EQ(path("http://host"), "/|");
  EXPECT_EQ(path("*"), "*|");
  EXPECT_EQ(path("/a?b?c"), "/a|b?c");
  EXPECT_EQ(path("/%zz%4"), "/%zz%4|");
}

// RFC 9112 3.2.2: a target that names a host says more than the Host header, and who goes by the
// header must not hear of another.
TEST(RequestParser, AHostInTheTargetIsTheHost) {
  const auto read = [](const std::string& target, const std::string& version = "1.1",
                       const std::string& header = "Host: localhost\r\n") {
    const Outcome outcome =
        parse({"GET " + target + " HTTP/" + version + "\r\n" + header + "\r\n"});
    const HttpRequest& request = outcome.request;
    return outcome.done
               ? std::string(request.header("host")) + "|" + request.target + "|" + request.path
               : std::to_string(outcome.refusal_status);
  };
  EXPECT_EQ(read("http://other.example/v1/models"),
            "other.example|http://other.example/v1/models|/v1/models");
  EXPECT_EQ(read("HTTPS://Other.example:8000?a=%41"),
            "Other.example:8000|HTTPS://Other.example:8000?a=%41|/");
  EXPECT_EQ(read("http://other.example#f"), "other.example|http://other.example#f|/");
  EXPECT_EQ(read("x://localhost@other.example/a"),
            "localhost@other.example|x://localhost@other.example/a|/a");
  EXPECT_EQ(read("/a?b=http://other.example/"), "localhost|/a?b=http://other.example/|/a");
  EXPECT_EQ(read("http://other.example/", "1.0", ""), "other.example|http://other.example/|/");
  EXPECT_EQ(read("a?b=http://other.example/"), "localhost|a?b=http://other.example/|a");
  for (const char* const nobody : {"http:///v1/models", "http://", "http://?a"})
    EXPECT_EQ(read(nobody), "400") << nobody;
}

TEST(RequestParser, TargetsInOriginForm) {
  EXPECT_EQ(origin_form("/a%20b?c=http://d/"), "/a%20b?c=http://d/");
  EXPECT_EQ(origin_form("http://host:80/a%20b?c"), "/a%20b?c");
  EXPECT_EQ(origin_form("http://host?c"), "/?c");
  EXPECT_EQ(origin_form("http://host"), "/");
  EXPECT_EQ(origin_form("*"), "*");
}

TEST(RequestParser, EverySplitGivesTheSame) {
  const std::string text =
      "\r\n\r\nPOST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;ext=1\r\nhello\r\nA\r\n, world!!!\r\n0\r\nTrailer: t\r\n\r\nGET /next";
  const std::size_t end = text.find("GET /next");
  for (std::size_t split = 0; split <= text.size(); ++split) {
    const Outcome outcome = parse({text.substr(0, split), text.substr(split)});
    ASSERT_TRUE(outcome.done) << split << " " << outcome.refusal;
    EXPECT_EQ(outcome.request.body, "hello, world!!!") << split;
    EXPECT_EQ(outcome.request.headers.size(), 2u) << "a trailer is no header; split " << split;
    EXPECT_EQ(outcome.consumed, end) << split;
  }
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  const Outcome outcome = parse(bytes);
  ASSERT_TRUE(outcome.done);
  EXPECT_EQ(outcome.request.body, "hello, world!!!");
}

TEST(RequestParser, RefusesWhatIsOverALimit) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(parse({head + "Content-Length: 1025\r\n\r\n"}).refusal_status, 413);
  EXPECT_EQ(parse({head + "Content-Length: 1024\r\n\r\n"}).refusal_status, 0);
  EXPECT_EQ(parse({head + "Transfer-Encoding: chunked\r\n\r\n401\r\n"}).refusal_status, 413);
  EXPECT_EQ(parse({head + "Transfer-Encoding: chunked\r\n\r\n400\r\n" + std::string(1024, 'x') +
                   "\r\n1\r\n"})
                .refusal_status,
            413);
  EXPECT_NE(parse({head + "Content-Length: 1025\r\n\r\n"}).refusal.find("1024"), std::string::npos);
  EXPECT_EQ(parse({head + "X: " + std::string(kMaxHeader, 'a')}).refusal_status, 431);
  EXPECT_EQ(parse({"GET /" + std::string(kMaxHeader, 'a')}).refusal_status, 431);
  EXPECT_EQ(parse({head + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(5000, 'x')})
                .refusal_status,
            400);
}

TEST(RequestParser, RefusesWhatIsAmbiguousOrMalformed) {
  const auto status = [](const std::string& text) { return parse({text}).refusal_status; };
  EXPECT_EQ(
      status(
          "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
      400);
  EXPECT_EQ(
      status(
          "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
      400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
            400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n"),
            400);
  EXPECT_EQ(status("GET / HTTP/2.7\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: h\r\nBad Name: x\r\n\r\n"), 400);
  EXPECT_EQ(status("GET /\r\n\r\n"), 400);
  EXPECT_EQ(status(std::string("GET /\0x HTTP/1.1\r\nHost: h\r\n\r\n", 29)), 400);
  EXPECT_EQ(status("\x16\x03\x01\x02\x01 TLS to a plain port\r\n\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 400);
}

// What is ignored here is a body there: whoever stands in front may read the lengths differently.
TEST(RequestParser, RefusesTransferEncodingsOtherThanChunked) {
  const auto status = [](const std::string& headers, const std::string& version = "1.1") {
    const Outcome outcome =
        parse({"POST / HTTP/" + version + "\r\nHost: h\r\n" + headers + "\r\n0\r\n\r\n"});
    return outcome.done ? 200 : outcome.refusal_status;
  };
  const auto coding = [&](const std::string& value) {
    return status("Transfer-Encoding: " + value + "\r\n");
  };
  for (const char* const fine : {"chunked", "Chunked", "  CHUNKED\t"})
    EXPECT_EQ(coding(fine), 200) << fine;
  for (const char* const unknown :
       {"cow", "identity", "\"chunked\"", "gzip", "gzip, chunked", "x-chunked", "chunked;a=b",
        "chunked chunked", "", ",chunked", "chunke\xc4"})
    EXPECT_EQ(coding(unknown), 501) << unknown;
  // No character of a value.
  for (const char* const broken : {"\vchunked", "chunked\v"})
    EXPECT_GE(coding(broken), 400) << broken;
  for (const char* const misplaced :
       {"chunked, gzip", "chunked, chunked", "chunked,", "chunked, cow"})
    EXPECT_EQ(coding(misplaced), 400) << misplaced;
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n"), 400);
  EXPECT_EQ(status("Transfer-Encoding: cow\r\nTransfer-Encoding: chunked\r\n"), 501);
  EXPECT_EQ(status("Transfer-Encoding: cow\r\nContent-Length: 5\r\n"), 501);
  EXPECT_EQ(status("Transfer-Encoding : chunked\r\n"), 400);
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\n", "1.0"), 400);
  EXPECT_EQ(parse({"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: cow\r\n\r\n"}).refusal,
            "Transfer-Encoding 'cow' is not supported; chunked is");
}

TEST(RequestParser, RefusesSeveralHosts) {
  EXPECT_EQ(parse({"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"}).refusal_status, 400);
}

// RFC 9112 3.2: a name is required, which may be empty.
TEST(RequestParser, RefusesNoHost) {
  EXPECT_EQ(parse({"GET / HTTP/1.1\r\n\r\n"}).refusal_status, 400);
  EXPECT_EQ(parse({"GET http://h/ HTTP/1.1\r\nX: y\r\n\r\n"}).refusal_status, 400);
  EXPECT_TRUE(parse({"GET / HTTP/1.1\r\nHost:\r\n\r\n"}).done);
  EXPECT_TRUE(parse({"GET / HTTP/1.0\r\n\r\n"}).done);
}

// RFC 9112 5.2, however it arrives.
TEST(RequestParser, RefusesFoldedHeaders) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const std::string folded :
       {"X: a\r\n b\r\n", "X: a\r\n\tb\r\n", "X:\r\n a\r\n", "X: a\r\n \r\n"}) {
    const std::string text = head + folded + "Content-Length: 2\r\n\r\n\n ";
    for (std::size_t split = 0; split <= text.size(); ++split) {
      const Outcome outcome = parse({text.substr(0, split), text.substr(split)});
      EXPECT_FALSE(outcome.done) << folded << split;
      EXPECT_EQ(outcome.refusal_status, 400) << folded << split;
    }
  }
  EXPECT_EQ(parse({"GET / HTTP/1.1\r\n Host: h\r\n\r\n"}).refusal_status, 400);
  EXPECT_TRUE(parse({head + "Content-Length: 2\r\n\r\n\n "}).done);  // a body
  EXPECT_TRUE(parse({head + "Transfer-Encoding: chunked\r\n\r\n2\r\n\n \r\n0\r\n\r\n"}).done);
}

TEST(RequestParser, RandomBytesNeitherCrashNorGrow) {
  Rng rng(7);
  const std::string alphabet = "GET POST/ HTTP/1.1\r\n:chunkedContent-Length0123;\0\xff";
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> pieces;
    for (std::uint64_t i = rng.below(20); i > 0; --i) {
      std::string piece;
      for (std::uint64_t n = rng.below(30); n > 0; --n) {
        piece.push_back(alphabet[rng.below(alphabet.size())]);
      }
      pieces.push_back(std::move(piece));
    }
    const Outcome outcome = parse(pieces);
    EXPECT_LE(outcome.request.body.size(), kMaxBody);
  }
}

}  // namespace
}  // namespace saccade::net
