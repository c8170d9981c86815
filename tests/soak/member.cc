#include "tests/soak/member.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <utility>

#include "base/check.h"

namespace saccade::soak {
namespace {

constexpr int kEndSeconds = 120;

}  // namespace

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::kKilled:
      return "killed";
    case Fault::kFrozen:
      return "frozen";
    case Fault::kRestarted:
      break;
  }
  return "restarted";
}

Member::Member(std::string name, Part part, std::string server, std::vector<std::string> flags)
    : name_(std::move(name)), part_(part), binary_(std::move(server)), flags_(std::move(flags)) {}

Member::Member(std::string name) : name_(std::move(name)), part_(Part::kStore) {}

void Member::start() {
  ++lives_;
  if (part_ != Part::kStore) {
    server_ = std::make_unique<test::ServerProcess>(binary_, flags_);
  } else if (redis_ == nullptr) {
    redis_ = std::make_unique<test::RedisProcess>(
        std::vector<std::string>{"--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"});
  } else {
    redis_->start();
  }
}

void Member::signal(int number) const {
  if (redis_ != nullptr) return redis_->signal(number);
  server_->signal(number);
}

int Member::end(int number) {
  if (redis_ != nullptr) {
    redis_->end(number);
    return 0;
  }
  server_->signal(number);
  return server_->wait_at_most(kEndSeconds);
}

std::size_t FaultLog::begins(std::size_t member, Part part, Fault fault, Nanos now) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({member, part, fault, now, 0});
  return entries_.size() - 1;
}

void FaultLog::ends(std::size_t entry, Nanos now) {
  const std::lock_guard lock(mutex_);
  entries_[entry].until = now;
}

int FaultLog::count(Part part, std::optional<Fault> fault, Nanos from, Nanos to) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(entries_, [&](const Entry& entry) {
    return entry.part == part && (!fault || entry.fault == *fault) && entry.from <= to &&
           (entry.until == 0 || entry.until >= from);
  }));
}

std::vector<FaultLog::Entry> FaultLog::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

std::uint16_t quiet_port() {
  constexpr int kFirst = 20'000;
  constexpr int kLast = 32'000;
  std::random_device random;
  for (int i = 0; i < 1000; ++i) {
    const auto port = static_cast<std::uint16_t>(
        kFirst + static_cast<int>(random() % static_cast<unsigned>(kLast - kFirst)));
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(socket >= 0, "a socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const bool is_free =
        bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(socket);
    if (is_free) return port;
  }
  CHECK(false, "no free port between {} and {}", kFirst, kLast);
}

}  // namespace saccade::soak
