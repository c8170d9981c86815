// Bytes of one HTTP/1.1 request, as they arrive, to an HttpRequest: bounded, strict, no sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/server/http_server.h"

namespace saccade::net {

// One request; make another for the next. One thread.
class RequestParser {
 public:
  enum class Progress {
    kNeedMore,    // give the unconsumed bytes again, with more behind them
    kHeaderDone,  // once: the body, if any, has not been looked at
    kDone,
    kFailed,  // refusal_status() and refusal() say why; the connection cannot be used on
  };
  struct Step {
    Progress progress = Progress::kNeedMore;
    std::size_t consumed = 0;
  };

  RequestParser(std::size_t max_header_bytes, std::size_t max_body_bytes);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  Step feed(std::string_view bytes);

  // After kHeaderDone.
  bool keep_alive() const;
  bool http_1_0() const;
  bool expects_continue() const;
  const HttpRequest& request() const;  // as far as it has come
  bool has_body() const;
  std::optional<std::uint64_t> content_length() const;  // absent when chunked
  // Makes room for all of the body at once: for one that is admitted. False: there is no memory.
  bool reserve_body(std::size_t bytes);
  HttpRequest take_request();  // after kDone; `peer` is not set

  // After kFailed: the HTTP status to answer with, and a sentence naming the limit.
  int refusal_status() const { return refusal_status_; }
  const std::string& refusal() const { return refusal_; }

 private:
  class Fields;
  Step fail(int status, std::string why);
  std::unique_ptr<Fields> fields_;
  std::size_t max_header_bytes_;
  std::size_t max_body_bytes_;
  bool header_reported_ = false;
  int refusal_status_ = 0;
  std::string refusal_;
};

// "/path?query" of a target that may be "http://host/path?query" (RFC 9112 3.2.2).
std::string origin_form(std::string_view target);

}  // namespace saccade::net
