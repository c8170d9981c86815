// getaddrinfo on a thread.
#include "net/client/resolver.h"

#include <netdb.h>

#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "base/text/ascii.h"

namespace saccade::net {
namespace {

Result<std::shared_ptr<const Addresses>> look_up(const std::string& host, std::uint16_t port,
                                                 int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return fail(ErrorCode::kUnavailable, "cannot resolve {}: {}", host, gai_strerror(error));
  }
  auto addresses = std::make_shared<Addresses>();
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    addresses->push_back(address);
  }
  freeaddrinfo(found);
  return addresses;
}

}  // namespace

bool is_localhost(std::string_view host) {
  if (host.ends_with('.')) host.remove_suffix(1);
  const std::string lower = ascii::lower(host);
  return lower == "localhost" || lower.ends_with(".localhost");
}

std::shared_ptr<const Addresses> known_addresses(const std::string& host, std::uint16_t port) {
  if (!is_localhost(host)) {
    auto found = look_up(host, port, AI_NUMERICHOST);
    return found ? *std::move(found) : nullptr;
  }
  Addresses both;
  for (const char* loopback : {"127.0.0.1", "::1"})
    if (const auto found = look_up(loopback, port, AI_NUMERICHOST))
      both.push_back((*found)->front());
  return std::make_shared<const Addresses>(std::move(both));
}

void resolve(const std::string& host, std::uint16_t port,
             const std::shared_ptr<EventLoop::Mailbox>& answer_to,
             const std::function<void(Result<std::shared_ptr<const Addresses>>)>& done) {
  const auto look_up_and_answer = [host, port, answer_to, done] {
    answer_to->post([done, found = look_up(host, port, 0)] { done(found); });
  };
  try {
    std::thread(look_up_and_answer).detach();
  } catch (const std::system_error&) {
    look_up_and_answer();  // no thread to be had
  }
}

}  // namespace saccade::net
