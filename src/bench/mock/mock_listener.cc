#include "bench/mock/mock_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace saccade::bench {

Result<int> listen_on(const std::string& host, std::uint16_t port, bool shared_port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) {
    return fail(ErrorCode::kInvalid, "host {}: {}", host, gai_strerror(error));
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (shared_port) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  const bool listening =
      fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
  const int error = errno;
  freeaddrinfo(found);
  if (listening) return fd;
  if (fd >= 0) ::close(fd);
  return fail(ErrorCode::kUnavailable, "cannot listen on {}:{}: {}", host, port,
              std::strerror(error));
}

std::uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace saccade::bench
