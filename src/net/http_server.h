// An HTTP/1.1 server: routes to handlers, streams server-sent events, drains. The implementation is
// the only place with Beast; nothing here shows it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace saccade::net {

struct HttpRequest {
  std::string method;
  std::string target;  // path and query as sent
  std::string path;    // decoded, without the query
  std::string query;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::string peer;                                                 // "127.0.0.1:54321"
  std::string_view header(std::string_view lower_case_name) const;  // empty when absent
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// The answering end of one request. Copyable handle, any thread. Exactly one of respond() or
// start_stream()..end_stream(). All calls are cheap posts to the connection's I/O thread; writes
// after the peer left are dropped.
class Responder {
 public:
  class Connection;
  explicit Responder(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  void respond(HttpResponse response) const;

  // Server-sent events: 200 text/event-stream, chunked. write() takes complete "data: ...\n\n"
  // text; a slow reader's events coalesce in the connection's own buffer, and past `max_buffered`
  // bytes the connection is closed.
  void start_stream(std::vector<std::pair<std::string, std::string>> headers = {}) const;
  void write(std::string events) const;
  void end_stream() const;

  // Called once on the I/O thread when the peer goes away before the answer is complete. Set before
  // answering.
  void on_disconnect(std::function<void()> callback) const;
  bool disconnected() const;

 private:
  std::shared_ptr<Connection> connection_;
};

// Delivers many streams' events with one post per I/O thread: the engine calls it once a step.
struct StreamWrite {
  Responder to;
  std::string events;
  bool end = false;
};
void write_all(std::vector<StreamWrite> writes);

struct HttpServerSettings {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;  // 0 takes a free one
  int io_threads = 1;
  std::size_t max_body_bytes = 64u << 20;  // over it: 413, before the body is read
  std::size_t max_header_bytes = 64u << 10;
  std::size_t max_buffered = 16u << 20;  // per stream
  std::chrono::seconds header_timeout{30};
  std::chrono::seconds idle_timeout{300};
  std::string tls_certificate;  // PEM paths; empty: plain HTTP
  std::string tls_key;
};

// The handler runs on an I/O thread and must not block: it posts a job and returns.
using HttpHandler = std::function<void(HttpRequest, Responder)>;

class HttpServer {
 public:
  static Result<std::unique_ptr<HttpServer>> listen(const HttpServerSettings& settings,
                                                    HttpHandler handler);
  virtual ~HttpServer() = default;
  virtual std::uint16_t port() const = 0;
  // Stops accepting, lets running answers end, closes idle connections. Returns when all are closed
  // or the time is up.
  virtual void drain(std::chrono::milliseconds limit) = 0;
  virtual std::size_t open_connections() const = 0;
};

}  // namespace saccade::net
