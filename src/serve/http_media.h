// Images from http(s) URLs, under the rules of MediaSettings.
#pragma once

#include <atomic>
#include <string>

#include "base/result.h"
#include "serve/media_fetcher.h"

namespace saccade::serve {

// Every hop of a redirect is held against the allowed domains, and every address against the
// private ranges at the moment of connecting, so that a DNS answer cannot change in between.
// Proxies from the environment are not used: behind one, the address check would be of the proxy.
Result<std::string> fetch_http(const std::string& url, const MediaSettings& settings,
                               const std::atomic<bool>& cancelled);

}  // namespace saccade::serve
