#include "serve/origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

namespace saccade::serve {
namespace {

std::string lower(std::string_view text) {
  std::string made(text);
  for (char& c : made) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return made;
}

// "[::1]:80" and "name:80" without the port and the brackets.
std::string host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    return close == std::string_view::npos ? "" : lower(authority.substr(1, close - 1));
  }
  return lower(authority.substr(0, authority.find(':')));
}

bool is_v4(const std::string& host, in_addr& address) {
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool is_address(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return is_v4(host, v4) || inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

bool is_loopback(const std::string& host) {
  if (host == "localhost" || host.ends_with(".localhost") || host == "::1") return true;
  in_addr v4{};
  return is_v4(host, v4) && (ntohl(v4.s_addr) >> 24) == 127;
}

}  // namespace

bool may_use(std::string_view origin, std::string_view host_header,
             std::span<const std::string> allowed, bool keyed) {
  if (origin.empty()) return true;
  const auto named = [&](std::string_view name) {
    return std::find(allowed.begin(), allowed.end(), name) != allowed.end();
  };
  if (named("*") || named(origin)) return true;
  std::string_view authority;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) authority = origin.substr(scheme.size());
  }
  const std::string host = host_of(authority);
  if (host.empty()) return false;  // "null", "file://", an extension's
  if (is_loopback(host)) return true;
  return lower(authority) == lower(host_header) && (keyed || is_address(host));
}

}  // namespace saccade::serve
