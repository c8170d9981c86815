#include "tests/soak/image_host.h"

#include <chrono>
#include <fstream>
#include <list>
#include <sstream>

#include "tests/support/tcp_socket.h"

namespace saccade::soak {

using test::TcpListener;
using test::TcpSocket;

struct ImageHost::State {
  struct Visit {
    std::atomic<bool> done = false;
    std::thread thread;
  };

  std::vector<std::string> folders;
  TcpListener listener;
  std::atomic<bool> stopping = false;
  std::list<Visit> visits;  // the accepting thread's
  std::thread accepting;

  void accept() {
    while (!stopping) {
      TcpSocket peer = listener.accept(50);
      if (peer.valid()) {
        Visit& visit = visits.emplace_back();
        visit.thread = std::thread([this, &visit, p = std::move(peer)]() mutable {
          answer(p);
          p.close();
          visit.done = true;
        });
      }
      visits.remove_if([](Visit& visit) {
        if (!visit.done) return false;
        visit.thread.join();
        return true;
      });
    }
    for (Visit& visit : visits) visit.thread.join();
  }

  std::string file(const std::string& name) const {
    for (const std::string& folder : folders) {
      std::ifstream stream(folder + "/" + name, std::ios::binary);
      std::ostringstream bytes;
      if (stream && (bytes << stream.rdbuf())) return bytes.str();
    }
    return {};
  }

  // True when the peer hung up, or the host is to end.
  bool wait(TcpSocket& peer, int milliseconds) const {
    for (int waited = 0; waited < milliseconds && !stopping; waited += 50) {
      if (peer.at_end(50)) return true;
    }
    return stopping;
  }

  void answer(TcpSocket& peer) const {
    const std::string head = peer.receive_until("\r\n\r\n");
    const std::size_t slash = head.find('/');
    if (slash == std::string::npos) return;
    std::string name = head.substr(slash + 1, head.find(' ', slash) - slash - 1);
    constexpr int kNever = 3'600'000;
    if (name == "stall") {
      wait(peer, kNever);
      return;
    }
    if (name == "endless") {
      peer.send("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n");
      while (peer.send(std::string(4096, 'x')) && !wait(peer, 50)) {
      }
      return;
    }
    if (name == "round") {
      peer.send(
          "HTTP/1.1 302 Found\r\nLocation: /round\r\nContent-Length: 0\r\n"
          "Connection: close\r\n\r\n");
      return;
    }
    if (name.starts_with("late/")) {
      if (wait(peer, 700)) return;
      name = name.substr(5);
    }
    const bool torn = name == "torn";
    const std::string bytes = torn ? std::string(5000, 'x') : file(name);
    const std::string status = bytes.empty() ? "404 Not Found" : "200 OK";
    peer.send("HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: " +
              std::to_string(bytes.size() * (torn ? 2 : 1)) + "\r\n\r\n" + bytes);
    peer.shutdown_send();
    wait(peer, 5000);
  }
};

ImageHost::ImageHost(std::vector<std::string> folders) : state_(std::make_unique<State>()) {
  state_->folders = std::move(folders);
  state_->accepting = std::thread([this] { state_->accept(); });
}

ImageHost::~ImageHost() {
  state_->stopping = true;
  state_->accepting.join();
}

std::string ImageHost::url() const {
  return "http://127.0.0.1:" + std::to_string(state_->listener.port());
}

}  // namespace saccade::soak
