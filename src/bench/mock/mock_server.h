// A server of programmed behaviour: the other end of `saccade bench selftest`, and of tests. It
// answers the OpenAI API with made-up tokens at exact instants, fails as asked, refuses bodies that
// are not said to be JSON (415, as vLLM), and is cheap enough not to be what limits a client.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace saccade::bench {

struct MockSettings {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;  // 0 takes a free one
  int threads = 1;
  std::string model = "mock";
  std::int64_t max_model_len = 32'768;

  // Answers are begun one after the other, this long apart at least: a server with a capacity.
  Nanos service_time = 0;
  Nanos ttft = 0;   // from the last byte of the request to the first token
  Nanos itl = 0;    // from one event to the next
  int tokens = 16;  // of an answer, when the request sets no limit
  int tokens_per_event = 1;
  int events_per_write = 1;  // events that wait for each other and leave in one write
  bool role_chunk = false;   // a first event with a role and no token, sent at once
  bool finish_reason = true;
  bool done = true;  // data: [DONE]

  // Nothing leaves the server for this long, from this instant after the first request on.
  Nanos stall_at = 0;
  Nanos stall_for = 0;

  // Shares of the requests, drawn by `seed` and the request's number.
  double http_error_share = 0;  // status http_error_status with an error object
  int http_error_status = 500;
  double html_share = 0;     // 200 and a web page
  double cut_share = 0;      // the connection closes in the middle of the answer
  double error_share = 0;    // an error event in the middle of the answer, then the end
  double endless_share = 0;  // the answer goes on until the client leaves
  double hang_share = 0;     // no answer at all
  std::uint64_t seed = 0;
};

// What becomes of a completion request.
enum class MockFate { kAnswer, kHttpError, kHtml, kCut, kError, kEndless, kHang };
// Of the request with this number, counted from 0 in order of arrival. A pure function.
MockFate mock_fate(const MockSettings& settings, std::uint64_t request_number);

struct MockCounts {
  std::uint64_t connections = 0;  // accepted so far
  std::uint64_t requests = 0;     // answers begun
  std::uint64_t events = 0;       // sent
  // Means over the answers streamed to their end, as written and not as programmed: from the
  // request's last byte to the first token, and from one event to the next. 0 without any.
  double ttft_ms = 0;
  double itl_ms = 0;
};

// Stops, and closes everything, when destroyed.
class MockServer {
 public:
  static Result<std::unique_ptr<MockServer>> start(const MockSettings& settings);
  virtual ~MockServer() = default;
  virtual std::uint16_t port() const = 0;
  virtual MockCounts counts() const = 0;  // any thread
};

}  // namespace saccade::bench
