// Python's sorted(): stable, by keys that may refuse to be compared.
#pragma once

#include <vector>

#include "base/result.h"
#include "text/jinja/state.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

// Reorders `items` by `keys` (one each). kInvalid where Python's < refuses a pair.
Result<void> stable_sort(RenderState& state, std::vector<Value>& items, std::vector<Value> keys,
                         bool reverse);

}  // namespace saccade::jinja
