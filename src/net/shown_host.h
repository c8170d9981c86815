// A host as it stands in a URL.
#pragma once

#include <string>
#include <string_view>

namespace saccade::net {

// An IPv6 address has brackets around it.
inline std::string shown_host(std::string_view host) {
  const bool bare = host.find(':') != std::string_view::npos && !host.starts_with('[');
  std::string shown;
  if (bare) shown += '[';
  shown += host;
  if (bare) shown += ']';
  return shown;
}

}  // namespace saccade::net
