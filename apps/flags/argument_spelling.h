// Command lines as they are typed for vLLM, in the spelling that the parser knows.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace saccade {

// Dashes for the underscores of long names. Of `serve` and `batch` also: -tp, -q, -O3 and the like
// become long names, and --flag.a.b VALUE and --flag.a+ VALUE become one --flag with JSON, which
// stands where the first of them stood. kInvalid names a dotted flag that cannot be put together.
Result<std::vector<std::string>> spelled_out(std::vector<std::string> arguments);

}  // namespace saccade
