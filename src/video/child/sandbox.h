// A process gives up what a decoder does not need. Linux.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace saccade::video {

struct SandboxLimits {
  std::size_t memory = 0;     // beyond what the process has mapped now
  std::uint64_t seconds = 0;  // of the processor
};

// From here on the process reads and writes what it has open, allocates within `memory`, looks at
// clocks, and ends. Whatever else it asks of the kernel ends it (SIGSYS), as do `seconds` (SIGXCPU)
// and the end of the thread that started it. There is no way back. Any error means that nothing
// hostile may be looked at.
Result<void> enter_sandbox(const SandboxLimits& limits);

}  // namespace saccade::video
