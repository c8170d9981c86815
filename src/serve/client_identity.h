// Who shares the server with whom (--fairness client).
#pragma once

#include <cstdint>
#include <string_view>

namespace saccade::serve {

// One number for all requests of one API key; without a key, of one address: an IPv4 address, or
// the 64 bits of an IPv6 one that a network has. `peer`: "1.2.3.4:567" or "[2001:db8::1]:567".
std::uint64_t client_of(std::string_view key, std::string_view peer);

}  // namespace saccade::serve
