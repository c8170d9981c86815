// Counts of pages and tokens are signed; what they index is not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saccade {

inline std::size_t at_index(std::int64_t i) { return static_cast<std::size_t>(i); }

inline std::int64_t divide_up(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace saccade
