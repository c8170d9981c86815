#include "serve/client_identity.h"

#include <arpa/inet.h>

#include <string>

#include "base/hash.h"

namespace saccade::serve {

std::uint64_t client_of(std::string_view key, std::string_view peer) {
  if (!key.empty()) return hash64(key, 1);
  std::string host(peer.substr(0, peer.rfind(':')));
  if (host.size() >= 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  in6_addr address{};
  if (inet_pton(AF_INET6, host.c_str(), &address) != 1) return hash64(host, 2);
  const std::string_view bytes(reinterpret_cast<const char*>(&address), sizeof address);
  if (!IN6_IS_ADDR_V4MAPPED(&address)) return hash64(bytes.substr(0, 8), 2);
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, bytes.data() + 12, text, sizeof text);
  return hash64(std::string_view(text), 2);
}

}  // namespace saccade::serve
