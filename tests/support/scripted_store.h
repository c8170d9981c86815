// A server that speaks RESP as badly as it is told to: accepts, reads whatever comes, and answers
// each command with the next line of its script.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/tcp_socket.h"

namespace saccade::test {

struct ScriptedAnswer {
  std::string bytes;
  int wait_ms = 0;        // before each piece
  std::size_t piece = 0;  // bytes at a time; 0: all at once
  bool close = false;     // after it
};

class ScriptedStore {
 public:
  explicit ScriptedStore(std::vector<ScriptedAnswer> script)
      : script_(script.begin(), script.end()), listener_(listen()), thread_([this] { serve(); }) {}
  ~ScriptedStore() {
    stopping_ = true;
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  ScriptedStore(const ScriptedStore&) = delete;
  ScriptedStore& operator=(const ScriptedStore&) = delete;

  std::uint16_t port() const { return port_; }
  int connections() const { return connections_; }
  std::string received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }

 private:
  int listen() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(fd, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(fd, 8);
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    return fd;
  }

  void serve() {
    while (!stopping_) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      ++connections_;
      const TcpSocket peer(fd);
      while (!stopping_ && answer(peer)) {
      }
    }
  }

  // One piece of what is asked, one answer. False: the connection has ended.
  bool answer(const TcpSocket& peer) {
    pollfd ready{peer.fd(), POLLIN, 0};
    if (poll(&ready, 1, 20) == 0) return true;
    char bytes[65'536];
    const ssize_t count = recv(peer.fd(), bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    ScriptedAnswer next;
    {
      const std::lock_guard lock(mutex_);
      received_.append(bytes, static_cast<std::size_t>(count));
      if (script_.empty()) return true;  // says nothing more
      next = script_.front();
      script_.pop_front();
    }
    std::string_view left = next.bytes;
    while (!left.empty() && !stopping_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(next.wait_ms));
      const std::size_t size = next.piece == 0 ? left.size() : std::min(next.piece, left.size());
      if (send(peer.fd(), left.data(), size, MSG_NOSIGNAL) < 0) return false;
      left.remove_prefix(size);
    }
    return !next.close;
  }

  mutable std::mutex mutex_;
  std::deque<ScriptedAnswer> script_;  // guarded by mutex_
  std::string received_;               // guarded by mutex_
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::uint16_t port_ = 0;
  int listener_;
  std::thread thread_;  // last: uses everything above
};

}  // namespace saccade::test
