// HOST or HOST:PORT, as the Host header and origins have it, and which hosts are whose.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace saccade::net {

struct Authority {
  std::string host;  // in lower case, an address of IPv6 without its brackets
  std::string port;  // digits; empty: not said, as in "HOST:" too (RFC 3986 3.2.3)
};

// Read whole: nothing may stand before the host (a user's name), between its parts, or behind the
// port.
std::optional<Authority> parse_authority(std::string_view text);

bool is_address(const std::string& host);
// localhost, a name below it, 127.0.0.0/8 or ::1.
bool is_loopback(const std::string& host);

// A request may be meant for this server, by its Host header. A page can give any name of its own
// this machine's address (DNS rebinding), and its requests then look like those of the server's own
// page, but for that name: so where clients need no key, a name is taken that is localhost or in
// `allowed` ("*.example.org": what lies below it; "*": every one), and any address. An empty header
// is no browser's.
bool names_this_server(std::string_view host_header, std::span<const std::string> allowed);

}  // namespace saccade::net
