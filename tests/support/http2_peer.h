// A peer that speaks HTTP/2 and is no gRPC server: it answers each of gRPC's messages with the
// frames that it was told to.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/http2_frames.h"
#include "tests/support/tcp_socket.h"

namespace saccade::test {

class Http2Peer {
 public:
  // Frames in answer to a message (one that came in a frame of its own). Called by a thread for
  // each connection.
  using Answer = std::function<std::string(std::uint32_t stream, std::string_view message)>;

  // A connection is closed when so many messages were answered, or when nothing came for so long;
  // 0: never.
  explicit Http2Peer(Answer answer, int messages = 0, int idle_ms = 0)
      : answer_(std::move(answer)),
        messages_(messages),
        idle_ms_(idle_ms),
        thread_([this] { accept_all(); }) {}
  ~Http2Peer() {
    stopping_ = true;
    thread_.join();
    for (std::thread& client : clients_) client.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(listener_.port()); }
  int answered() const { return answered_; }

 private:
  void accept_all() {
    while (!stopping_) {
      TcpSocket client = listener_.accept(50);
      if (client.valid())
        clients_.emplace_back([this, c = std::move(client)]() mutable { serve(c); });
    }
  }

  std::string read(TcpSocket& client, std::size_t count) const {
    constexpr int kPollMs = 50;
    std::string bytes;
    int idle = 0;
    while (bytes.size() < count && !stopping_) {
      pollfd waiting{client.fd(), POLLIN, 0};
      if (poll(&waiting, 1, kPollMs) <= 0) {
        idle += kPollMs;
        if (idle_ms_ > 0 && idle >= idle_ms_) break;
        continue;
      }
      idle = 0;
      std::string piece(count - bytes.size(), '\0');
      const ssize_t got = recv(client.fd(), piece.data(), piece.size(), 0);
      if (got <= 0) break;
      bytes.append(piece, 0, static_cast<std::size_t>(got));
    }
    return bytes;
  }

  void serve(TcpSocket& client) {
    constexpr std::size_t kPreface = 24;
    constexpr std::size_t kFrameHead = 9;
    if (read(client, kPreface).size() < kPreface) return;
    client.send(frame(Http2Frame::kSettings, 0, 0, ""));
    for (int answered = 0; messages_ == 0 || answered < messages_;) {
      const std::string head = read(client, kFrameHead);
      if (head.size() < kFrameHead) return;
      const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(head[at]); };
      const std::size_t length = byte(0) << 16 | byte(1) << 8 | byte(2);
      const std::uint32_t stream = (byte(5) & 0x7fU) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
      const std::string payload = read(client, length);
      const auto type = static_cast<Http2Frame>(head[3]);
      const bool acknowledged = (byte(4) & 1) != 0;
      if (type == Http2Frame::kSettings && !acknowledged)
        client.send(frame(Http2Frame::kSettings, 1, 0, ""));
      if (type == Http2Frame::kPing && !acknowledged)
        client.send(frame(Http2Frame::kPing, 1, 0, payload));
      constexpr std::size_t kMessageHead = 5;
      if (type == Http2Frame::kData && length >= kMessageHead) {
        client.send(answer_(stream, std::string_view(payload).substr(kMessageHead)));
        ++answered_;
        ++answered;
      }
    }
  }

  const Answer answer_;
  const int messages_;
  const int idle_ms_;
  TcpListener listener_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> answered_{0};
  std::vector<std::thread> clients_;  // of thread_
  std::thread thread_;                // last: it uses all above
};

}  // namespace saccade::test
