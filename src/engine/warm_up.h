// What an engine runs before it serves.
#pragma once

#include "engine/engine.h"
#include "engine/engine_setup.h"

namespace saccade {

// The same parts, after an engine of their own has run what `with` has for it. What fails of it is
// said, and made later.
Result<EngineParts> warmed_up(EngineParts parts, Network& network, Device& device,
                              const Clock& clock, bool tower, const WarmUp& with);

}  // namespace saccade
