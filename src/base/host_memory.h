// How much memory this process may still take.
#pragma once

#include <cstdint>

namespace saccade {

// Bytes that Linux calls available, within the control group's limit. 0 when it cannot be told.
std::int64_t available_host_bytes();

}  // namespace saccade
