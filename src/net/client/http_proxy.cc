#include "net/client/http_proxy.h"

#include <fmt/format.h>

#include "base/text/base64.h"
#include "net/client/http_client.h"
#include "net/http_text.h"
#include "net/shown_host.h"

namespace saccade::net {
namespace {

constexpr std::size_t kMaxAnswer = 16U << 10;

std::string name_and_port(const std::string& host, std::uint16_t port) {
  return fmt::format("{}:{}", shown_host(host), port);
}

}  // namespace

std::string HttpProxy::name() const { return name_and_port(host, port); }

Result<HttpProxy> parse_http_proxy(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::string_view kind = scheme == std::string_view::npos ? "http" : url.substr(0, scheme);
  if (kind != "http")
    return fail(ErrorCode::kUnsupported,
                "a proxy of the environment is a {} one; such as http://HOST:PORT are supported",
                kind.substr(0, 20));
  std::string_view rest = scheme == std::string_view::npos ? url : url.substr(scheme + 3);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  HttpProxy proxy;
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    proxy.authorization = fmt::format("Proxy-Authorization: Basic {}\r\n",
                                      base64_encode(percent_decode(rest.substr(0, at))));
    rest.remove_prefix(at + 1);
  }
  const auto where = parse_url(fmt::format("http://{}", rest));
  if (!where)
    return fail(ErrorCode::kInvalid, "a proxy of the environment has no valid host and port");
  proxy.host = where->host;
  proxy.port = where->port;
  return proxy;
}

std::string connect_request(const HttpProxy& proxy, const std::string& host, std::uint16_t port) {
  const std::string to = name_and_port(host, port);
  return fmt::format("CONNECT {} HTTP/1.1\r\nHost: {}\r\n{}\r\n", to, to, proxy.authorization);
}

Tunnel read_tunnel_answer(std::string_view bytes) {
  using State = Tunnel::State;
  const std::size_t end = bytes.find("\r\n\r\n");
  const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  if (end == std::string_view::npos)
    return bytes.size() > kMaxAnswer ? Tunnel{State::kRefused, "its answer has no end"} : Tunnel{};
  if (!line.starts_with("HTTP/1.") || line.size() < 12 || line[8] != ' ')
    return {State::kRefused, "it does not answer in HTTP/1"};
  if (line[9] != '2') return {State::kRefused, fmt::format("status {}", line.substr(9, 3))};
  // Nobody behind it says anything before TLS begins.
  if (end + 4 != bytes.size()) return {State::kRefused, "it sends more than its answer"};
  return {State::kOpen, {}};
}

}  // namespace saccade::net
