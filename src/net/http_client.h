// An HTTP/1.1 client for many streams at once: keep-alive pool, absolute deadlines, instants of
// every byte that matters. Used by bench and proxy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace saccade::net {

struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;
  std::uint16_t port = 80;
  std::string path;  // with query; "/" when empty
};
Result<Url> parse_url(std::string_view text);

// Several owners, one copy: base64 images are shared between requests and never joined.
using SharedBytes = std::shared_ptr<const std::string>;

struct ClientRequest {
  std::string method = "POST";
  Url url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<SharedBytes> body;  // written by scatter/gather, in order
  Nanos deadline = 0;             // absolute, SteadyClock; 0: none
};

// Instants on the SteadyClock axis; 0 where it did not happen. bench.md 1.1.
struct ClientTimes {
  Nanos start = 0;      // the request was taken up
  Nanos connected = 0;  // a connection was ready (= start when pooled)
  Nanos sent = 0;       // last body byte handed to the kernel
  Nanos headers = 0;    // status line and headers seen
  Nanos end = 0;        // body ended, or the error
  bool reused_connection = false;
};

struct ClientResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;                                          // empty when on_body took it
  ClientTimes times;
};

// Callbacks run on the client's own thread. on_body gets body bytes as they arrive, with the
// instant of the read; returning false cancels. on_done is called exactly once.
struct ClientHandlers {
  std::function<void(int status, const ClientTimes&)> on_headers;
  std::function<bool(std::string_view bytes, Nanos at)> on_body;
  std::function<void(Result<ClientResponse>)> on_done;
};

struct HttpClientSettings {
  std::size_t max_connections = 65'536;
  bool fresh_connections = false;  // one connection a request
  bool verify_tls = true;
  std::string ca_file;
  Nanos connect_timeout = 30 * kSecond;
  std::size_t max_body_bytes = 256u << 20;  // of bodies kept in ClientResponse
};

// One thread, one event loop. N clients make N threads.
class HttpClient {
 public:
  static Result<std::unique_ptr<HttpClient>> create(const HttpClientSettings& settings);
  virtual ~HttpClient() = default;

  // Blocking convenience, from any thread but the loop's.
  virtual Result<ClientResponse> send(ClientRequest request) = 0;

  // From any thread. Starts at once.
  virtual void start(ClientRequest request, ClientHandlers handlers) = 0;

  // Runs `task` on the loop's thread at an absolute SteadyClock instant (spins through the last
  // microseconds).
  virtual void at(Nanos when, std::function<void()> task) = 0;
  virtual void post(std::function<void()> task) = 0;
};

}  // namespace saccade::net
