// A proxy that an HTTP client goes through: which, and how it is asked for a way to a host
// (RFC 9110 9.3.6). Internal to net/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::net {

struct HttpProxy {
  std::string host;
  std::uint16_t port = 80;
  std::string authorization;  // a header's line with its end; empty: none
  std::string name() const;   // "host:port", fit for a message
};

// "http://user:word@host:port", "host:port". Proxies that are themselves reached by TLS or SOCKS
// are kUnsupported. Messages do not show who the user is.
Result<HttpProxy> parse_http_proxy(std::string_view url);

std::string connect_request(const HttpProxy& proxy, const std::string& host, std::uint16_t port);

// What a proxy has answered to that, as far as it has come.
struct Tunnel {
  enum class State : std::uint8_t { kUndecided, kOpen, kRefused };
  State state = State::kUndecided;
  std::string why;  // of kRefused
};
Tunnel read_tunnel_answer(std::string_view bytes);

}  // namespace saccade::net
