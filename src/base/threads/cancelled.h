// Whether long work is still wanted, asked between two pieces of it.
#pragma once

#include <functional>

#include "base/result.h"

namespace saccade {

// True from the moment on that nobody waits for the work. Called on whichever thread does it, some
// thousand times a second; must not throw. Empty: the work goes on to its end.
using Cancelled = std::function<bool()>;

inline bool is_cancelled(const Cancelled& cancelled) { return cancelled && cancelled(); }

inline Result<void> check_cancelled(const Cancelled& cancelled) {
  if (is_cancelled(cancelled)) return fail(ErrorCode::kCancelled, "nobody waits for it any more");
  return {};
}

}  // namespace saccade
