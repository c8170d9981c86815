// What an answer of 503 carries where its server ends and has done nothing of the request: whoever
// stands in front may ask another at once.
#pragma once

#include <string_view>

namespace saccade::api {

inline constexpr std::string_view kDrainingHeader = "x-saccade-draining";

}  // namespace saccade::api
