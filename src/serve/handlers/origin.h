// Which web pages may use the server: CORS, and the requests that browsers send without asking.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace saccade::serve {

// An Origin header (a page's scheme, host and port) beside the request's Host header.
//
// Allowed: no origin (not a page, or its own page's GET), what the operator names ("*": all), pages
// of this machine (localhost, 127.0.0.0/8, [::1]), and the server's own: those whose host is the
// Host header. A name in Host may be another site's that points here (DNS rebinding), so own pages
// are known where `own_host`: Host is an address or a name that the operator gave, or clients need
// an API key.
bool may_use(std::string_view origin, std::string_view host_header,
             std::span<const std::string> allowed, bool own_host);

}  // namespace saccade::serve
