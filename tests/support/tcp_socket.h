// A blocking TCP socket for tests: an HTTP peer that can misbehave as it likes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace saccade::test {

// How long something that is to come is waited for. A test that waits for nothing to come says how
// long.
constexpr int kPatienceMs = 60'000;

class TcpSocket {
 public:
  TcpSocket() = default;
  explicit TcpSocket(int fd) : fd_(fd) {}
  ~TcpSocket() { close(); }
  TcpSocket(TcpSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), held_(std::move(other.held_)) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    held_ = std::move(other.held_);
    return *this;
  }

  static TcpSocket connect(std::uint16_t port, int receive_buffer = 0) {
    TcpSocket connected(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer > 0) {
      setsockopt(connected.fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(connected.fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      connected.close();
    }
    const int on = 1;
    setsockopt(connected.fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connected;
  }

  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // What arrives next, at most `limit` bytes; empty at the end, on error, and after `timeout_ms`.
  std::string receive(int timeout_ms = kPatienceMs, std::size_t limit = 65536) {
    if (!held_.empty()) return std::exchange(held_, {});
    pollfd poll_set{fd_, POLLIN, 0};
    if (::poll(&poll_set, 1, timeout_ms) <= 0) return {};
    std::string bytes(limit, '\0');
    const ssize_t received = ::recv(fd_, bytes.data(), bytes.size(), 0);
    bytes.resize(received > 0 ? static_cast<std::size_t>(received) : 0);
    return bytes;
  }

  // Everything up to and including `mark`; what is there so far when it does not come.
  std::string receive_until(std::string_view mark, int timeout_ms = kPatienceMs) {
    std::string bytes;
    while (true) {
      const std::size_t found = bytes.find(mark);
      if (found != std::string::npos) {
        held_ = bytes.substr(found + mark.size());
        bytes.resize(found + mark.size());
        return bytes;
      }
      const std::string more = receive(timeout_ms);
      if (more.empty()) return bytes;
      bytes += more;
    }
  }

  std::string receive_bytes(std::size_t count, int timeout_ms = kPatienceMs) {
    std::string bytes;
    while (bytes.size() < count) {
      const std::string more = receive(timeout_ms);
      if (more.empty()) return bytes;
      bytes += more;
    }
    held_ = bytes.substr(count);
    bytes.resize(count);
    return bytes;
  }

  std::string receive_all(int timeout_ms = kPatienceMs) {
    std::string bytes;
    while (true) {
      const std::string more = receive(timeout_ms);
      if (more.empty()) return bytes;
      bytes += more;
    }
  }

  // The peer closed (or reset) the connection within the time, with nothing more to read.
  bool at_end(int timeout_ms = kPatienceMs) {
    if (!held_.empty()) return false;
    pollfd poll_set{fd_, POLLIN, 0};
    if (::poll(&poll_set, 1, timeout_ms) <= 0) return false;
    char byte;
    return ::recv(fd_, &byte, 1, MSG_PEEK) <= 0;
  }

  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }
  void reset() {  // closes with RST
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
  std::string held_;  // received behind a mark
};

// Accepts on a free port of 127.0.0.1.
class TcpListener {
 public:
  TcpListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const bool listening =
        ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        ::listen(fd_, 128) == 0 &&
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    if (listening) port_ = ntohs(address.sin_port);
  }
  ~TcpListener() { close(); }
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  std::uint16_t port() const { return port_; }
  TcpSocket accept(int timeout_ms = kPatienceMs) {
    pollfd poll_set{fd_, POLLIN, 0};
    if (::poll(&poll_set, 1, timeout_ms) <= 0) return {};
    return TcpSocket(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

// That nothing listens at, at this moment.
inline std::uint16_t free_port() { return TcpListener().port(); }

}  // namespace saccade::test
