// A server that keeps every request body and answers each completion with the same few tokens.
#pragma once

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/tcp_socket.h"

namespace saccade::test {

class RecordingServer {
 public:
  // `answer`: body of every POST; GETs get 200 and a list with one model, "recorded".
  explicit RecordingServer(std::string answer)
      : answer_(std::move(answer)), thread_([this] { run(); }) {}
  ~RecordingServer() {
    stopping_ = true;
    thread_.join();
    for (std::thread& peer : peers_) peer.join();
  }

  std::uint16_t port() const { return listener_.port(); }
  std::vector<std::string> bodies() const {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }

 private:
  void run() {
    while (!stopping_) {
      TcpSocket peer = listener_.accept(50);
      if (peer.valid()) peers_.emplace_back([this, p = std::move(peer)]() mutable { serve(p); });
    }
  }

  void serve(TcpSocket& peer) {
    while (!stopping_) {
      std::string head = peer.receive_until("\r\n\r\n", 100);
      if (head.empty()) continue;
      if (!head.ends_with("\r\n\r\n")) head += peer.receive_until("\r\n\r\n");
      if (!head.ends_with("\r\n\r\n")) return;
      std::string reply = R"({"object":"list","data":[{"id":"recorded","object":"model"}]})";
      if (head.starts_with("POST")) {
        std::size_t at = head.find("ontent-");
        while (at != std::string::npos && head.compare(at + 7, 7, "ength: ") != 0 &&
               head.compare(at + 7, 8, "Length: ") != 0)
          at = head.find("ontent-", at + 1);
        const std::size_t length =
            at == std::string::npos ? 0 : std::strtoull(head.c_str() + at + 15, nullptr, 10);
        std::string body = peer.receive_bytes(length);
        const std::lock_guard lock(mutex_);
        bodies_.push_back(std::move(body));
        reply = answer_;
      }
      peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(reply.size()) + "\r\n\r\n" + reply);
    }
  }

  TcpListener listener_;
  std::string answer_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> bodies_;
  std::vector<std::thread> peers_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace saccade::test
