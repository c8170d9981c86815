#include "serve/handlers/origin.h"

#include <algorithm>

#include "base/text/ascii.h"
#include "net/authority.h"

namespace saccade::serve {

bool may_use(std::string_view origin, std::string_view host_header,
             std::span<const std::string> allowed, bool own_host) {
  if (origin.empty()) return true;
  const auto named = [&](std::string_view name) {
    return std::find(allowed.begin(), allowed.end(), name) != allowed.end();
  };
  if (named("*") || named(origin)) return true;
  std::string_view written;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) written = origin.substr(scheme.size());
  }
  const auto page = net::parse_authority(written);
  // "null", "file://", an extension's, or not as browsers write an origin
  if (!page || written.ends_with(':')) return false;
  if (net::is_loopback(page->host)) return true;
  return own_host && ascii::lower(written) == ascii::lower(host_header);
}

}  // namespace saccade::serve
