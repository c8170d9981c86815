// Keys that clients send: in Authorization, or in x-api-key as Anthropic's clients do.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "net/server/http_server.h"

namespace saccade::net {

// Authorization's, without "Bearer"; x-api-key's where that is empty. Empty: neither. It is the
// request's own text.
std::string_view given_key(const HttpRequest& request);

// Whether it brings one of `keys`; true where there are none. How long it takes tells nothing of
// them but their lengths.
bool authorised(const HttpRequest& request, std::span<const std::string> keys);

}  // namespace saccade::net
