#include "net/client/proxy_choice.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/text/ascii.h"

namespace saccade::net {
namespace {

std::string variable(std::string_view name) {
  for (const std::string& form : {ascii::lower(name), std::string(name)}) {
    const char* const value = std::getenv(form.c_str());
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

// "10.1.2.3" in "10.0.0.0/8"; of IPv6 likewise.
bool in_network(const std::string& host, std::string_view network) {
  const std::size_t slash = network.find('/');
  if (slash == std::string_view::npos) return false;
  unsigned bits = 0;
  const char* const end = network.data() + network.size();
  const auto [at, error] = std::from_chars(network.data() + slash + 1, end, bits);
  if (error != std::errc() || at != end) return false;
  const std::string base(network.substr(0, slash));
  for (const auto& [family, bytes] : {std::pair{AF_INET, 4U}, std::pair{AF_INET6, 16U}}) {
    std::array<unsigned char, 16> a{};
    std::array<unsigned char, 16> b{};
    if (inet_pton(family, host.c_str(), a.data()) != 1 ||
        inet_pton(family, base.c_str(), b.data()) != 1)
      continue;
    if (bits > 8 * bytes) return false;
    const std::size_t whole = bits / 8;
    if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(whole), b.begin()))
      return false;
    const unsigned rest = bits % 8;
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
  }
  return false;
}

bool matches(std::string entry, const std::string& host, std::uint16_t port) {
  if (entry == "*" || in_network(host, entry)) return true;
  const bool v6 = std::ranges::count(entry, ':') > 1 && !entry.starts_with('[');
  const std::size_t colon = v6 ? std::string::npos : entry.rfind(':');
  if (colon != std::string::npos && entry.find(']', colon) == std::string::npos) {
    if (entry.substr(colon + 1) != std::to_string(port)) return false;
    entry.resize(colon);
  }
  if (entry.starts_with('[') && entry.ends_with(']')) entry = entry.substr(1, entry.size() - 2);
  if (entry.starts_with("*.")) entry.erase(0, 1);
  if (entry.starts_with('.')) entry.erase(0, 1);
  return !entry.empty() && (host == entry || host.ends_with("." + entry));
}

}  // namespace

ProxyChoice ProxyChoice::of_environment() {
  const std::string all = variable("ALL_PROXY");
  const auto or_all = [&](std::string own) { return own.empty() ? all : own; };
  return {or_all(variable("HTTP_PROXY")), or_all(variable("HTTPS_PROXY")), variable("NO_PROXY")};
}

std::string ProxyChoice::proxy_of(std::string_view scheme, std::string_view host,
                                  std::uint16_t port) const {
  const std::string& proxy = scheme == "https" ? https : http;
  if (proxy.empty()) return {};
  std::string name = ascii::lower(host);
  if (name.ends_with('.')) name.pop_back();
  constexpr std::string_view kBetween = ", \t";
  const std::string entries = ascii::lower(none);
  for (std::size_t at = entries.find_first_not_of(kBetween); at != std::string::npos;) {
    const std::size_t end = std::min(entries.find_first_of(kBetween, at), entries.size());
    if (matches(entries.substr(at, end - at), name, port)) return {};
    at = entries.find_first_not_of(kBetween, end);
  }
  return proxy;
}

}  // namespace saccade::net
