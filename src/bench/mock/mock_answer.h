// The bytes of the mock server's answers, most of them built once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/mock/mock_server.h"

namespace saccade::bench {

// What the mock reads out of a request.
struct MockRequest {
  std::string method;
  std::string path;   // without the query
  bool json = false;  // Content-Type says so
  bool chat = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  int max_tokens = -1;  // -1: not set
  std::uint64_t body_bytes = 0;
};

// Looks for the fields by their quoted names: `body` may be the beginning and the end of a long
// one. A name inside a string has its quotes escaped, and is not found.
void read_body_fields(std::string_view body, MockRequest& request);

// One thread.
class MockText {
 public:
  explicit MockText(const MockSettings& settings);

  std::string_view stream_head() const { return stream_head_; }
  // One chunk with `count` events, each of tokens_per_event tokens. Valid until the next call.
  std::string_view burst(bool chat, int count);
  // One chunk with events [first, first + count) of an answer, usage in each.
  std::string counted_burst(const MockRequest& request, int first, int count) const;
  std::string role_event() const;  // one chunk
  // The chunk with the answer's last event, usage when asked, [DONE], and the end of the body.
  std::string tail(const MockRequest& request, int tokens) const;
  std::string error_tail() const;  // an error event and the end of the body

  std::string json_answer(const MockRequest& request, int tokens) const;
  std::string models() const;

 private:
  std::string event(bool chat, int tokens, bool last, std::string_view usage) const;
  std::string usage(const MockRequest& request, int tokens) const;
  const MockSettings& settings_;
  std::string stream_head_;
  std::vector<std::string> bursts_[2];  // by chat, count
};

std::string http_answer(int status, std::string_view content_type, std::string_view body);

}  // namespace saccade::bench
