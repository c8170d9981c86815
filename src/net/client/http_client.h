// An HTTP/1.1 client for many streams at once: keep-alive pool, absolute deadlines, instants of
// every byte that matters. Used by bench and proxy.
#pragma once

#include <cstddef>
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
// "http://host:port/path?query", "https://[::1]/", "host:8000" (http). No user names. A fragment is
// dropped.
Result<Url> parse_url(std::string_view text);

// Several owners, one copy: base64 images are shared between requests and never joined.
using SharedBytes = std::shared_ptr<const std::string>;

struct ClientRequest {
  std::string method = "POST";
  Url url;
  // Host, Content-Length, Content-Type, Accept and User-Agent are the client's, unless one of the
  // last three is named here.
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<SharedBytes> body;  // written by scatter/gather, in order
  // Of the body. Not sent without one; servers refuse a body without a type (415).
  std::string content_type = "application/json";
  Nanos deadline = 0;  // absolute, SteadyClock; 0: none
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

// Why there is no complete response. An HTTP status such as 500 is a response, not a failure.
enum class ClientFailure : std::uint8_t {
  kNone,
  kConnect,    // no connection: name, refused, unreachable, no descriptors
  kTls,        // handshake or certificate
  kTimeout,    // the deadline, or connect_timeout
  kProtocol,   // what came is not HTTP/1
  kTruncated,  // the connection broke before the response was complete
  kTooLarge,   // over max_body_bytes
  kCancelled,  // by on_body, cancel(), or the end of the client
};
std::string_view name_of(ClientFailure failure);
ErrorCode error_code_of(ClientFailure failure);

// With a failure, what is known until then: instants, and status and headers if they came.
struct ClientResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;                                          // empty when on_body took it
  ClientTimes times;
  ClientFailure failure = ClientFailure::kNone;
  std::string error;  // for a person: names the peer and what went wrong

  std::string_view header(std::string_view lower_case_name) const;  // empty when absent
};

// Callbacks run on the client's own thread, and may start requests. on_body gets body bytes as they
// arrive, with the instant of the read; returning false cancels. on_done is called exactly once.
struct ClientHandlers {
  std::function<void(const ClientResponse& so_far)> on_headers;  // no body yet
  std::function<bool(std::string_view bytes, Nanos at)> on_body;
  std::function<void(ClientResponse)> on_done;
};

struct HttpClientSettings {
  std::size_t max_connections = 65'536;     // over it: kConnect at once
  bool fresh_connections = false;           // one connection a request
  bool verify_tls = true;                   // certificate and host name
  std::string ca_file;                      // PEM; empty: the system's
  bool environment_proxies = false;         // what HTTP_PROXY, HTTPS_PROXY and NO_PROXY name
  Nanos connect_timeout = 30 * kSecond;     // name look-up, TCP and TLS together
  std::size_t max_body_bytes = 256u << 20;  // of bodies kept in ClientResponse
};

// What the client has done so far.
struct ClientCounters {
  std::uint64_t connects = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  Nanos cpu_time = 0;  // of the client's thread
};

// One thread, one event loop. N clients make N threads. The destructor ends all requests as
// cancelled; not on the client's thread.
class HttpClient {
 public:
  using RequestId = std::uint64_t;

  static Result<std::unique_ptr<HttpClient>> create(const HttpClientSettings& settings);
  virtual ~HttpClient() = default;

  // Blocking convenience, from any thread but the loop's. A failure is an Error here.
  virtual Result<ClientResponse> send(ClientRequest request) = 0;

  // From any thread. Starts at once. A request that finds its pooled connection closed before any
  // byte of a response is sent again, once, on a fresh connection.
  virtual RequestId start(ClientRequest request, ClientHandlers handlers) = 0;
  // From any thread. No effect when the request has ended.
  virtual void cancel(RequestId request) = 0;

  // Runs `task` on the loop's thread at an absolute SteadyClock instant (spins through the last
  // microseconds). From any thread.
  virtual void at(Nanos when, std::function<void()> task) = 0;
  virtual void post(std::function<void()> task) = 0;

  virtual ClientCounters counters() const = 0;  // from any thread
};

}  // namespace saccade::net
