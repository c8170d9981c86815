// Whether an engine could ever answer a request: what is refused here would wait for ever, or would
// break what follows.
#pragma once

#include "engine/engine_plan.h"
#include "engine/request.h"

namespace saccade {

// What requests are held against. Nothing of it changes once an engine has been set up: any thread
// may check.
struct RequestLimits {
  const EnginePlan& plan;  // settings as resolved
  const ModelShape& shape;
  const KvAllocator& kv;
  bool takes_images = false;  // somebody encodes them
};

// Errors name what does not fit and both numbers.
Result<void> check_request(const Request& request, const RequestLimits& limits);

}  // namespace saccade
