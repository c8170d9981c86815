// An HTTP/1.1 server: routes to handlers, streams server-sent events, drains. The implementation is
// the only place with Beast; nothing here shows it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_budget.h"
#include "base/result.h"

namespace saccade::net {

struct HttpRequest {
  std::string method;
  std::string target;  // path and query as sent
  std::string path;    // decoded, without the query
  std::string query;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::string peer;                           // "127.0.0.1:54321"
  std::shared_ptr<ByteReservation> reserved;  // what was admitted for the body; null: none was
  std::string_view header(std::string_view lower_case_name) const;  // empty when absent
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// The head of an answer that comes in pieces.
struct AnswerHead {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<std::uint64_t> length;  // of the body; absent: nobody knows before its end
};

// The answering end of one request. Copyable handle, any thread. Exactly one of respond(),
// start_stream()..end_stream() or start_answer()..end_stream() or cut(). All calls are cheap posts
// to the connection's I/O thread, in order; writes after the peer left, or after the answer's end,
// are dropped. When the last copy goes away without an answer, the peer gets a 500 (a stream is
// cut).
class Responder {
 public:
  class Exchange;
  explicit Responder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

  void respond(HttpResponse response) const;

  // Server-sent events: 200 text/event-stream, chunked. write() takes complete "data: ...\n\n"
  // text, and is one flush; a slow reader's events coalesce in the connection's own buffer, and
  // past `max_buffered` bytes the connection is closed.
  void start_stream(std::vector<std::pair<std::string, std::string>> headers = {}) const;
  void write(std::string events) const;
  void end_stream() const;

  // An answer that is passed on as it comes, of any type: write() and end_stream() as for a stream.
  // The headers are sent as given, beside those of the body's length and of the connection.
  void start_answer(AnswerHead head) const;
  // Ends a begun answer so that the peer sees that it is not whole.
  void cut() const;

  // Called once on the I/O thread when the peer goes away before the answer is complete; at once
  // when it has already gone. The callback must not own the Responder: they would keep each other.
  void on_disconnect(std::function<void()> callback) const;
  bool disconnected() const;

 private:
  friend void write_all(std::vector<struct StreamWrite> writes);
  std::shared_ptr<Exchange> exchange_;
};

// Delivers many streams' events with one post per I/O thread: the engine calls it once a step.
struct StreamWrite {
  Responder to;
  std::string events;
  bool end = false;
};
void write_all(std::vector<StreamWrite> writes);

struct HttpServerSettings {
  std::string host = "127.0.0.1";  // or the absolute path of a Unix socket
  std::uint16_t port = 8000;       // 0 takes a free one
  int io_threads = 1;
  std::size_t max_body_bytes = 64u << 20;  // over it: 413, before the body is read
  std::size_t max_header_bytes = 64u << 10;
  std::size_t max_buffered = 16u << 20;  // per stream
  // Of answers and events that wait for slow readers, all connections together. Over it a stream
  // with more events is closed, and a large answer becomes a 503.
  std::size_t max_unsent = 512u << 20;
  // For a complete header, for the TLS handshake, and for a body beside 16 KiB/s.
  std::chrono::seconds header_timeout{30};
  std::chrono::seconds body_timeout{300};  // for a whole body, however fast
  // Between requests; and for any progress of a write. Peers that vanished without a word are
  // noticed by TCP keep-alive probes within about this time, at most 90 s.
  std::chrono::seconds idle_timeout{300};
  std::string tls_certificate;  // PEM paths, read again when they change; empty: plain HTTP
  std::string tls_key;
  // Body (application/json) of the answers that the server gives by itself: 400 malformed, 408,
  // 413, 431, 500 unanswered. Empty: {"error":{"message":...,"code":...}}.
  std::function<std::string(int status, std::string_view message)> error_body;
};

// The handler runs on an I/O thread and must not block: it posts a job and returns. Requests of one
// connection come one after another, each after the answer to the one before.
using HttpHandler = std::function<void(HttpRequest, Responder)>;

// What is said to a header, before any of the body is read.
struct HttpAdmission {
  std::optional<HttpResponse> refusal;  // the answer: the body is not read, the connection ends
  // For the body: as much as Content-Length says, and what a chunked body grows by.
  ByteReservation body;
};
// Called on an I/O thread for requests that announce a body; must not block. `length` is absent for
// a chunked one. Not called for what has none: the handler decides about those.
using HttpAdmit =
    std::function<HttpAdmission(const HttpRequest& head, std::optional<std::uint64_t> length)>;

class HttpServer {
 public:
  // Without `admit` every body is read, up to max_body_bytes.
  static Result<std::unique_ptr<HttpServer>> listen(const HttpServerSettings& settings,
                                                    HttpHandler handler, HttpAdmit admit = {});
  // Whether the address can be had and the TLS files be read now: for who has much to do before.
  static Result<void> check(const HttpServerSettings& settings);
  // Closes everything; on_disconnect callbacks of unfinished answers run before it returns.
  // Responders may live longer: they then do nothing. Not on an I/O thread.
  virtual ~HttpServer() = default;
  virtual std::uint16_t port() const = 0;
  // Lets running answers end and closes idle connections; every answer is now the last of its
  // connection. Newcomers are still heard, so that whoever asks how the server is can be told: what
  // is work is for the handler to refuse. Returns when all connections from before are closed or
  // the time is up; what is open then stays open until the destructor. Again: waits again. Not on
  // an I/O thread.
  virtual void drain(std::chrono::milliseconds limit) = 0;
  virtual std::size_t open_connections() const = 0;
};

}  // namespace saccade::net
