// Host names to addresses without blocking the event loop. Internal to net/.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/event_loop.h"

namespace saccade::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};
using Addresses = std::vector<SocketAddress>;

// "localhost" and all names below it: this machine, whatever its files and its name server say
// (RFC 6761, section 6.3). A minimal container has neither.
bool is_localhost(std::string_view host);

// What needs no look-up: numeric hosts, and 127.0.0.1 then ::1 for localhost. Null for other names.
std::shared_ptr<const Addresses> known_addresses(const std::string& host, std::uint16_t port);

// Looks the name up on a thread of its own and posts the answer. The system's look-up cannot be
// stopped: a loop that ends earlier never hears of it.
void resolve(const std::string& host, std::uint16_t port,
             const std::shared_ptr<EventLoop::Mailbox>& answer_to,
             const std::function<void(Result<std::shared_ptr<const Addresses>>)>& done);

}  // namespace saccade::net
