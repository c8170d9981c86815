// What a hostile stranger sends: well-formed HTTP with what should not be asked, and bytes that are
// no HTTP at all.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"

namespace saccade::soak {

struct HostileRequest {
  std::string name;
  std::string method;
  std::string path;
  std::string body;
  std::set<int> statuses;  // any of these is a good answer
  bool with_key = true;
};
std::vector<HostileRequest> hostile_requests(const std::string& image_host);

// Misuses one connection for some seconds at most. What the server did wrong, if anything; a
// server that is being ended does nothing wrong by hanging up.
struct HostileConnection {
  std::string name;
  std::optional<std::string> (*act)(std::uint16_t port, const std::string& key, Rng& rng);
};
const std::vector<HostileConnection>& hostile_connections();

}  // namespace saccade::soak
