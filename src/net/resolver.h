// Host names to addresses without blocking the event loop. Internal to net/.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/event_loop.h"

namespace saccade::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};
using Addresses = std::vector<SocketAddress>;

// Numeric hosts at once; null for a name.
std::shared_ptr<const Addresses> numeric_addresses(const std::string& host, std::uint16_t port);

// Looks the name up on a thread of its own and posts the answer. The system's look-up cannot be
// stopped: a loop that ends earlier never hears of it.
void resolve(const std::string& host, std::uint16_t port,
             const std::shared_ptr<EventLoop::Mailbox>& answer_to,
             const std::function<void(Result<std::shared_ptr<const Addresses>>)>& done);

}  // namespace saccade::net
