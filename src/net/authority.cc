#include "net/authority.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/text/ascii.h"

namespace saccade::net {
namespace {

constexpr std::size_t kMaxHost = 255;
constexpr std::size_t kMaxPortDigits = 5;

bool is_name_char(char c) {
  return ascii::is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_';
}

bool is_v4(const std::string& host, in_addr& address) {
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool is_v6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

std::optional<Authority> parse_authority(std::string_view text) {
  Authority made;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    made.host = ascii::lower(text.substr(1, close - 1));
    if (!is_v6(made.host)) return std::nullopt;
    rest = text.substr(close + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    made.host = ascii::lower(text.substr(0, colon));
    if (made.host.empty() || made.host.size() > kMaxHost ||
        !std::ranges::all_of(made.host, is_name_char))
      return std::nullopt;
    rest = text.substr(colon);
  }
  if (rest.empty()) return made;
  made.port = rest.substr(1);
  if (rest.front() != ':' || made.port.size() > kMaxPortDigits ||
      !std::ranges::all_of(made.port, ascii::is_digit))
    return std::nullopt;
  return made;
}

bool is_address(const std::string& host) {
  in_addr v4{};
  return is_v4(host, v4) || is_v6(host);
}

bool is_loopback(const std::string& host) {
  if (host == "localhost" || host.ends_with(".localhost") || host == "::1") return true;
  in_addr v4{};
  return is_v4(host, v4) && (ntohl(v4.s_addr) >> 24) == 127;
}

bool names_this_server(std::string_view host_header, std::span<const std::string> allowed) {
  if (host_header.empty()) return true;
  const auto authority = parse_authority(host_header);
  if (authority && (is_address(authority->host) || is_loopback(authority->host))) return true;
  return std::ranges::any_of(allowed, [&](const std::string& given) {
    const std::string name = ascii::lower(given);
    if (name == "*") return true;
    if (!authority) return false;
    if (name.starts_with("*.")) return authority->host.ends_with(std::string_view(name).substr(1));
    return authority->host == name;
  });
}

}  // namespace saccade::net
