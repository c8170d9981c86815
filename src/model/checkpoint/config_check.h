// What is wrong in a configuration whatever the family: values that nothing could be meant by, and
// that would else be cut to 32 bits or passed over.
#pragma once

#include "base/json.h"
#include "base/result.h"

namespace saccade {

// Of config.json with all its sections, and of generation_config.json: names of classes, ids of
// special tokens, channels of pixels. kInvalid with the member's path and its value.
Result<void> check_config(const json::object& config, const json::object& generation);

}  // namespace saccade
