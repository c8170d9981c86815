// Which proxy the environment names for a URL: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY,
// read as other clients read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saccade::net {

struct ProxyChoice {
  std::string http;  // URLs of proxies, by the scheme of what is fetched; empty: none
  std::string https;
  // Names and addresses that are reached without one, at commas or blanks: "example.org" and
  // ".example.org" are it and what is below it, "10.0.0.0/8" addresses, "host:8080" one port, "*"
  // all.
  std::string none;

  // Names in lower case win over those in capitals.
  static ProxyChoice of_environment();

  // Empty: none. `host` without brackets.
  std::string proxy_of(std::string_view scheme, std::string_view host, std::uint16_t port) const;
};

}  // namespace saccade::net
