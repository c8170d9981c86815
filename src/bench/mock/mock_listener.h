// The listening sockets of the mock server.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace saccade::bench {

// A socket that listens and does not block, the caller's to close. Port 0 takes a free one; with
// `shared_port` others may listen on it too, one a thread. kInvalid: no such host; kUnavailable.
Result<int> listen_on(const std::string& host, std::uint16_t port, bool shared_port);
std::uint16_t port_of(int fd);

}  // namespace saccade::bench
