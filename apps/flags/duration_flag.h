// Durations on the command line: 2s, 500ms, 1.5s, 1m, 24h; a bare number is seconds.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace saccade {

// Above 0 and up to a day. kInvalid names the flag.
Result<Nanos> parse_duration(std::string_view flag, std::string_view text);

}  // namespace saccade
