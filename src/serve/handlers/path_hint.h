// What a client may have meant by a path that there is not.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace saccade::serve {

// A path for which `exists` is true: the same under /v1 (a base URL without it), with /v1 once (one
// with it twice), without a last slash, in the plural, or what other servers call it. Empty: none.
std::string path_meant(std::string_view path, const std::function<bool(std::string_view)>& exists);

}  // namespace saccade::serve
