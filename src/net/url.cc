// parse_url: only what a client of an API server needs.
#include <algorithm>
#include <charconv>

#include "base/text/ascii.h"
#include "net/client/http_client.h"

namespace saccade::net {
namespace {

constexpr std::size_t kMaxUrl = 64u << 10;

bool is_host_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c == '-' || c == '_';
}

bool is_ipv6_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '.' ||
         c == ':' || c == '%';
}

// "host", "host:port", "[v6]:port" into `url`.
bool parse_authority(std::string_view authority, Url& url) {
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return false;
    url.host = authority.substr(1, close - 1);
    if (!std::all_of(url.host.begin(), url.host.end(), is_ipv6_char)) return false;
    port = authority.substr(close + 1);
  } else {
    const std::size_t colon = authority.find(':');
    url.host = authority.substr(0, colon);
    if (!std::all_of(url.host.begin(), url.host.end(), is_host_char)) return false;
    if (colon != std::string_view::npos) port = authority.substr(colon);
  }
  if (url.host.empty()) return false;
  if (port.empty()) return true;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data() + 1, port.data() + port.size(), number);
  if (port.front() != ':' || error != std::errc() || end != port.data() + port.size() ||
      number == 0 || number > 65535) {
    return false;
  }
  url.port = static_cast<std::uint16_t>(number);
  return true;
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kMaxUrl) {
    return fail(ErrorCode::kInvalid, "URL of {} bytes, limit {}", text.size(), kMaxUrl);
  }
  Url url;
  url.scheme = "http";
  std::string_view rest = text;
  const std::size_t scheme_end = text.find("://");
  if (scheme_end != std::string_view::npos) {
    url.scheme = ascii::lower(text.substr(0, scheme_end));
    rest.remove_prefix(scheme_end + 3);
  }
  if (url.scheme != "http" && url.scheme != "https") {
    return fail(ErrorCode::kInvalid, "URL \"{}\": the scheme is neither http nor https", text);
  }
  url.port = url.scheme == "https" ? 443 : 80;
  const std::size_t authority_end = std::min(rest.find_first_of("/?#"), rest.size());
  if (!parse_authority(rest.substr(0, authority_end), url)) {
    return fail(ErrorCode::kInvalid, "URL \"{}\": no valid host and port", text);
  }
  rest.remove_prefix(authority_end);
  rest = rest.substr(0, rest.find('#'));
  url.path = rest.starts_with('/') ? "" : "/";
  url.path += rest;
  const auto breaks_request_line = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  if (std::any_of(url.path.begin(), url.path.end(), breaks_request_line)) {
    return fail(ErrorCode::kInvalid, "URL \"{}\": blanks and control characters must be escaped",
                text);
  }
  return url;
}

}  // namespace saccade::net
