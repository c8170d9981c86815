// The answering end of one request: what a Responder is a handle of. Internal to net/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "net/http_server.h"

namespace saccade::net {

class ServerConnection;

// Any thread. Remembers whether the answer was completed; if it was not when the last handle dies,
// the connection is told.
class Responder::Exchange {
 public:
  Exchange(std::shared_ptr<ServerConnection> connection, std::uint64_t number)
      : connection_(std::move(connection)), number_(number) {}
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  ServerConnection& connection() const { return *connection_; }
  const std::shared_ptr<ServerConnection>& shared_connection() const { return connection_; }
  std::uint64_t number() const { return number_; }
  void complete() { completed_.store(true, std::memory_order_relaxed); }

 private:
  std::shared_ptr<ServerConnection> connection_;
  std::uint64_t number_;
  std::atomic<bool> completed_{false};
};

}  // namespace saccade::net
