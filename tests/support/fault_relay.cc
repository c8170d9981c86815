#include "tests/support/fault_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "base/check.h"
#include "base/hash.h"

namespace saccade::test {
namespace {

constexpr int kPollMs = 50;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

FaultRelay::FaultRelay(std::uint16_t port) : target_(port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  CHECK(::listen(listener_, 64) == 0, "listen");
  socklen_t size = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { accept_all(); });
}

FaultRelay::~FaultRelay() {
  stopping_ = true;
  thread_.join();
  cut_all();
  for (auto& connection : connections_) {
    connection->there.join();
    connection->here.join();
    close(connection->client);
    close(connection->server);
  }
  close(listener_);
}

void FaultRelay::set(const RelayScript& script) {
  const std::lock_guard lock(mutex_);
  script_ = script;
}

RelayScript FaultRelay::script() const {
  const std::lock_guard lock(mutex_);
  return script_;
}

std::int64_t FaultRelay::passed_back() const {
  const std::lock_guard lock(mutex_);
  return connections_.empty() ? 0 : connections_.back()->back.load();
}

void FaultRelay::cut_all() {
  const std::lock_guard lock(mutex_);
  for (auto& connection : connections_) {
    shutdown(connection->client, SHUT_RDWR);
    shutdown(connection->server, SHUT_RDWR);
  }
}

void FaultRelay::accept_all() {
  while (!stopping_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, kPollMs) <= 0) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(target_);
    if (script().refuse ||
        connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(client);
      close(server);
      continue;
    }
    const int on = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto made = std::make_unique<Connection>();
    made->client = client;
    made->server = server;
    Connection* const connection = made.get();
    const std::lock_guard lock(mutex_);
    connections_.push_back(std::move(made));
    connection->there = std::thread([this, connection] { pass(*connection, false); });
    connection->here = std::thread([this, connection] { pass(*connection, true); });
  }
}

void FaultRelay::pass(Connection& connection, bool back) {
  const int from = back ? connection.server : connection.client;
  const int to = back ? connection.client : connection.server;
  char piece[16 << 10];
  while (!stopping_) {
    pollfd waiting{from, POLLIN, 0};
    if (poll(&waiting, 1, kPollMs) <= 0) continue;
    const RelayScript now = script();
    if (now.stall_after >= 0 && connection.back >= now.stall_after) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
      continue;
    }
    const ssize_t count = recv(from, piece, sizeof piece, 0);
    if (count <= 0) break;
    if (now.delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(now.delay_ms));
    if (now.bytes_a_second > 0)
      std::this_thread::sleep_for(
          std::chrono::microseconds(count * 1'000'000 / now.bytes_a_second));
    ssize_t pass_on = count;
    if (back) {
      const std::int64_t before = connection.back.fetch_add(count);
      if (now.flip_after >= 0 && before + count > now.flip_after) {
        const auto bit = mix64(now.seed + static_cast<std::uint64_t>(before)) %
                         static_cast<std::uint64_t>(count * 8);
        piece[bit / 8] = static_cast<char>(piece[bit / 8] ^ (1 << (bit % 8)));
      }
      if (now.cut_after >= 0 && before + count > now.cut_after) {
        pass_on = static_cast<ssize_t>(std::max<std::int64_t>(0, now.cut_after - before));
        if (pass_on > 0) send(to, piece, static_cast<std::size_t>(pass_on), MSG_NOSIGNAL);
        break;
      }
    }
    for (ssize_t sent = 0; sent < pass_on;) {
      const ssize_t n =
          send(to, piece + sent, static_cast<std::size_t>(pass_on - sent), MSG_NOSIGNAL);
      if (n <= 0) {
        sent = pass_on;
        break;
      }
      sent += n;
    }
  }
  shutdown(connection.client, SHUT_RDWR);
  shutdown(connection.server, SHUT_RDWR);
}

}  // namespace saccade::test
