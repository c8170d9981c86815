// Which network addresses a server must not be talked into visiting.
#pragma once

#include <sys/socket.h>

#include <string>

namespace saccade::serve {

// True for everything that is not an ordinary public unicast address: loopback, private,
// link-local, shared, multicast, documentation and reserved ranges, also where an IPv6 address
// carries an IPv4 one. Families other than IPv4 and IPv6 are private.
bool is_private_address(const sockaddr& address, socklen_t length);

std::string address_text(const sockaddr& address, socklen_t length);  // "127.0.0.1", "::1"

}  // namespace saccade::serve
